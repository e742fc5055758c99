"""The thread that takes memory back from reclaimed pods: a write to `memory.reclaim` returns when the kernel is done.

Orders are written in chunks. So a cancelled order, and a pod that leaves the reclaim cgroups, lose one chunk at most.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from threading import Condition, Lock, Thread
from typing import Final, NamedTuple, Protocol

from nri_coloc.errors import KernelInterfaceError
from nri_coloc.pressure.taking_back import Regime, Take

CHUNK: Final = 32 << 20
"""Bytes of one write. A swap device that stores 50 MB a second needs 0.7 s for it."""


class Files(Protocol):
    """Takes memory back; returns whether the kernel took all of it."""

    def reclaim(self, path: str, amount: int, *, only_cache: bool) -> bool: ...


class Order(NamedTuple):
    """The bytes to take back from one pod (`take`), its cgroup, and the regime, which says how urgent that is."""

    take: Take
    path: str
    regime: Regime


class Result(NamedTuple):
    """The result of one chunk.

    amount: bytes that the kernel took.
    is_empty: whether the pod has no more to give now.
    failure: why the kernel refused the write; None if it did not.
    """

    order: Order
    amount: int
    is_empty: bool = False
    failure: KernelInterfaceError | None = None


class ReclaimWorker:
    """Carries out orders on a thread of its own, which starts with the first order.

    One thread calls `submit`, `cancel`, `is_busy` and `results`; any thread may call `stop`.

    may: returns whether memory of a pod may be taken, by its id; called before each chunk.
    """

    def __init__(self, files: Files, may: Callable[[str], bool]) -> None:
        self._files = files
        self._may = may
        self._orders: tuple[Order, ...] | None = None
        self._results: deque[Result] = deque()
        self._is_busy = False
        self._stopping = False
        self._submitted = Condition(Lock())
        self._thread = Thread(target=self._run, name="reclaim", daemon=True)

    @property
    def is_busy(self) -> bool:
        """Return whether an order is not done yet."""
        return self._is_busy

    def submit(self, orders: Iterable[Order]) -> None:
        """Carry out orders, one after the other; to be called while none is open."""
        with self._submitted:
            if self._thread.ident is None and not self._start():
                return
            self._orders, self._is_busy = tuple(orders), True
            self._submitted.notify()

    def cancel(self) -> None:
        """End the open orders after their present chunk."""
        with self._submitted:
            if self._is_busy:
                self._orders = ()

    def results(self) -> Iterator[Result]:
        """Yield the results since the last call."""
        while self._results:
            yield self._results.popleft()

    def stop(self) -> None:
        """End after the present chunk."""
        with self._submitted:
            self._stopping, self._orders = True, ()
            self._submitted.notify()

    def _start(self) -> bool:
        """Start the thread; return whether it runs. Without memory for a thread the next order tries again."""
        if self._stopping:
            return False
        try:
            self._thread.start()
        except RuntimeError:
            self._thread = Thread(target=self._run, name="reclaim", daemon=True)
            return False
        return True

    def _run(self) -> None:
        while True:
            with self._submitted:
                while self._orders is None and not self._stopping:
                    self._submitted.wait()
                if self._stopping:
                    return
            self.carry_out()

    def carry_out(self) -> None:
        """Carry out the open orders."""
        try:
            for order in self._orders or ():
                self._carry_out(order)
        finally:
            with self._submitted:
                self._orders, self._is_busy = None, False

    def _carry_out(self, order: Order) -> None:
        left = order.take.amount
        while left > 0 and self._orders and self._may(order.take.pod_id):
            result = self._chunk(order, min(left, CHUNK))
            self._results.append(result)
            if result.is_empty:
                return
            left -= result.amount

    def _chunk(self, order: Order, amount: int) -> Result:
        try:
            took_all = self._files.reclaim(order.path, amount, only_cache=order.take.only_cache)
        except KernelInterfaceError as error:
            return Result(order, 0, is_empty=True, failure=error.as_value())
        return Result(order, amount if took_all else 0, is_empty=not took_all)
