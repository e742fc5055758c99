"""pressure.reclaim_worker: chunks, refusals, and orders that end early."""

from collections.abc import Callable, Iterable
from threading import Event, Thread

import pytest

from nri_coloc.errors import KernelInterfaceError
from nri_coloc.pressure.reclaim_worker import CHUNK, Order, ReclaimWorker
from nri_coloc.pressure.taking_back import Regime, Take

SECONDS = 20.0


class Kernel:
    """Takes all that is asked, after `before` was called."""

    def __init__(self, before: Callable[[], object] = lambda: None) -> None:
        self.writes: list[tuple[str, int]] = []
        self.before = before
        self.has_more = True
        self.refusal: KernelInterfaceError | None = None
        self.wrote = Event()

    def reclaim(self, path: str, amount: int, *, only_cache: bool) -> bool:
        self.before()
        self.writes.append((path, amount))
        self.wrote.set()
        if self.refusal is not None:
            raise self.refusal
        return self.has_more


def order(name: str = "batch", amount: int = 3 * CHUNK) -> Order:
    return Order(Take(name, amount), f"kubepods/{name}", Regime.URGENT)


def carried_out(kernel: Kernel, *orders: Order, may: Callable[[str], bool] = lambda _: True) -> ReclaimWorker:
    """Carry orders out on this thread."""
    worker = Directly(kernel, may)
    worker.submit(orders)
    return worker


class Directly(ReclaimWorker):
    def submit(self, orders: Iterable[Order]) -> None:
        self._orders, self._is_busy = tuple(orders), True
        self.carry_out()


def test_an_order_is_written_in_chunks():
    kernel = Kernel()
    worker = carried_out(kernel, order(amount=2 * CHUNK + 4096))
    assert [amount for _, amount in kernel.writes] == [CHUNK, CHUNK, 4096]
    assert sum(one.amount for one in worker.results()) == 2 * CHUNK + 4096
    assert not worker.is_busy


def test_a_pod_without_more_ends_its_order():
    kernel = Kernel()
    kernel.has_more = False
    worker = carried_out(kernel, order("first"), order("second"))
    assert [path for path, _ in kernel.writes] == ["kubepods/first", "kubepods/second"]
    assert [(one.amount, one.is_empty) for one in worker.results()] == [(0, True), (0, True)]


def test_a_refusal_is_returned_once():
    kernel = Kernel()
    kernel.refusal = KernelInterfaceError("memory.reclaim", "write", "Permission denied")
    (result,) = carried_out(kernel, order()).results()
    assert result.is_empty
    assert str(result.failure) == str(kernel.refusal)


def test_a_pod_that_leaves_loses_one_chunk():
    kernel = Kernel()
    carried_out(kernel, order(), may=lambda _: not kernel.writes)
    assert len(kernel.writes) == 1


def test_a_cancelled_order_ends_after_its_chunk():
    kernel = Kernel()
    worker = Directly(kernel, lambda _: True)
    kernel.before = worker.cancel
    worker.submit((order("first"), order("second")))
    assert len(kernel.writes) == 1
    assert not worker.is_busy


def test_an_unexpected_error_leaves_no_order_open():
    kernel = Kernel(lambda: 1 / 0)
    worker = Directly(kernel, lambda _: True)
    with pytest.raises(ZeroDivisionError):
        worker.submit((order(),))
    assert not worker.is_busy


def test_an_order_without_a_thread_is_not_open(monkeypatch: pytest.MonkeyPatch):
    kernel = Kernel()
    worker = ReclaimWorker(kernel, lambda _: True)
    with monkeypatch.context() as without:
        without.setattr(Thread, "start", no_thread)
        worker.submit((order(amount=CHUNK),))
    assert not worker.is_busy
    worker.submit((order(amount=CHUNK),))
    assert kernel.wrote.wait(SECONDS)
    worker.stop()


def no_thread(_: Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_the_caller_does_not_wait():
    free, kernel = Event(), Kernel()
    kernel.before = lambda: free.wait(SECONDS)
    worker = ReclaimWorker(kernel, lambda _: True)
    worker.submit((order(amount=CHUNK),))
    assert worker.is_busy
    assert kernel.writes == []
    free.set()
    assert kernel.wrote.wait(SECONDS)
    worker.stop()
