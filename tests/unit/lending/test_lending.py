"""lending/loop.py: the loop sizes the reclaim pool, also while the first reclaimed pod comes."""

import time
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from nri_coloc.core.decisions import PodStarted, PoolsSized, Synchronized
from nri_coloc.core.lending import Change, CPUTarget, Headroom
from nri_coloc.core.settings import PoolTuning, ReclaimTuning, Tuning
from nri_coloc.core.state import RECLAIM
from nri_coloc.core.workload import Container, Pod, QoSClass, Wish
from nri_coloc.lending.fast_loop import LoopMemory, Tick
from nri_coloc.lending.loop import Lending
from nri_coloc.lending.records import Step
from nri_coloc.lending.relocation import FileWatch, Relocation
from nri_coloc.placing.node import Node
from nri_coloc.service.report import Report
from tests.rig.waiting import PATIENCE_SECONDS, poll
from tests.unit.parts import Heard, a_node, a_report, create, start_pod
from tests.unit.placing.kit import DEDICATED

PATIENCE_S = PATIENCE_SECONDS
A_FEW_TICKS_S = 0.3
TICK_S = 0.01
FLOOR = 2
BATCH, ONLINE = Wish(QoSClass.RECLAIMED), Wish(QoSClass.SHARED)
MEMBERS = Synchronized(pods=((Pod("batch"), BATCH),), containers=())
FIRST = PodStarted(Pod("batch"), BATCH)
TUNING = Tuning(reclaim=ReclaimTuning(idle_tick_s=TICK_S, quiet_tick_s=TICK_S))


class Nobody:
    """Fake of any writer or sampler: it does nothing and reads nothing."""

    host_groups = SimpleNamespace(members=())

    def __getattr__(self, _name: str) -> Any:
        return lambda *_anything: ()


def lending_of(
    node: Node, report: Report, sampler: Nobody | None = None, actuator: Nobody | None = None
) -> Lending:
    """Return a lending loop that is not started."""
    stands, file_watch = cast("Any", Nobody()), FileWatch(report)
    writes = cast("Any", actuator or stands)
    return Lending(
        node,
        writes,
        cast("Any", sampler or stands),
        report,
        relocation=Relocation(node, writes, file_watch, after=(), eevdf=False),
        file_watch=file_watch,
    )


class Unseen(Nobody):
    """Fake sampler whose readings give no sums."""

    def look(self, _now: float) -> None: ...


@pytest.fixture
def node() -> Node:
    """Return a node without reclaimed pods."""
    return a_node(TUNING)


@pytest.fixture
def lending(node: Node) -> Iterator[Lending]:
    """Yield a lending loop that ticks on the node."""
    found = lending_of(node, a_report(node)[0])
    found.start()
    assert poll(lambda: found.ticked_at, PATIENCE_S)
    yield found
    found.stop()
    assert found.ended(PATIENCE_S)


def box(node: Node) -> int:
    return node.state.pools.reclaim.bit_count()


def test_a_pool_without_members_has_no_size(node: Node, lending: Lending):
    with lending.prepare(FIRST):
        assert node.state.pools.counts == {RECLAIM: FLOOR}
    assert poll(lambda: not node.state.pools.counts, PATIENCE_S)
    assert box(node) == 8


class TestItsSizeBeginsAndEnds:
    def lends(self, node: Node) -> tuple[Lending, Heard]:
        report, heard = a_report(node)
        return lending_of(node, report), heard

    def test_the_first_size_is_no_suppression(self, node: Node):
        lending, heard = self.lends(node)
        with lending.prepare(FIRST):
            pass
        (record,) = heard.records
        assert heard.said() == [("pool.resize", "first_size")]
        assert (record.pool, record.before["cpus"], record.after["cpus"]) == ("reclaim", "0-7", "6-7")
        assert record.extra["inputs"]["source"] == "floor"

    def test_its_end_is_recorded(self, node: Node):
        lending, heard = self.lends(node)
        with lending.prepare(FIRST):
            pass
        lending._pool._act(Tick(LoopMemory(), CPUTarget(4), Headroom(), TICK_S), node.state, 1.0)
        assert heard.said()[1:] == [("pool.resize", "no_members")]
        assert heard.records[1].after["cpus"] == "0-7"


def test_ticks_leave_the_first_pod_its_pool(node: Node, lending: Lending):
    with lending.prepare(FIRST):
        widened = poll(lambda: box(node) > FLOOR, A_FEW_TICKS_S)
        start_pod(node, "batch")
        assert (widened, box(node)) == (False, FLOOR)
    assert not poll(lambda: RECLAIM not in node.state.pools.counts, A_FEW_TICKS_S)


@pytest.mark.parametrize(
    ("listed", "sized"),
    [
        (MEMBERS, [RECLAIM]),
        (Synchronized((), ((Container("c", "mixed"), BATCH),)), [RECLAIM]),
        (Synchronized(((Pod("web"), ONLINE),), ((Container("c", "web"), ONLINE),)), []),
    ],
    ids=["a pod", "a container beside online ones", "nobody"],
)
def test_a_list_with_reclaimed_pods_sizes_the_pool(node: Node, listed, sized):
    lending = lending_of(node, a_report(node)[0])
    with lending.prepare(listed):
        assert list(node.state.pools.counts) == sized


@pytest.mark.parametrize("told", [True, False], ids=["told", "not told"])
def test_the_headroom_is_unknown_before_the_list(told):
    node = a_node(replace(TUNING, reclaim=ReclaimTuning(partition=True)))
    node.told = told
    lending = lending_of(node, a_report(node)[0], Unseen())
    lending._tick(0.0)
    assert (lending.headroom.unused_milli > 0) is told


def test_a_list_sizes_the_pool_for_host_groups():
    node = a_node(Tuning(reclaim=ReclaimTuning(host_groups=("yarn",))))
    lending = lending_of(node, a_report(node)[0])
    with lending.prepare(Synchronized((), ())):
        assert list(node.state.pools.counts) == [RECLAIM]


class Short(Unseen):
    """Fake sampler that may not open all files that it reads."""

    is_short = True
    open_files = 3


def test_that_too_few_files_may_be_open_is_said_once(node: Node, monkeypatch: pytest.MonkeyPatch):
    lending = lending_of(node, a_report(node)[0], Short())
    said: list[tuple[str, int]] = []
    log = lending._report.log
    monkeypatch.setattr(log, "warning", lambda words, open_files: said.append((words, open_files)))
    lending.start()
    first = lending.ticked_at
    assert poll(lambda: lending.ticked_at > first, PATIENCE_S)
    several = lending.ticked_at
    assert poll(lambda: lending.ticked_at > several, PATIENCE_S)
    lending.stop()
    assert lending.ended(PATIENCE_S)
    ((words, open_files),) = said
    assert ("RLIMIT_NOFILE" in words, open_files) == (True, 3)


class TestAfterARestart:
    """The previous process left six CPUs in the reclaim pool."""

    @pytest.fixture
    def left(self) -> list[int]:
        """Return the number of CPUs found, once for each call."""
        return [6]

    def lends(self, node: Node, left: list[int], sampler: Nobody | None = None) -> Lending:
        actuator = Nobody()
        actuator.former_box = left.pop  # type: ignore[attr-defined]  # it stands for one
        return lending_of(node, a_report(node)[0], sampler, actuator)

    def test_the_box_keeps_what_it_has(self, node: Node, left: list[int]):
        with self.lends(node, left).prepare(MEMBERS):
            start_pod(node, "batch")
        assert (box(node), left) == (6, [])

    def test_a_list_that_comes_again_finds_nothing_new(self, node: Node, left: list[int]):
        lending = self.lends(node, left)
        with lending.prepare(MEMBERS):
            start_pod(node, "batch")
        with lending.prepare(MEMBERS):
            pass
        assert box(node) == 6

    def test_where_it_had_none_it_begins_at_its_floor(self, node: Node):
        with self.lends(node, [0]).prepare(MEMBERS):
            start_pod(node, "batch")
        assert box(node) == FLOOR

    @pytest.mark.parametrize(
        "tuning",
        [
            replace(TUNING, observe=True),
            Tuning(reclaim=ReclaimTuning(enabled=False)),
            Tuning(reclaim=ReclaimTuning(partition=True)),
        ],
        ids=["an observer", "lending is off", "pools are sized by load"],
    )
    def test_nobody_looks_where_the_loop_sizes_no_box(self, left: list[int], tuning: Tuning):
        with self.lends(a_node(tuning), left).prepare(MEMBERS):
            pass
        assert left == [6]

    def test_ticks_keep_it_until_they_know_more_and_no_longer(self, node: Node, left: list[int]):
        lending = self.lends(node, left)
        lending.start()
        assert poll(lambda: lending.ticked_at > 0, PATIENCE_S)
        began_s = time.monotonic()
        with lending.prepare(MEMBERS):
            start_pod(node, "batch")
        assert poll(lambda: box(node) != 6, PATIENCE_S)
        kept = time.monotonic() - began_s >= A_FEW_TICKS_S
        ended = poll(lambda: box(node) == FLOOR, PATIENCE_S)
        lending.stop()
        assert lending.ended(PATIENCE_S)
        assert (kept, ended) == (True, True)


class TestRecords:
    """The reclaim pool had CPUs 2-7 when ticks changed it."""

    @pytest.fixture(autouse=True)
    def _box_of_six(self, node: Node) -> None:
        start_pod(node, "batch")
        node.decide(PoolsSized({RECLAIM: 6}, "as a test wants it"))
        self.report, self.heard = a_report(node)
        self.lending = lending_of(node, self.report)

    def tick(self, at: float, cpus: int) -> None:
        ticked(self.lending, at, cpus)

    def said(self) -> list[tuple[str, Any, Any]]:
        return [(one.event.value, one.before["cpus"], one.after["cpus"]) for one in self.heard.records]

    def test_the_first_says_the_cpus_that_the_box_had(self):
        self.tick(0.5, 8)
        assert self.said() == [("reclaim.grow", "2-7", "0-7")]

    def test_each_has_the_cpus_of_its_own_time(self):
        self.tick(0.5, 8)
        self.tick(1.5, 2)
        assert self.said() == [("reclaim.grow", "2-7", "0-7"), ("reclaim.suppress", "0-7", "6-7")]

    def test_a_change_by_a_hook_is_not_its_own(self, node: Node):
        self.tick(0.1, 8)
        create(node, "own", DEDICATED, 2000)
        self.tick(1.5, 2)
        assert self.said()[1] == ("reclaim.suppress", "2-7", "6-7")

    def test_a_size_that_changes_no_cpu_is_not_written(self):
        self.tick(0.5, 6)
        self.tick(5.0, 6)
        assert self.said() == []

    def test_a_swing_is_one_record_with_its_extremes(self):
        for second in range(1, 50):
            self.tick(float(second), (2, 8)[second % 2])
        assert len(self.said()) == 3
        self.lending._pool.say_rest()
        inputs = self.heard.records[-1].extra["inputs"]
        assert (inputs["cpus_low"], inputs["cpus_high"], inputs["turns"]) == (2, 8, 46)
        assert self.heard.records[-1].because.startswith("swing: 46 turns in ")


def ticked(lending: Lending, at: float, cpus: int) -> None:
    """Let the loop decide a number of CPUs at the time `at`, seconds."""
    state = lending._node.state
    had = lending._pool._would_have.bit_count() or state.pools.reclaim.bit_count()
    change = Change.KEEP if cpus == had else Change.GROW if cpus > had else Change.SUPPRESS
    tick = Tick(LoopMemory(), CPUTarget(cpus, change), Headroom(), 0.02)
    before, after = lending._pool._act(tick, state, at)
    lending._pool._records.tell(
        Step(before=before, after=after, online=0, headroom=0, stall=0.0, own_stall=0.0, grounds=None), at
    )


class TestAnObserver:
    """With `observe`, records have the CPUs that the reclaim pool would have had."""

    def says(self, tuning: Tuning, *sizes: int) -> list[tuple[Any, Any]]:
        node = a_node(tuning)
        report, heard = a_report(node)
        lending = lending_of(node, report)
        for second, cpus in enumerate(sizes):
            ticked(lending, 100.0 * (second + 1), cpus)
        return [(one.before["cpus"], one.after["cpus"]) for one in heard.records]

    def test_shows_cpus_the_pool_would_have_and_had(self):
        said = self.says(replace(TUNING, observe=True), 2, 4, 2)
        assert said == [("0-7", "6-7"), ("6-7", "2-3,6-7"), ("2-3,6-7", "6-7")]

    def test_names_the_first_size_it_would_give(self):
        node = a_node(replace(TUNING, observe=True))
        report, heard = a_report(node)
        lending = lending_of(node, report)
        ticked(lending, 100.0, 2)
        ticked(lending, 200.0, 4)
        assert heard.said() == [("pool.resize", "first_size"), ("reclaim.grow", "headroom")]

    def test_goes_by_what_an_operator_lets_the_box_have(self):
        bounded = replace(TUNING, observe=True, pools=(PoolTuning(RECLAIM, maximum=4),))
        assert self.says(bounded, 2, 6, 5) == [("0-7", "6-7"), ("6-7", "2-3,6-7")]
