"""Follow a collection of the API server: list it once, watch its changes, resume after a break, list again after 410.

Retries back off with jitter, so that a thousand nodes do not return to a restarted API server in the same second.
"""

import random
import time
from collections.abc import Callable, Iterator
from threading import Event
from typing import Final, NamedTuple, Protocol

from nri_coloc.core.backoff import Backoff
from nri_coloc.kubernetes.api import BOOKMARK, GONE, OPENED, PAGE, Api, ApiError, ApiRefused, Object

SHORTEST_S: Final = 5.0
"""A watch that ends sooner is a failed one."""


class Follower(Protocol):
    """The receiver of a collection's objects, called on the thread of the watch."""

    def replace(self, objects: Iterator[Object]) -> None:
        """Take all objects in place of those known. If the iterator raises, keep those known."""

    def take(self, kind: str, found: Object) -> None:
        """Take one change: ADDED, MODIFIED or DELETED."""


class Collection(NamedTuple):
    """The objects that a watch follows.

    path: of the collection, such as /api/v1/pods.
    field_selector: selects some of its objects; "" selects all.
    page: objects of one page of the list.
    """

    path: str
    field_selector: str = ""
    page: int = PAGE

    @property
    def query(self) -> dict[str, str]:
        """The query of each request."""
        return {"fieldSelector": self.field_selector} if self.field_selector else {}


class Watch:
    """Follow one collection; `run` is the work of a thread.

    broken: called with the reason when a working watch breaks.
    since_s: monotonic time from which every change was seen; None while the watch is broken.
    problem: the reason of the break, "" while there is none.
    """

    def __init__(
        self,
        api: Api,
        collection: Collection,
        follower: Follower,
        *,
        broken: Callable[[str], None],
        backoff: Backoff | None = None,
    ) -> None:
        self.since_s: float | None = None
        self.problem = ""
        self._api = api
        self._collection = collection
        self._query = collection.query
        self._follower = follower
        self._broken = broken
        self._version = ""
        self._backoff = backoff or Backoff(random.random)

    def run(self, stop: Event) -> None:
        """Follow until `stop` is set; a watch that waits for a change ends with the process."""
        while not stop.is_set():
            begun_s = time.monotonic()
            try:
                self._turn(stop)
            except ApiError as error:
                if time.monotonic() - begun_s >= SHORTEST_S:
                    self._backoff.succeeded()
                stop.wait(self._failed(error))
            except Exception as error:  # noqa: BLE001 - one object must not end the watch; the list begins it again
                self._version = ""
                stop.wait(
                    self._failed(ApiError(f"watch {self._collection.path}: {type(error).__name__}: {error}"))
                )
            else:
                self._rest(stop, time.monotonic() - begun_s)

    def _turn(self, stop: Event) -> None:
        if not self._version:
            self._list()
        for kind, found in self._api.watch(self._collection.path, self._version, **self._query):
            if kind == OPENED:
                self._opened()
                continue
            if kind != BOOKMARK:
                self._follower.take(kind, found)
            self._version = version_of(found) or self._version
            if stop.is_set():
                return

    def _list(self) -> None:
        version = ""

        def objects() -> Iterator[Object]:
            nonlocal version
            pages = self._api.pages(self._collection.path, self._collection.page, **self._query)
            for page, version in pages:  # noqa: B007 - the last counts
                page.reverse()
                while page:  # an object that was read is dropped at once
                    yield page.pop()

        self._follower.replace(objects())
        self._version = version

    def _opened(self) -> None:
        if self.since_s is None:
            self.since_s = time.monotonic()
        self.problem = ""

    def _rest(self, stop: Event, lasted_s: float) -> None:
        """Wait after a watch that the API server ended at once, as a proxy without streams does."""
        if lasted_s < SHORTEST_S:
            stop.wait(self._backoff.failed())
        else:
            self._backoff.succeeded()

    def _failed(self, error: ApiError) -> float:
        """Return the seconds until the next try, after an error."""
        self.since_s = None
        if isinstance(error, ApiRefused) and error.status == GONE:
            self._version = ""
        if not self.problem:
            self._broken(str(error))
        self.problem = str(error)
        return self._backoff.failed(error.retry_after_s if isinstance(error, ApiRefused) else 0.0)


def version_of(found: Object) -> str:
    """Return the resourceVersion of an object; empty if it has none."""
    return str((found.get("metadata") or {}).get("resourceVersion") or "")
