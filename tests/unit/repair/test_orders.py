"""Orders for one cgroup are one write, in the order of their coming; an end takes precedence."""

from threading import Thread

from nri_coloc.core.decisions import Moves
from nri_coloc.repair.orders import Orders, Taken


def test_equal_orders_are_one():
    orders = Orders()
    orders.add(Moves(("web",), ("b", "a")))
    orders.add(Moves(("web",), ("a", "c")))
    taken = orders.take(0)
    assert taken is not None
    assert (list(taken.pods), list(taken.containers), taken.sweeps) == (["web"], ["b", "a", "c"], ())


def test_orders_are_taken_once():
    orders = Orders()
    orders.add(Moves(("web",)))
    orders.take(0)
    assert orders.take(0) == ({}, {}, ())


def test_an_ordered_sweep_has_a_future():
    orders = Orders()
    asked = orders.add_sweep()
    taken = orders.take(0)
    assert taken is not None
    assert taken.sweeps == (asked,)


def test_an_order_ends_the_wait():
    orders = Orders()
    found: list[Taken | None] = []
    thread = Thread(target=lambda: found.append(orders.take(60)))
    thread.start()
    orders.add(Moves(("web",)))
    thread.join(30)
    assert found == [({"web": None}, {}, ())]


def test_nothing_is_taken_after_the_end():
    orders = Orders()
    orders.add(Moves(("web",)))
    orders.end()
    assert orders.take(60) is None


def test_equal_orders_do_not_pile_up():
    orders = Orders()
    for n in range(10_000):
        orders.add(Moves(("web",), (f"c{n % 3}",)))
    assert len(orders._moves) < 1000
    assert orders.take(0) == ({"web": None}, dict.fromkeys(("c0", "c1", "c2")), ())
