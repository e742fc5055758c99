"""Compute HTTP answers on a thread: one at a time, round-robin over the paths.

A flood of requests costs at most half a core (`Allowance`). Requests with equal targets share one answer, and a path
with many requests does not delay another path.
"""

from collections import deque
from collections.abc import Callable, Hashable
from threading import Condition, Event, Thread
from time import thread_time
from typing import Final, Generic, NamedTuple, TypeVar

from nri_coloc.service.http_loop import Allowance

MAX_QUERIES: Final = 8
"""Different queries of one path that may wait; each further one is refused."""

SHARE: Final = 0.5
BURST_S: Final = 1.0
"""Half of a core, and one CPU second at once: a scrape takes 20 ms, and people ask rarely."""

CLOSE_S: Final = 1.0

Waiting = TypeVar("Waiting", bound=Hashable)
Answer = TypeVar("Answer")


class Target(NamedTuple):
    """The target of a request: requests with equal targets get the same answer."""

    path: str
    query: str


class Answers(Generic[Waiting, Answer]):
    """The waiting requests and their thread.

    compute: return the answer for a target; runs on this thread.
    deliver: pass an answer to the waiting requests; runs on this thread.
    """

    def __init__(
        self,
        compute: Callable[[Target], Answer],
        deliver: Callable[[tuple[Waiting, ...], Answer], None],
    ) -> None:
        self._compute = compute
        self._deliver = deliver
        self._asked = Condition()
        self._paths: deque[str] = deque()
        self._waiting: dict[str, dict[str, list[Waiting]]] = {}
        self._allowance = Allowance(SHARE, BURST_S)
        self._closing = Event()
        self._thread = Thread(target=self._run, name="http-answers", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def ask(self, target: Target, waiting: Waiting) -> bool:
        """Queue a request; return False if too many different queries wait for this path."""
        with self._asked:
            queries = self._waiting.get(target.path)
            if queries is None:
                queries = self._waiting[target.path] = {}
                self._paths.append(target.path)
            if target.query not in queries and len(queries) >= MAX_QUERIES:
                return False
            queries.setdefault(target.query, []).append(waiting)
            self._asked.notify()
            return True

    def close(self) -> None:
        """End the thread after the present answer."""
        self._closing.set()
        with self._asked:
            self._asked.notify()
        if self._thread.is_alive():
            self._thread.join(CLOSE_S)

    def _run(self) -> None:
        while (found := self._next()) is not None:
            target, waiting = found
            began = thread_time()
            self._deliver(waiting, self._compute(target))
            self._closing.wait(self._allowance.pause_after(thread_time() - began))

    def _next(self) -> tuple[Target, tuple[Waiting, ...]] | None:
        """Wait for the next path's first target and return it with all its requests; None after `close`."""
        with self._asked:
            while not self._paths and not self._closing.is_set():
                self._asked.wait()
            if self._closing.is_set():
                return None
            path = self._paths.popleft()
            queries = self._waiting[path]
            query = next(iter(queries))
            waiting = tuple(queries.pop(query))
            if queries:
                self._paths.append(path)
            else:
                del self._waiting[path]
            return Target(path, query), waiting
