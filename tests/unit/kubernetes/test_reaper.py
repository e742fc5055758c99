"""The reaper with objects that cannot be read, and with errors that nobody expects."""

from collections.abc import Iterator
from threading import Event
from typing import Any

import pytest

from nri_coloc.kubernetes import reaper as reaping
from nri_coloc.kubernetes.api import ApiError, ApiRefused, ApiUnreachable
from nri_coloc.kubernetes.presets import DEFAULT, OPEN, REPORTED_AT
from nri_coloc.kubernetes.reaper import Reaper
from nri_coloc.kubernetes.watching import Problems, Unreadable
from tests.unit.kubernetes.fake_api import Asked, FakeApi, Reply, serving

TOO_LARGE = "12E"
REPORTED: dict[str, Any] = {DEFAULT.cpu: "4k", DEFAULT.memory: "64", OPEN: "110"}


def node(name: str, **metadata: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "uid": name, "resourceVersion": "7", **metadata},
        "status": {"capacity": dict(REPORTED), "allocatable": dict(REPORTED)},
    }


def times(since_s: int, until_s: int) -> Iterator[float]:
    """Return the times of lists, 30 s apart, both ends included."""
    return map(float, range(since_s, until_s + 1, 30))


class Ran:
    """A reaper against prepared nodes and pods; `errors` has the lines of the log."""

    def __init__(self, api: FakeApi) -> None:
        self.errors: list[str] = []
        self.asked = api.asked
        self.reaper = Reaper(
            api.connect(),
            preset=lambda: DEFAULT,
            leads=lambda: True,
            corrected=lambda _node, _correction: None,
            problems=Problems(self.errors.append, Unreadable("node", self.errors.append)),
        )

    def patches(self) -> dict[str, Any]:
        """Return the last patch of each node."""
        return {each.path.split("/")[4]: each.body for each in self.asked if each.method == "PATCH"}


@pytest.fixture
def nodes() -> list[dict[str, Any]]:
    return [node("a"), node("b")]


@pytest.fixture
def ran(tmp_path, nodes) -> Iterator[Ran]:
    def answers(asked: Asked) -> Reply:
        return Reply(
            body={
                "metadata": {"resourceVersion": "9"},
                "items": nodes if asked.path.endswith("nodes") else [],
            }
        )

    with serving(tmp_path, answers) as api:
        yield Ran(api)


def unreadable(found: dict[str, Any], *names: str) -> None:
    for each in ("capacity", "allocatable"):
        found["status"][each] |= dict.fromkeys(names, TOO_LARGE)


def test_an_unreadable_amount_keeps_no_node_open(ran, nodes):
    unreadable(nodes[0], DEFAULT.cpu)
    for now_s in times(0, 180):
        ran.reaper.turn(now_s)
    assert [each["status"]["capacity"] for each in ran.patches().values()] == [{OPEN: None}] * 2


def test_an_unreadable_gate_is_removed(ran, nodes):
    unreadable(nodes[0], OPEN)
    for now_s in times(0, 180):
        ran.reaper.turn(now_s)
    assert ran.patches()["a"]["status"]["capacity"] == {OPEN: None}


def test_an_unreadable_amount_is_not_lowered(ran, nodes):
    unreadable(nodes[0], DEFAULT.memory)
    for now_s in times(0, 900):
        ran.reaper.turn(now_s)
    assert ran.patches()["a"]["status"]["capacity"] == {OPEN: None}
    assert ran.patches()["b"]["status"]["capacity"][DEFAULT.cpu] == "0"


@pytest.mark.parametrize(
    "broken",
    [{"metadata": []}, {"metadata": {"name": "a", "uid": [1]}}, {"metadata": {"name": "a"}, "status": 3}],
)
def test_an_object_of_another_shape_is_skipped(ran, nodes, broken):
    nodes[0] = broken
    for now_s in times(0, 180):
        ran.reaper.turn(now_s)
    assert list(ran.patches()) == ["b"]
    assert len(ran.errors) == 1


def test_an_unreadable_list_is_logged(ran, nodes):
    nodes[:] = [3]
    ran.reaper.turn(0.0)
    assert "no list of objects" in ran.errors[0]


def test_an_unexpected_error_is_logged(ran, monkeypatch):
    monkeypatch.setattr(ran.reaper, "_list", lambda _: 1 // 0)
    ran.reaper.turn(0.0)
    assert "ZeroDivisionError" in ran.errors[0]


def test_a_turn_follows_an_unreadable_list(ran, nodes, monkeypatch):
    kept, stop = list(nodes), Event()
    nodes[:] = [3]
    turns = iter([lambda: nodes.__setitem__(slice(None), kept), stop.set])
    monkeypatch.setattr(stop, "wait", lambda _: next(turns)())
    ran.reaper.run(stop)
    assert len(ran.asked) == 2


def test_only_pods_that_run_are_listed(ran, nodes):
    nodes.pop()
    for now_s in times(0, 900):
        ran.reaper.turn(now_s)
    (query,) = [each.query for each in ran.asked if each.path.endswith("pods")]
    assert query["fieldSelector"] == "spec.nodeName=a,status.phase!=Succeeded,status.phase!=Failed"
    assert int(query["limit"]) <= 50


# --- an API server that is a value -----------------------------------------------------------------------


class Nodes:
    """An API server with some nodes. `away`: raised by each list; `refusal`: by each PATCH."""

    def __init__(self, *nodes: dict[str, Any]) -> None:
        self.nodes = nodes
        self.away: ApiError | None = None
        self.refusal: ApiError | None = None
        self.patched: list[str] = []
        self.lists_of_pods = 0

    def pages(self, path: str, *_: object, **__: object) -> Iterator[tuple[list[Any], str]]:
        if self.away is not None:
            raise self.away
        self.lists_of_pods += path.endswith("pods")
        yield (list(self.nodes) if path.endswith("nodes") else []), "9"

    def merge(self, path: str, _body: object) -> dict[str, Any]:
        self.patched.append(path.split("/")[4])
        if self.refusal is not None:
            raise self.refusal
        return {}


def turns(server: Nodes, *times_s: float, reaper: Reaper | None = None) -> tuple[Reaper, list[str]]:
    """Play turns of a reaper; return it, and the lines of its log."""
    errors: list[str] = []
    found = reaper or Reaper(
        server,  # type: ignore[arg-type]  # as much of an Api as is asked
        preset=lambda: DEFAULT,
        leads=lambda: True,
        corrected=lambda _node, _correction: None,
        problems=Problems(errors.append, Unreadable("node", errors.append)),
    )
    for now_s in times_s:
        found.turn(now_s)
    return found, errors


AWAY = ApiUnreachable("GET /api/v1/nodes: no answer")


def test_a_long_outage_is_no_silence():
    server = Nodes(node("a"))
    reaper, errors = turns(server, *times(0, 150))
    server.away = AWAY
    turns(server, 180.0, reaper=reaper)
    server.away = None
    turns(server, *times(900, 1050), reaper=reaper)
    assert (server.patched, len(errors)) == ([], 1)
    turns(server, 1080.0, reaper=reaper)
    assert server.patched == ["a"]


def test_a_failed_list_delays_a_silence_only():
    server = Nodes(node("a"))
    reaper, _ = turns(server)
    for now_s in times(0, 420):
        server.away = AWAY if now_s % 60 else None  # every second list fails
        turns(server, now_s, reaper=reaper)
    assert server.patched == ["a", "a"]  # at 360 s and 420 s


def test_a_node_made_again_is_no_silent_one():
    server = Nodes(node("a"))
    reaper, _ = turns(server, *times(0, 150))
    server.nodes = (node("a", uid="again"),)
    turns(server, *times(180, 330), reaper=reaper)
    assert server.patched == []


def test_a_renamed_node_leaves_its_former_name_closed():
    server = Nodes(node("a"), node("b", annotations={REPORTED_AT: "10:00"}))
    reaper, _ = turns(server, *times(0, 150))
    server.nodes = (node("a"), node("b", annotations={REPORTED_AT: "10:03"}))
    turns(server, 180.0, reaper=reaper)
    assert server.patched == ["a"]


@pytest.mark.parametrize(
    ("status", "lines"), [(404, 0), (409, 0), (403, 1)], ids=["deleted", "changed", "forbidden"]
)
def test_a_node_that_changed_meanwhile_is_no_error(status, lines):
    server = Nodes(node("a"), node("b"))
    server.refusal = ApiRefused(f"PATCH /api/v1/nodes/a/status: {status}", status)
    _, errors = turns(server, *times(0, 180))
    assert (sorted(server.patched), len(errors)) == (["a", "b"], 2 * lines)


@pytest.mark.parametrize(
    ("cpu", "lists"), [("4k", 3), ("0", 0)], ids=["every five minutes", "none for amounts of 0"]
)
def test_a_long_silence_costs_few_lists_of_pods(cpu, lists):
    silent = node("a")
    for each in ("capacity", "allocatable"):
        silent["status"][each] = {DEFAULT.cpu: cpu, DEFAULT.memory: cpu}
    server = Nodes(silent)
    turns(server, *times(0, 1770))
    assert server.lists_of_pods == lists


def test_a_refused_correction_reads_the_floor_again():
    server = Nodes(node("a"))
    reaper, _ = turns(server, *times(0, 870))
    server.refusal = ApiRefused("PATCH /api/v1/nodes/a/status: 409", 409)
    turns(server, *times(900, 990), reaper=reaper)
    assert server.lists_of_pods == 4


def test_a_busy_api_server_ends_the_turn():
    server = Nodes(*map(node, "abcdefgh"))
    server.refusal = ApiRefused("PATCH /api/v1/nodes/a/status: 429", 429)
    turns(server, *times(0, 180))
    assert len(server.patched) == 1


BUSY = ApiRefused("429", 429, 60.0)


@pytest.mark.parametrize("part", ["away", "refusal"], ids=["list", "correction"])
def test_a_busy_api_server_gets_its_wait(part):
    server = Nodes(node("a"))
    reaper, _ = turns(server, *times(0, 150))
    setattr(server, part, BUSY)
    assert reaper.turn(180.0) >= 60.0


def test_a_slow_turn_ends_for_the_next_list(monkeypatch):
    server = Nodes(node("a"), node("b"))
    reaper, _ = turns(server, *times(0, 150))
    monkeypatch.setattr(reaping, "EVERY_S", 0.0)
    turns(server, 180.0, reaper=reaper)
    assert len(server.patched) == 1
    turns(server, *times(210, 2010), reaper=reaper)
    assert {*server.patched} == {"a", "b"}
