"""Follow a collection of the API server: list it once, watch its changes, resume after a short break, else list again.

An API server whose etcd was restored from a backup has another history than this process knows. It refuses a watch
from a version of the former one with 410, or accepts it and sends nothing until its own versions have passed that one,
which may take days (kubernetes/kubernetes#107457). Once they have passed, it sends the changes after that version and
none of those before. A restore needs all API servers stopped, so a version that has served one failed try is dropped,
and so is that of a watch which brought nothing for minutes: decision 80.

Retries back off with jitter, so that a thousand nodes do not return to a restarted API server in the same second.
"""

import math
import random
import time
from collections.abc import Callable, Iterator
from http import HTTPStatus
from threading import Event
from typing import Any, Final, NamedTuple, Protocol

from nri_coloc.core.backoff import Backoff
from nri_coloc.kubernetes.api import (
    BOOKMARK,
    OPENED,
    PAGE,
    Api,
    ApiError,
    ApiRefused,
    ApiUnreachable,
    Object,
)

SHORTEST_S: Final = 5.0
"""A watch that ends so soon after the API server accepted it is a failed one. The time before does not count: a request
that times out lasts longer, and would be repeated at once."""

SILENT_S: Final = 120.0
"""Seconds in which a watch that works brings two bookmarks: the API server sends one each minute."""

_UNKNOWN: Final = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.GONE,
    HTTPStatus.UNPROCESSABLE_ENTITY,
    HTTPStatus.GATEWAY_TIMEOUT,
)
"""HTTP statuses of a resourceVersion that the API server cannot read, has forgotten, calls invalid, or does not know
yet. The first and the third come from another API server behind the same address."""

MOST_TOLD: Final = 100
"""Objects that cannot be read, of one kind, that a log names; more could fill it."""

_LONGEST: Final = 200


class Unreadable:
    """Report each object that cannot be read once, with its name as far as it is known. One thread calls it.

    kind: of the objects, such as "pod".
    tell: called with the sentence.
    """

    def __init__(self, kind: str, tell: Callable[[str], None]) -> None:
        self._kind = kind
        self._tell = tell
        self._told: set[str] = set()

    def found(self, object_: Object, why: Exception | str) -> None:
        """Report an object that cannot be read, with the reason."""
        text = f"{self._kind} {_name(object_)} cannot be read and does not count: {str(why)[:_LONGEST]}"
        if text in self._told or len(self._told) > MOST_TOLD:
            return
        self._told.add(text)
        many = f"more than {MOST_TOLD} objects of kind {self._kind} cannot be read; the log names no more"
        self._tell(text if len(self._told) <= MOST_TOLD else many)


class Problems(NamedTuple):
    """Takes the problems of one kind of objects.

    broken: called with the reason of a call that failed.
    unreadable: reports objects that cannot be read.
    """

    broken: Callable[[str], None]
    unreadable: Unreadable


class Follower(Protocol):
    """The receiver of a collection's objects, called on the thread of the watch.

    An object that cannot be read costs only itself: `replace` leaves it out, and `take` that raises changes nothing.
    """

    def replace(self, listed: Iterator[Object]) -> None:
        """Take all objects in place of those known. If the iterator raises, keep those known."""

    def take(self, kind: str, found: Object) -> None:
        """Take one change: ADDED, MODIFIED or DELETED. Raise ApiError if the collection must be listed again."""


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

    problems: takes the reason when a working watch breaks, and changes that cannot be read.
    problem: the reason of the break, "" while there is none.
    """

    def __init__(
        self,
        api: Api,
        collection: Collection,
        follower: Follower,
        problems: Problems,
        *,
        backoff: Backoff | None = None,
    ) -> None:
        self.problem = ""
        self._api = api
        self._collection = collection
        self._query = collection.query
        self._follower = follower
        self._problems = problems
        self._version = ""
        self._broken_version = ""
        self._heard_s = self._opened_s = math.inf
        self._backoff = backoff or Backoff(random.random)

    def run(self, stop: Event) -> None:
        """Follow until `stop` is set; a watch that waits for a change ends with the process."""
        while not stop.is_set():
            try:
                self._turn(stop)
            except ApiError as error:
                if self._has_lasted():
                    self._backoff.succeeded()
                stop.wait(self._failed(error))
            except Exception as error:  # noqa: BLE001 - a fault must not end the watch; the list begins it again
                stop.wait(
                    self._failed(ApiError(f"watch {self._collection.path}: {type(error).__name__}: {error}"))
                )
            else:
                self._rest(stop)

    def _turn(self, stop: Event) -> None:
        self._heard_s = self._opened_s = math.inf
        if not self._version:
            self._list()
        for kind, found in self._api.watch(self._collection.path, self._version, **self._query):
            self._heard_s = time.monotonic()
            if kind == OPENED:
                self.problem, self._opened_s = "", self._heard_s
                continue
            if kind != BOOKMARK:
                self._take(kind, found)
            self._version = version_of(found) or self._version
            if stop.is_set():
                return

    def _take(self, kind: str, found: Object) -> None:
        try:
            self._follower.take(kind, found)
        except ApiError:
            raise
        except Exception as error:  # noqa: BLE001 - the same change would come again; later ones must count
            self._problems.unreadable.found(found, f"{type(error).__name__}: {error}")

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

    def _has_lasted(self) -> bool:
        return time.monotonic() - self._opened_s >= SHORTEST_S

    def _was_silent(self) -> bool:
        """Return whether the watch brought nothing at its end, although two bookmarks were due."""
        return time.monotonic() - self._heard_s >= SILENT_S

    def _rest(self, stop: Event) -> None:
        """Wait after a watch that the API server ended at once, as a proxy without streams does."""
        if self._was_silent():
            self._version = ""
        if self._has_lasted():
            self._backoff.succeeded()
        else:
            stop.wait(self._backoff.failed())

    def _failed(self, error: ApiError) -> float:
        """Return the seconds until the next try, after an error."""
        is_answer = isinstance(error, ApiUnreachable | ApiRefused)
        is_unknown = isinstance(error, ApiRefused) and error.status in _UNKNOWN
        if not self.problem:
            self._broken_version = self._version
            self._problems.broken(str(error))
        elif self._version == self._broken_version:
            # a version from a list of this break stays: a busy server is asked for one list alone
            self._version = ""
        if not is_answer or is_unknown or self._was_silent():
            self._version = ""  # a change that is not one would come again from the same version
        self.problem = str(error)
        return self._backoff.failed(error.retry_after_s if isinstance(error, ApiRefused) else 0.0)


def version_of(found: Object) -> str:
    """Return the resourceVersion of an object; empty if it has none."""
    return _metadata(found, "resourceVersion")


def _name(found: Object) -> str:
    """Return namespace and name of an object, as far as it has them."""
    parts = [_metadata(found, key) for key in ("namespace", "name")]
    return "/".join(ascii(each[:_LONGEST])[1:-1] for each in parts if each) or "without a name"


def _metadata(found: Object, key: str) -> str:
    metadata: Any = found.get("metadata")
    value = metadata.get(key) if isinstance(metadata, dict) else None
    return value if isinstance(value, str) else ""
