"""core/state.py: containers are kept by id, and a change copies only one part of the map."""

from functools import reduce

from hypothesis import given
from hypothesis import strategies as st

from nri_coloc.core.state import EMPTY, Assignment, Crowd
from nri_coloc.core.value import replace
from nri_coloc.core.workload import Container, QoSClass


def one(container_id: str, pod_id: str = "p", pool: str = "share") -> Assignment:
    return Assignment(Container(container_id, pod_id), QoSClass.SHARED, pool)


POOLS = ("share", "gold", "dedicated")
CROWDS = st.lists(st.tuples(st.text("0af", max_size=3), st.text("0af", max_size=2)), max_size=20)


@given(CROWDS, st.lists(st.text("0af", max_size=3), max_size=5))
def test_it_holds_what_a_dict_would_hold(pairs, leaving):
    by_id = {k: one(k, pod) for k, pod in dict(pairs).items()}
    crowd = reduce(Crowd.without, leaving, Crowd.of(by_id.values()))
    left = {k: a for k, a in by_id.items() if k not in leaving}
    assert dict(crowd) == left
    assert len(crowd) == len(left)
    for pod in {pod for _, pod in pairs}:
        assert {a.id for a in crowd.of_pod(pod)} == {k for k, a in left.items() if a.container.pod_id == pod}


@given(st.lists(st.tuples(st.text("0af", max_size=2), st.sampled_from((*POOLS, ""))), max_size=30))
def test_the_members_of_a_pool_are_those_whose_assignments_name_it(happening):
    """Pool "" in the drawn data means that the container leaves."""
    crowd = EMPTY
    for k, pool in happening:
        crowd = crowd.adding(one(k, pool=pool)) if pool else crowd.without(k)
    for pool in POOLS:
        members = {a.id for a in crowd.values() if a.pool == pool}
        assert [a.id for a in crowd.of_pool(pool) if crowd[a.id] is not a] == []
        assert {a.id for a in crowd.of_pool(pool)} == members
        assert [*crowd.ids_of_pool(pool)] == [a.id for a in crowd.of_pool(pool)]
        assert crowd.in_pool(pool) == len(crowd.of_pool(pool)) == len(members)


@given(
    st.lists(
        st.tuples(st.text("0af", max_size=2), st.sampled_from(("unmanaged", "not", "gone"))), max_size=30
    )
)
def test_unmanaged_containers_are_known_by_id(happening):
    crowd = EMPTY
    for k, kind in happening:
        changed = replace(one(k), hands_off=kind == "unmanaged")
        crowd = crowd.without(k) if kind == "gone" else crowd.adding(changed)
    assert crowd.unmanaged == {k for k, a in crowd.items() if a.hands_off}


@given(CROWDS, CROWDS)
def test_the_news_are_who_came_and_who_is_another_value(had, came):
    before = Crowd.of(one(k, pod) for k, pod in dict(had).items())
    after = reduce(Crowd.without, [k for k, _ in had[::2]], before)
    after = reduce(Crowd.adding, [one(k, pool="gold") for k in dict(came)], after)
    assert {a.id for a in after.news(before)} == {k for k in after if after[k] is not before.get(k)}


def test_a_changed_copy_leaves_the_crowd_as_it_was():
    before = Crowd.of([one("a"), one("b")])
    before.adding(one("c")).without("a")
    assert list(before) == ["a", "b"]


def test_shelves_that_did_not_change_are_shared():
    before = Crowd.of([one("a"), one("b")])
    after = before.adding(one("c"))
    assert after["a"] is before["a"]
    assert sum(x is y for x, y in zip(before._by_id, after._by_id, strict=True)) == 31


def test_a_known_id_replaces_the_former_container():
    crowd = Crowd.of([one("a"), one("a", pool="reclaim")])
    assert crowd["a"].pool == "reclaim"
    assert [a.id for a in crowd.of_pod("p")] == ["a"]


def test_what_is_not_there_is_not_found():
    assert EMPTY.get("a") is None
    assert EMPTY.get("", "nobody") == "nobody"
    assert "a" not in EMPTY
    assert list(EMPTY.of_pod("p")) == []


def test_the_order_is_the_same_however_the_interpreter_hashes():
    crowd = Crowd.of([one("b2"), one("a1"), one("c1"), one("a2")])
    assert list(crowd) == ["a1", "c1", "b2", "a2"]


def test_a_changed_container_keeps_its_place_in_its_pod():
    crowd = Crowd.of([one("a"), one("b"), one("a", pool="reclaim")])
    assert [(a.id, a.pool) for a in crowd.of_pod("p")] == [("a", "reclaim"), ("b", "share")]


def test_a_known_id_in_another_pod_leaves_the_first():
    crowd = Crowd.of([one("a", "p"), one("a", "q")])
    assert (crowd.of_pod("p"), [a.id for a in crowd.of_pod("q")]) == ((), ["a"])
