"""A bound far below the use is reached in steps, as long as each step reclaims memory."""

from collections.abc import Callable
from typing import Any

import pytest

from nri_coloc.core.settings import ReclaimTuning
from nri_coloc.host.knob_files import Later
from nri_coloc.memory.worker import Bounds
from tests.unit.memory.memory_bed import BATCH, GIB, SECOND, Rig, becomes, bounds
from tests.unit.parts import create
from tests.unit.placing import kit

USAGE = {1: "memory.usage_in_bytes", 2: "memory.current"}
STEP = ReclaimTuning().memory_step


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def rig(request, tmp_path) -> Rig:
    return Rig(tmp_path, request.param)


class Kernel:
    """Fake kernel: a write of the brake reclaims a cgroup's memory down to it, except anonymous memory.

    `falls`: how far below the use each brake was, bytes; `between`: called after each write.
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


def test_a_low_bound_is_reached_by_steps(rig):
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


def test_a_step_without_effect_ends_the_steps(rig):
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


def test_a_pod_that_leaves_between_steps_is_restored(rig):
    kernel = Kernel(rig, 3 * GIB)
    kernel.between = lambda: create(rig.node, "app", kit.SHARED, on="batch")
    rig.worker.submit(far_below())
    becomes(lambda: bool(kernel.falls) and rig.of(BATCH) == rig.nothing, "its own again after a step")
    rig.worker.stop()
    assert rig.worker.ended(180)
    assert len(kernel.falls) == 1
