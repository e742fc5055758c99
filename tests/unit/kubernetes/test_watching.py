"""A followed collection, through breaks of the watch and expired versions."""

import random
from collections.abc import Callable, Iterable, Iterator
from threading import Event
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from nri_coloc.core.backoff import Backoff
from nri_coloc.kubernetes import watching
from nri_coloc.kubernetes.api import ApiUnreachable
from nri_coloc.kubernetes.watching import MOST_TOLD, Collection, Problems, Unreadable, Watch
from tests.unit.kubernetes.fake_api import Reply, serving
from tests.unit.kubernetes.test_api import change, items


class Names:
    """The names of a collection's objects; sets `stop` at an object named `last`."""

    def __init__(self, stop, *, last):
        self.known = set()
        self.lists = 0
        self._stop = stop
        self._last = last

    def replace(self, objects):
        self.known = {found["metadata"]["name"] for found in objects}
        self.lists += 1

    def take(self, kind, found):
        name = found["metadata"]["name"]
        (self.known.discard if kind == "DELETED" else self.known.add)(name)
        if name == self._last:
            self._stop.set()


def problems(broken=lambda _: None, told=lambda _: None):
    return Problems(broken, Unreadable("pod", told))


def follow(tmp_path, watches, *, last, told=None):
    """Follow a server that has one list and some watches, until an object comes. `told`: objects that were left out."""
    told = [] if told is None else told
    stop, replies = Event(), iter(watches)
    broken: list[str] = []

    def answers(asked):
        return next(replies) if "watch" in asked.query else Reply(body=items("a", "b"))

    names = Names(stop, last=last)
    with serving(tmp_path, answers) as server:
        watch = Watch(
            server.connect(),
            Collection("/api/v1/pods"),
            names,
            problems(broken.append, told.append),
            backoff=Backoff(random.random, 0.01),
        )
        watch.run(stop)
    return names, server, broken


def versions(server):
    return [asked.query["resourceVersion"] for asked in server.asked if "watch" in asked.query]


def test_a_change_is_followed(tmp_path):
    names, _, _ = follow(tmp_path, [Reply(lines=(change("DELETED"), change("ADDED", "c")))], last="c")
    assert names.known == {"b", "c"}


def test_a_watch_resumes_at_its_last_version(tmp_path):
    watches = [
        Reply(lines=(change("BOOKMARK", version="9"),)),
        Reply(lines=(change("ADDED", "c"),)),
    ]
    names, server, _ = follow(tmp_path, watches, last="c")
    assert (names.lists, versions(server)) == (1, ["7", "9"])


@pytest.mark.parametrize("status", [400, 410, 422, 504])
def test_an_unknown_version_lists_again(tmp_path, status):
    watches = [Reply(status=status, body={"message": "too old"}), Reply(lines=(change("ADDED", "c"),))]
    names, _, broken = follow(tmp_path, watches, last="c")
    assert names.lists == 2
    assert len(broken) == 1


@pytest.mark.parametrize("status", [403, 500])
def test_a_break_is_told_once(tmp_path, status):
    watches = [*[Reply(status=status)] * 3, Reply(lines=(change("ADDED", "c"),))]
    _, _, broken = follow(tmp_path, watches, last="c")
    assert len(broken) == 1


NAMELESS = {"type": "ADDED", "object": {"metadata": {"resourceVersion": "8"}}}


def test_an_unreadable_change_costs_only_itself(tmp_path):
    told: list[str] = []
    names, _, broken = follow(
        tmp_path, [Reply(lines=(NAMELESS, NAMELESS, change("ADDED", "c")))], last="c", told=told
    )
    assert (names.known, names.lists, broken) == ({"a", "b", "c"}, 1, [])
    assert len(told) == 1
    assert "without a name" in told[0]


def test_an_unreadable_change_does_not_come_again(tmp_path):
    watches = [Reply(lines=(NAMELESS,)), Reply(lines=(change("ADDED", "c"),))]
    _, server, _ = follow(tmp_path, watches, last="c")
    assert versions(server) == ["7", "8"]


@pytest.mark.parametrize("line", [{"type": "ADDED"}, {"type": "odd", "object": {}}, 7])
def test_a_line_that_is_no_change_lists_again(tmp_path, line):
    watches = [Reply(lines=(change("ADDED", "b"), line)), Reply(lines=(change("ADDED", "c"),))]
    names, server, broken = follow(tmp_path, watches, last="c")
    assert (names.lists, versions(server)) == (2, ["7", "7"])
    assert len(broken) == 1


def test_a_list_that_fails_is_read_again(tmp_path):
    stop, lists = Event(), list[int]()

    def replace(listed):
        lists.append(len(list(listed)))
        if len(lists) == 1:
            raise KeyError("fault")
        stop.set()

    follower: Any = SimpleNamespace(replace=replace)
    with serving(tmp_path, lambda _: Reply(body=items("a"))) as server:
        watch = Watch(
            server.connect(),
            Collection("/x"),
            follower,
            problems(),
            backoff=Backoff(random.random, 0.01),
        )
        watch.run(stop)
    assert lists == [1, 1]


def test_unreadable_objects_do_not_fill_the_log():
    told: list[str] = []
    found = Unreadable("pod", told.append)
    for number in range(MOST_TOLD + 50):
        found.found({"metadata": {"name": f"odd-{number}"}}, "its requests")
    assert len(told) == MOST_TOLD + 1
    assert f"more than {MOST_TOLD}" in told[-1]


def test_a_name_prints_as_one_line():
    told: list[str] = []
    Unreadable("pod", told.append).found({"metadata": {"name": "a\x85\nb" * 999}}, "no")
    assert told[0].isprintable()
    assert len(told[0]) < 1000


def test_an_object_is_dropped_once_read(tmp_path):
    stop, left = Event(), list[int]()
    page = list(items("a", "b")["items"])
    pages: Any = SimpleNamespace(pages=lambda *_: iter([(page, "7")]), watch=lambda *_: iter(()))

    def replace(objects):
        left.extend(len(page) for _ in objects)
        stop.set()

    Watch(pages, Collection("/x"), SimpleNamespace(replace=replace), problems()).run(stop)
    assert left == [1, 0]


class Played:
    """An API server whose watches play prepared turns; each list has a version one higher.

    asked: "list", and the version of each watch, in order.
    """

    def __init__(self, *turns: Callable[[], Iterable[tuple[str, Any]]]) -> None:
        self.asked: list[str] = []
        self._stop = Event()
        self._turns = iter(turns)
        self._version = 6

    def pages(self, *_: object) -> Iterator[tuple[list[Any], str]]:
        self.asked.append("list")
        self._version += 1
        yield [], str(self._version)

    def watch(self, _path: str, version: str) -> Iterable[tuple[str, Any]]:
        self.asked.append(version)
        turn = next(self._turns, None)
        if turn is None:
            self._stop.set()
            return ()
        return turn()

    def follow(self) -> list[str]:
        """Follow until no turn is left; return all requests but the last."""
        backoff = Backoff(lambda: 0.0, 0.01, 0.01)
        server: Any = self
        Watch(server, Collection("/x"), Names(self._stop, last=""), problems(), backoff=backoff).run(
            self._stop
        )
        return self.asked


BOOKMARKED = ("BOOKMARK", {"metadata": {"resourceVersion": "100"}})


def opened() -> Iterator[tuple[str, Any]]:
    yield "OPENED", {}


def bookmarked() -> Iterator[tuple[str, Any]]:
    yield from opened()
    yield BOOKMARKED


def breaks() -> Iterator[tuple[str, Any]]:
    yield from bookmarked()
    raise ApiUnreachable("away")


def unreachable() -> Iterator[tuple[str, Any]]:
    yield from ()
    raise ApiUnreachable("away")


@pytest.mark.parametrize("turn", [opened, bookmarked, breaks])
def test_a_watch_that_becomes_silent_lists_again(monkeypatch, turn):
    """After a restore of etcd the API server accepts a version that it does not have yet, and sends nothing."""
    monkeypatch.setattr(watching, "SILENT_S", 0.0)
    assert Played(turn).follow() == ["list", "7", "list", "8"]


def test_a_watch_resumes_after_a_break():
    assert Played(breaks).follow() == ["list", "7", "100"]


@pytest.mark.parametrize("before", [breaks, bookmarked], ids=["broken", "ended"])
def test_a_break_that_lasts_lists_again(before):
    """After a restore of etcd the API server may accept a version of its former history."""
    played = Played(before, unreachable, *[unreachable] * (before is bookmarked))
    assert played.follow()[-2:] == ["list", "8"]


def test_a_busy_api_server_is_asked_for_one_list():
    assert Played(breaks, *[unreachable] * 9).follow() == ["list", "7", "100", "list", *["8"] * 9]


def test_a_broken_watch_has_a_problem(tmp_path):
    stop = Event()
    with serving(tmp_path, lambda _: Reply(status=500)) as server:
        found = Watch(
            server.connect(),
            Collection("/x"),
            Names(stop, last=""),
            problems(lambda _: stop.set()),
            backoff=Backoff(random.random, 0.01),
        )
        found.run(stop)
    assert "500" in found.problem


class Pauses:
    """A stop that is set after some waits, and the clock; `waited` has the seconds of each wait."""

    def __init__(self, most: int) -> None:
        self.waited: list[float] = []
        self.now_s = 0.0
        self._most = most

    def is_set(self) -> bool:
        return len(self.waited) >= self._most

    def wait(self, seconds: float) -> None:
        self.waited.append(seconds)
        self.now_s += seconds

    def time_out(self, *_: object) -> NoReturn:
        """Answer as an API server does that takes a request and sends nothing."""
        self.now_s += 10.0
        raise ApiUnreachable("GET /x: no answer: timed out")


@pytest.mark.parametrize("request_", ["pages", "watch"], ids=["list", "watch"])
def test_an_api_server_that_times_out_gets_longer_pauses(monkeypatch, request_):
    pauses: Any = Pauses(most=7)
    monkeypatch.setattr(watching, "time", SimpleNamespace(monotonic=lambda: pauses.now_s))
    server: Any = SimpleNamespace(pages=lambda *_: iter([([], "7")]))
    setattr(server, request_, pauses.time_out)
    watch = Watch(server, Collection("/x"), Names(Event(), last=""), problems(), backoff=Backoff(lambda: 1.0))
    watch.run(pauses)
    assert pauses.waited == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0]


def test_ten_watches_return_at_different_times():
    away: Any = SimpleNamespace()
    ten = [Watch(away, Collection("/x"), Names(Event(), last=""), problems()) for _ in range(10)]
    assert len({each._failed(ApiUnreachable("away")) for each in ten}) == 10
