"""kubernetes/eviction_orders.py: the bounded book of open eviction orders."""

from dataclasses import replace

import pytest

from nri_coloc.core.evictions import LONGEST_S, PAUSE_S, REFUSED_S, Outcome, Result
from nri_coloc.kubernetes import eviction_orders
from nri_coloc.kubernetes.eviction_orders import Book
from tests.rig.eviction_orders import BATCH

NOW = 1000.0
WISH = replace(BATCH, by_operator=False)


def other(number):
    return replace(WISH, pod_uid=f"other-{number}")


def after(outcome, *, retry_after_s=0):
    """Return a book whose only order has this outcome."""
    result = Result("e1", outcome, "the words", retry_after_s)
    return eviction_orders.with_results(eviction_orders.ordered(Book(), "e1", WISH, NOW), [result], NOW).book


def test_a_pod_has_one_order():
    book = eviction_orders.ordered(Book(), "e1", WISH, NOW)
    assert "open already" in eviction_orders.problem(book, WISH, NOW)
    assert eviction_orders.problem(book, other(1), NOW) == ""


def test_sixteen_orders_are_open_at_most():
    book = Book()
    for number in range(eviction_orders.MOST_OPEN):
        assert eviction_orders.problem(book, other(number), NOW) == ""
        book = eviction_orders.ordered(book, f"e{number}", other(number), NOW)
    assert "16 eviction orders" in eviction_orders.problem(book, WISH, NOW)


def test_a_result_closes_its_order():
    book = eviction_orders.ordered(eviction_orders.ordered(Book(), "e1", WISH, NOW), "e2", other(2), NOW)
    turn = eviction_orders.with_results(book, [Result("e2", Outcome.GONE, "ended")], NOW)
    assert [each.id for each in turn.book.open] == ["e1"]
    assert [each.result.outcome for each in turn.closed] == [Outcome.GONE]


def test_the_result_of_an_unknown_order_is_ignored():
    book = eviction_orders.ordered(Book(), "e1", WISH, NOW)
    assert eviction_orders.with_results(book, [Result("e9", Outcome.ACCEPTED, "")], NOW) == (book, ())


def test_an_order_without_a_result_expires():
    book = eviction_orders.ordered(Book(), "e1", replace(WISH, expires_s=60.0), NOW)
    assert eviction_orders.without_expired(book, NOW + 59.9).closed == ()
    (closed,) = eviction_orders.without_expired(book, NOW + 60.0).closed
    assert closed.result.outcome is Outcome.UNREACHABLE
    assert "60 s" in closed.result.detail


def test_no_order_lives_longer_than_ten_minutes():
    book = eviction_orders.ordered(Book(), "e1", replace(WISH, expires_s=1e9), NOW)
    assert len(eviction_orders.without_expired(book, NOW + LONGEST_S).closed) == 1


def test_an_accepted_pod_is_not_ordered_again():
    book = after(Outcome.ACCEPTED)
    assert "grace period" in eviction_orders.problem(book, WISH, NOW + 60)
    assert eviction_orders.leaving(book, NOW + 60) == {WISH.pod_uid}


def test_a_false_acceptance_holds_for_ten_minutes():
    book = after(Outcome.ACCEPTED)
    assert eviction_orders.leaving(book, NOW + eviction_orders.LEAVING_S) == frozenset()
    assert eviction_orders.problem(book, WISH, NOW + eviction_orders.LEAVING_S) == ""


@pytest.mark.parametrize(("retry_after_s", "pause_s"), [(0, PAUSE_S), (120, 120)])
def test_a_refused_pod_has_a_pause(retry_after_s, pause_s):
    book = after(Outcome.BUDGET, retry_after_s=retry_after_s)
    assert (
        eviction_orders.problem(book, WISH, NOW + pause_s - 1) == "the words; the next order follows in 1 s"
    )
    assert eviction_orders.problem(book, WISH, NOW + pause_s) == ""


def test_a_refusal_without_a_time_holds_long():
    book = after(Outcome.REFUSED)
    assert eviction_orders.problem(book, WISH, NOW + REFUSED_S - 1)
    assert eviction_orders.problem(book, WISH, NOW + REFUSED_S) == ""


@pytest.mark.parametrize("outcome", [Outcome.BUDGET, Outcome.ACCEPTED])
def test_an_operator_who_waits_need_not_pause(outcome):
    assert eviction_orders.problem(after(outcome), BATCH, NOW + 1, again=True) == ""
    assert eviction_orders.problem(after(outcome), BATCH, NOW + 1)


def test_the_book_does_not_grow():
    book = Book()
    for number in range(eviction_orders.MOST_CLOSED + 10):
        book = eviction_orders.ordered(book, "e", other(number), NOW)
        book = eviction_orders.with_results(book, [Result("e", Outcome.GONE, "")], NOW).book
    assert len(book.closed) == eviction_orders.MOST_CLOSED


@pytest.mark.parametrize("text", ["x" * 201, "one\nline"])
def test_a_text_that_breaks_the_contract_is_refused(text):
    assert "text" in eviction_orders.problem(Book(), replace(WISH, text=text), NOW)


@pytest.mark.parametrize(
    "field",
    [
        {"namespace": ""},
        {"namespace": "../kube-system"},
        {"name": "x" * 254},
        {"name": "Big"},
        {"pod_uid": ""},
        {"pod_uid": "a\nb"},
    ],
)
def test_a_sandbox_beside_kubernetes_is_not_ordered(field):
    assert "never gives" in eviction_orders.problem(Book(), replace(WISH, **field), NOW)
