"""Memory limits on a tree of plain files: who is bounded, who gets its own back, and what the journal knows."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from nri_coloc.actuation import restoration
from nri_coloc.actuation.cgroups import CgroupWriter
from nri_coloc.actuation.journal import Journal
from nri_coloc.actuation.target import Later
from nri_coloc.daemon import refusals, targets
from nri_coloc.daemon.drift import REPAIRS_PER_MINUTE
from nri_coloc.daemon.memory_worker import LEAST, Bounds, MemoryWorker
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.model.events import PodRemoved
from nri_coloc.model.knobs import Knobs
from nri_coloc.model.lending import Part
from nri_coloc.model.tuning import ReclaimTuning
from nri_coloc.node_sim.cgroup_tree import CgroupTree
from nri_coloc.reclaim.box_memory import Found
from nri_coloc.sampling import cgroup_layout
from tests.rig.waiting import wait_until
from tests.unit.daemon.kit import Heard, a_node, a_report, create, start_pod
from tests.unit.policy import kit

GIB = 1 << 30
BATCH, SECOND = "kubepods/podbatch", "kubepods/podsecond"
NO_LIMIT = {1: str((1 << 63) - 4096), 2: "max"}
FILES = {1: ("memory.limit_in_bytes",), 2: ("memory.high", "memory.max")}


class Rig:
    def __init__(self, tmp_path: Path, version: int) -> None:
        self.version = version
        self.root, self.journal = tmp_path / "host", str(tmp_path / "journal")
        self.tree = CgroupTree(self.root, version, 0xFF, 1)
        self.tree.plant()
        self.node = a_node()
        for name in ("batch", "second"):
            start_pod(self.node, name)
            self.tree.make(f"kubepods/pod{name}")
        self.heard: Heard
        self.writer: Any
        self.worker = self.again()

    def again(self) -> MemoryWorker:
        """A worker as a new process would have it."""
        report, self.heard = a_report(self.node)
        layout = cgroup_layout.detect(str(self.root))
        journal = Journal(self.journal, lambda _: None, str(self.root))
        self.writer = CgroupWriter(layout, journal, str(self.root))
        return MemoryWorker(self.node, self.writer, report)

    def of(self, path: str) -> list[int | None]:
        """Its limits, None for none."""
        texts = [self.tree.read(path, name) or "" for name in FILES[self.version]]
        return [int(text) if text.isdigit() and int(text) < 1 << 62 else None for text in texts]

    def expected(self, high: int, limit: int) -> list[int | None]:
        return [limit] if self.version == 1 else [high, limit]

    @property
    def nothing(self) -> list[int | None]:
        return [None] * len(FILES[self.version])


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def rig(request, tmp_path) -> Rig:
    return Rig(tmp_path, request.param)


def bounds(high: int = GIB, limit: int = 2 * GIB, pod: str = "batch") -> dict[str, Bounds]:
    return {f"kubepods/pod{pod}": Bounds(Part(high, limit), pod)}


def test_a_member_is_bounded_in_whole_pages(rig):
    rig.worker.write(bounds(GIB + 1, 2 * GIB + 5))
    assert rig.of(BATCH) == rig.expected(GIB, 2 * GIB)
    assert rig.of(SECOND) == rig.nothing


def test_nobody_is_bounded_so_that_it_could_not_live(rig):
    rig.worker.write(bounds(0, 0))
    assert rig.of(BATCH) == rig.expected(LEAST, LEAST)


def test_who_is_no_member_any_more_gets_back_what_it_had(rig):
    rig.worker.write({**bounds(), **bounds(pod="second")})
    rig.worker.write(bounds(pod="second"))
    assert (rig.of(BATCH), rig.of(SECOND)) == (rig.nothing, rig.expected(GIB, 2 * GIB))


def test_an_order_that_waited_while_its_pod_left_is_not_carried_out(rig):
    rig.worker.write(bounds())
    create(rig.node, "app", kit.SHARED, on="batch")
    assert not rig.node.state.boxed("batch")
    rig.worker.write(bounds())
    assert rig.of(BATCH) == rig.nothing


def test_a_limit_that_somebody_else_had_set_is_never_raised(rig):
    name = FILES[rig.version][-1]
    rig.tree.write(BATCH, name, str(GIB))
    rig.worker.write(bounds(GIB, 4 * GIB))
    assert rig.of(BATCH)[-1] == GIB
    rig.worker.write(bounds(GIB // 4, GIB // 2))
    assert rig.of(BATCH)[-1] == GIB // 2
    rig.worker.write({})
    assert rig.of(BATCH)[-1] == GIB


def test_a_member_whose_writes_are_slow_keeps_no_other_from_its_turn(rig):
    rig.worker.write({**bounds(), **bounds(pod="second")})
    newer = {**bounds(GIB // 2), **bounds(GIB // 2, pod="second")}
    bound, orders = rig.writer.bound, [newer] * 3
    order: list[str] = []

    def slowly(path: str, values: object) -> object:
        order.append(path)
        if orders:
            rig.worker.submit(orders.pop())
        return bound(path, values)

    rig.writer.bound = slowly
    rig.worker.submit(newer)
    wait_until(lambda: len(order) >= 4, 20, "four writes")
    rig.worker.stop()
    assert order[:4] == [BATCH, SECOND, BATCH, SECOND]


def test_restore_puts_everything_back(rig):
    rig.worker.write({**bounds(), **bounds(pod="second")})
    found = restoration.restore(rig.journal, str(rig.root), rig.version)
    assert len(found.done) == 2 * len(FILES[rig.version])
    assert (rig.of(BATCH), rig.of(SECOND)) == (rig.nothing, rig.nothing)


def test_what_a_former_life_bounded_is_given_back_once_everybody_is_known(rig):
    rig.worker.write({**bounds(), **bounds(pod="second")})
    worker = rig.again()
    known: list[bool] = []
    worker.told_all = lambda: bool(known)
    worker.write(bounds())
    assert rig.of(SECOND) != rig.nothing, "it might be a member that nobody has told us of yet"
    known.append(True)
    worker.write(bounds())
    assert (rig.of(BATCH), rig.of(SECOND)) == (rig.expected(GIB, 2 * GIB), rig.nothing)


def test_without_a_member_there_is_no_thread(rig):
    rig.worker.submit({})
    rig.worker.release(BATCH)
    rig.worker.submit({})
    assert rig.worker._thread.ident is None
    assert rig.worker.ended(0)


def test_what_a_former_life_bounded_is_given_back_though_there_is_no_member(rig):
    rig.worker.write(bounds())
    worker = rig.again()
    known: list[bool] = []
    worker.told_all = lambda: bool(known)
    worker.submit({})
    assert rig.of(BATCH) != rig.nothing
    known.append(True)
    worker.submit({})
    becomes(lambda: rig.of(BATCH) == rig.nothing, "its own again")
    worker.stop()


# --- far below the use -----------------------------------------------------------------------------------

USAGE = {1: "memory.usage_in_bytes", 2: "memory.current"}
STEP = ReclaimTuning().memory_step


class Kernel:
    """What a write does: it reclaims down to the brake, of each cgroup all but its anonymous memory.

    `falls`: below what use each write of a brake was; `between`: called after each.
    """

    def __init__(self, rig: Rig, use: int, anon: int = 0) -> None:
        self.falls: list[tuple[str, int]] = []
        self.between: Callable[[], object] = lambda: None
        self._rig, self._anon, self._bound = rig, anon, rig.writer.bound
        for path in (BATCH, SECOND):
            self.hold(path, use)
        rig.writer.bound = self._write

    def hold(self, path: str, use: int) -> None:
        self._rig.tree.write(path, USAGE[self._rig.version], str(use))

    def held(self, path: str) -> int:
        return int(self._rig.tree.read(path, USAGE[self._rig.version]) or "")

    def _write(self, path: str, values: Any) -> Any:
        held, brake = self.held(path), int(values[0].text)
        assert self._rig.version == 1 or int(values[1].text) >= held, "memory.max below the use kills"
        applied = self._bound(path, values)
        self.falls.append((path, held - brake))
        self.hold(path, max(self._anon, min(held, brake)))
        self.between()
        return applied


def far_below(pod: str = "batch") -> dict[str, Bounds]:
    return bounds(GIB, GIB + STEP // 2, pod)


def test_a_bound_far_below_the_use_is_walked_to_without_other_bounds(rig):
    kernel = Kernel(rig, 3 * GIB)
    rig.worker.submit(far_below())
    becomes(lambda: rig.of(BATCH) == rig.expected(GIB, GIB + STEP // 2), "the bound itself")
    rig.worker.stop()
    assert rig.worker.ended(180)
    assert max(fall for _, fall in kernel.falls) == STEP
    assert len(kernel.falls) in range(7, 10)


def test_members_walk_by_turns(rig):
    kernel = Kernel(rig, 2 * GIB)
    rig.worker.submit({**far_below(), **far_below("second")})
    becomes(lambda: rig.of(SECOND) == rig.expected(GIB, GIB + STEP // 2), "the last bound")
    rig.worker.stop()
    assert rig.worker.ended(180)
    turns = [path for path, _ in kernel.falls]
    assert turns[:6] == [BATCH, SECOND] * 3


def test_a_step_that_gets_nothing_back_ends_the_walk_until_other_bounds_come(rig):
    kernel = Kernel(rig, 3 * GIB, anon=3 * GIB)
    assert rig.worker.write(far_below()) == {}
    assert kernel.falls == [(BATCH, STEP)]
    before = rig.of(BATCH)
    assert rig.worker.write(far_below()) == {}
    assert rig.of(BATCH) == before
    assert rig.heard.records == []


def test_a_brake_never_follows_what_grows_beyond_it(tmp_path):
    rig = Rig(tmp_path, 2)
    kernel = Kernel(rig, 2 * GIB, anon=2 * GIB)
    rig.worker.write(far_below())
    kernel.hold(BATCH, 3 * GIB)
    rig.worker.write(far_below())
    assert rig.of(BATCH) == [2 * GIB - STEP, 3 * GIB]


def test_newer_bounds_win_between_two_steps(rig):
    kernel = Kernel(rig, 3 * GIB)
    newer = [bounds(2 * GIB, 4 * GIB)]
    kernel.between = lambda: newer and rig.worker.submit(newer.pop())
    rig.worker.submit(far_below())
    becomes(lambda: rig.of(BATCH) == rig.expected(2 * GIB, 4 * GIB), "the newer bound")
    rig.worker.stop()
    assert rig.worker.ended(180)
    assert kernel.held(BATCH) >= 2 * GIB


def test_others_writes_are_made_between_two_steps(rig):
    kernel = Kernel(rig, 3 * GIB)
    seen: list[int] = []
    others = [Later("web", lambda: seen.append(kernel.held(BATCH)))]
    kernel.between = lambda: others and rig.worker.later(others.pop(), "web")
    rig.worker.submit(far_below())
    becomes(lambda: rig.of(BATCH) == rig.expected(GIB, GIB + STEP // 2), "the bound itself")
    rig.worker.stop()
    assert rig.worker.ended(180)
    assert seen == [3 * GIB - STEP]


def test_it_ends_between_two_steps(rig):
    kernel = Kernel(rig, 3 * GIB)
    kernel.between = rig.worker.stop
    rig.worker.submit(far_below())
    assert rig.worker.ended(180)
    assert kernel.falls == [(BATCH, STEP)]


def test_a_member_that_left_the_box_between_two_steps_gets_its_own_back(rig):
    kernel = Kernel(rig, 3 * GIB)
    kernel.between = lambda: create(rig.node, "app", kit.SHARED, on="batch")
    rig.worker.submit(far_below())
    becomes(lambda: bool(kernel.falls) and rig.of(BATCH) == rig.nothing, "its own again after a step")
    rig.worker.stop()
    assert rig.worker.ended(180)
    assert len(kernel.falls) == 1


def test_what_a_former_life_gave_is_found_by_who_was_bounded(rig):
    rig.worker.write(bounds())
    worker = rig.again()
    high = None if rig.version == 1 else GIB
    assert worker.found([BATCH, SECOND]) == {BATCH: Found(high, 2 * GIB)}
    for name in FILES[rig.version]:
        rig.tree.write(BATCH, name, NO_LIMIT[rig.version])
    assert worker.found([BATCH]) == {BATCH: Found()}


def test_a_pod_that_is_gone_troubles_nobody(rig):
    rig.worker.write(bounds())
    rig.node.decide(PodRemoved("batch"))
    rig.tree.remove(BATCH)
    rig.worker.write({})
    rig.worker.write(bounds())
    assert rig.heard.records == []


def test_a_refusal_is_told_once_and_the_others_are_served(rig):
    broken = (
        rig.root / "sys/fs/cgroup" / ("memory" if rig.version == 1 else "") / BATCH / FILES[rig.version][-1]
    )
    broken.unlink()
    broken.mkdir()
    for _ in range(3):
        rig.worker.write({**bounds(), **bounds(pod="second")})
    assert rig.heard.said() == [("write.failed", "kernel_refused")]
    assert rig.of(SECOND) == rig.expected(GIB, 2 * GIB)


def test_the_thread_writes_what_was_submitted_last_and_gives_back_what_is_released(rig):
    rig.worker.submit(bounds(2 * GIB, 3 * GIB))
    rig.worker.submit(bounds())
    becomes(lambda: rig.of(BATCH) == rig.expected(GIB, 2 * GIB), "the newest bounds")
    rig.worker.release(SECOND)
    rig.worker.release(BATCH)
    becomes(lambda: rig.of(BATCH) == rig.nothing, "its own again")
    rig.worker.stop()
    rig.worker._thread.join(30)
    assert not rig.worker._thread.is_alive()


def test_a_bound_that_somebody_took_away_is_back_and_told_of_the_pod(rig):
    rig.worker.write(bounds())
    rig.tree.write(BATCH, FILES[rig.version][-1], NO_LIMIT[rig.version])
    rig.worker.write(bounds())
    rig.worker.write(bounds())
    assert rig.of(BATCH) == rig.expected(GIB, 2 * GIB)
    (record,) = rig.heard.records
    assert (record.event.value, record.pod) == ("drift.repair", "batch")
    assert (record.before, record.after) == ({}, {"memory.limit": 2 * GIB})


def test_a_host_group_that_comes_later_is_bounded_without_blame(rig):
    wanted = {"yarn": Bounds(Part(GIB, 2 * GIB))}
    rig.worker.write(wanted)
    rig.tree.make("yarn")
    rig.worker.write(wanted)
    assert rig.of("yarn") == rig.expected(GIB, 2 * GIB)
    assert rig.heard.records == []


def test_a_bound_that_changes_is_no_drift(rig):
    rig.worker.write(bounds())
    rig.worker.write(bounds(GIB // 2, GIB))
    assert rig.heard.records == []


def test_who_takes_bounds_away_for_ever_is_let_be_until_another_is_wanted(rig):
    rig.worker.write(bounds())
    for _ in range(REPAIRS_PER_MINUTE + 2):
        rig.tree.write(BATCH, FILES[rig.version][-1], NO_LIMIT[rig.version])
        rig.worker.write(bounds())
    assert rig.heard.said() == [("drift.repair", "found_different")] * REPAIRS_PER_MINUTE
    assert rig.of(BATCH)[-1] is None
    rig.worker.write(bounds(GIB // 2, GIB))
    assert rig.of(BATCH) == rig.expected(GIB // 2, GIB)


def test_a_host_groups_bound_is_told_with_its_path(rig):
    rig.tree.make("yarn")
    wanted = {"yarn": Bounds(Part(GIB, 2 * GIB))}
    rig.worker.write(wanted)
    rig.tree.write("yarn", FILES[rig.version][-1], NO_LIMIT[rig.version])
    rig.worker.write(wanted)
    assert rig.heard.records[0].because.startswith(f"yarn: found {FILES[rig.version][-1]} ")


def test_a_thread_outlives_what_nobody_foresaw(rig):
    odd = {"../out": Bounds(Part(GIB, GIB))}
    rig.worker.submit(odd | bounds())
    becomes(lambda: rig.of(BATCH) == rig.expected(GIB, 2 * GIB), "who comes after it")
    rig.worker.submit(bounds(GIB // 2, GIB))
    becomes(lambda: rig.of(BATCH) == rig.expected(GIB // 2, GIB), "the next round")
    rig.worker.stop()


def test_others_writes_are_made_one_after_the_other_and_a_refusal_is_told(rig):
    refused = KernelInterfaceError("/pod/memory.high", "write 4096 to", "No space left on device")
    made: list[str] = []
    begun, slow = Event(), Event()

    def slowly() -> None:
        begun.set()
        slow.wait(180)
        made.append("first")

    def refusing() -> KernelInterfaceError:
        made.append("second")
        return refused

    rig.worker.later(Later("first", slowly), "web")
    assert begun.wait(180)
    rig.worker.later(Later("second", lambda: made.append("never: a newer one of this file has come")), "web")
    rig.worker.later(Later("second", refusing), "batch")
    rig.worker.submit(bounds())
    assert made == []
    slow.set()
    becomes(lambda: rig.of(BATCH) == rig.expected(GIB, 2 * GIB), "the box's bounds after them")
    rig.worker.stop()
    assert made == ["first", "second"]
    assert [(one.event.value, one.pod) for one in rig.heard.records] == [("write.failed", "batch")]


def test_a_write_that_is_refused_is_not_made_again_at_each_look(rig, monkeypatch):
    monkeypatch.setattr(refusals, "FIRST_PAUSE_S", 600.0)
    refused = KernelInterfaceError("/pod/memory.high", "write 4096 to", "Device or resource busy")
    tries: list[str] = []

    def refusing() -> KernelInterfaceError:
        tries.append("one more")
        return refused

    for _ in range(3):
        rig.worker.later(Later("refused", refusing), "")
        done = Event()
        rig.worker.later(Later("another", done.set), "")
        assert done.wait(180)
    rig.worker.stop()
    assert tries == ["one more"]


def test_what_was_not_begun_when_it_ends_is_not_written(rig):
    made: list[str] = []

    def ending() -> None:
        rig.worker.later(Later("second", lambda: made.append("second")), "")
        rig.worker.stop()
        made.append("begun")

    rig.worker.later(Later("first", ending), "")
    assert rig.worker.ended(180)
    rig.worker.later(Later("third", lambda: made.append("third")), "")
    assert made == ["begun"]


def becomes(look: Callable[[], bool], what: str) -> None:
    wait_until(look, 20, what)


def test_what_a_vm_asks_for_outside_of_the_box_is_nobodys_leftover(tmp_path):
    rig = Rig(tmp_path, 2)
    rig.tree.make("kubepods/podweb")
    create(rig.node, "app", replace(kit.SHARED, handler="pod", knobs=Knobs(memory_high=GIB)))
    target = targets.of_pod(rig.node.state, "web", kit.EVERYTHING)
    assert target is not None
    rig.worker._writer.apply(target)
    rig.again().write({})
    assert rig.tree.read("kubepods/podweb", "memory.high") == str(GIB)
