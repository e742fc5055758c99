"""The orders of the thread that writes cgroups: ids of cgroups to write, and sweeps that a caller waits for.

Orders carry no values, so two orders for one cgroup are one write of the newest value.
"""

from collections.abc import Mapping
from concurrent.futures import Future
from itertools import chain
from threading import Condition, Lock
from typing import Final, NamedTuple

from nri_coloc.core.decisions import Moves

MOST_WAITING: Final = 256
"""Orders that wait before equal ones are sorted out: a thread that hangs must cost no memory for each change."""


class Taken(NamedTuple):
    """The orders that one turn of the thread carries out.

    pods, containers: ids as keys, in the order of their first order.
    sweeps: the futures of ordered sweeps.
    """

    pods: Mapping[str, None]
    containers: Mapping[str, None]
    sweeps: "tuple[Future[int], ...]"


class Orders:
    """Orders of any thread, taken by one."""

    def __init__(self) -> None:
        self._moves: list[Moves] = []
        self._sweeps: list[Future[int]] = []
        self._is_ended = False
        self._wanted = Condition(Lock())

    def add(self, moves: Moves) -> None:
        """Order writes of cgroups. The thread that takes orders merges equal ones, so that no hook waits for that."""
        with self._wanted:
            self._moves.append(moves)
            if len(self._moves) > MOST_WAITING:
                pods, containers = _sorted_out(self._moves)
                self._moves = [Moves(tuple(pods), tuple(containers))]
            self._wanted.notify()

    def add_sweep(self) -> "Future[int]":
        """Order a sweep; return the future of its result."""
        asked: Future[int] = Future()
        with self._wanted:
            self._sweeps.append(asked)
            self._wanted.notify()
        return asked

    def end(self) -> None:
        """Have the thread end instead of taking further orders."""
        with self._wanted:
            self._is_ended = True
            self._wanted.notify()

    def take(self, seconds: float) -> Taken | None:
        """Return all orders, after waiting for one for so many seconds at most; None at the end."""
        with self._wanted:
            if not (self._moves or self._sweeps or self._is_ended):
                self._wanted.wait(max(0.0, seconds))
            if self._is_ended:
                return None
            moves, sweeps = self._moves, tuple(self._sweeps)
            self._moves, self._sweeps = [], []
        return Taken(*_sorted_out(moves), sweeps)


def _sorted_out(moves: list[Moves]) -> tuple[dict[str, None], dict[str, None]]:
    """Return the ids of pods and of containers as keys, each once, in the order of their first order."""
    pods = dict.fromkeys(chain.from_iterable([each.pods for each in moves]))
    return pods, dict.fromkeys(chain.from_iterable([each.containers for each in moves]))
