"""Reclaimed pods get memory limits; the original values, from the journal, are restored when they leave."""

from dataclasses import replace
from threading import Event

import pytest

from nri_coloc.core.decisions import PodRemoved
from nri_coloc.core.knobs import Knobs
from nri_coloc.core.lending import Part
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host.knob_files import Later
from nri_coloc.memory.division import Found
from nri_coloc.memory.worker import LEAST, Bounds
from nri_coloc.repair import drift, targets
from nri_coloc.repair.drift import REPAIRS_PER_MINUTE
from tests.rig.journals import restored
from tests.rig.waiting import wait_until
from tests.unit.memory.memory_bed import BATCH, FILES, GIB, NO_LIMIT, SECOND, Rig, becomes, bounds
from tests.unit.parts import create
from tests.unit.placing import kit


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def rig(request, tmp_path) -> Rig:
    return Rig(tmp_path, request.param)


def test_a_member_is_bounded_in_whole_pages(rig):
    rig.worker.write(bounds(GIB + 1, 2 * GIB + 5))
    assert rig.of(BATCH) == rig.expected(GIB, 2 * GIB)
    assert rig.of(SECOND) == rig.nothing


def test_limits_leave_room_to_live(rig):
    rig.worker.write(bounds(0, 0))
    assert rig.of(BATCH) == rig.expected(LEAST, LEAST)


def test_leaving_pod_gets_its_original_values(rig):
    rig.worker.write({**bounds(), **bounds(pod="second")})
    rig.worker.write(bounds(pod="second"))
    assert (rig.of(BATCH), rig.of(SECOND)) == (rig.nothing, rig.expected(GIB, 2 * GIB))


def test_order_for_a_pod_that_left_is_dropped(rig):
    rig.worker.write(bounds())
    create(rig.node, "app", kit.SHARED, on="batch")
    assert not rig.node.state.boxed("batch")
    rig.worker.write(bounds())
    assert rig.of(BATCH) == rig.nothing


def test_foreign_limit_is_never_raised(rig):
    name = FILES[rig.version][-1]
    rig.tree.write(BATCH, name, str(GIB))
    rig.worker.write(bounds(GIB, 4 * GIB))
    assert rig.of(BATCH)[-1] == GIB
    rig.worker.write(bounds(GIB // 4, GIB // 2))
    assert rig.of(BATCH)[-1] == GIB // 2
    rig.worker.write({})
    assert rig.of(BATCH)[-1] == GIB


def test_slow_writes_delay_no_other_pod(rig):
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
    found = restored(rig.journal, str(rig.root), rig.version)
    assert len(found.done) == 2 * len(FILES[rig.version])
    assert (rig.of(BATCH), rig.of(SECOND)) == (rig.nothing, rig.nothing)


def test_previous_limits_end_after_the_list(rig):
    rig.worker.write({**bounds(), **bounds(pod="second")})
    worker = rig.again()
    rig.node.told = False
    worker.write(bounds())
    assert rig.of(SECOND) != rig.nothing, "it may be a member that is not listed yet"
    rig.node.told = True
    worker.write(bounds())
    assert (rig.of(BATCH), rig.of(SECOND)) == (rig.expected(GIB, 2 * GIB), rig.nothing)


def test_without_a_member_there_is_no_thread(rig):
    rig.worker.submit({})
    rig.worker.release(BATCH)
    rig.worker.submit({})
    assert rig.worker._thread.ident is None
    assert rig.worker.ended(0)


def test_previous_limits_end_without_reclaimed_pods(rig):
    rig.worker.write(bounds())
    worker = rig.again()
    rig.node.told = False
    worker.submit({})
    assert rig.of(BATCH) != rig.nothing
    rig.node.told = True
    worker.submit({})
    becomes(lambda: rig.of(BATCH) == rig.nothing, "its own again")
    worker.stop()


def test_previous_values_are_found_by_the_limits(rig):
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


def test_refusal_is_recorded_once(rig):
    broken = (
        rig.root / "sys/fs/cgroup" / ("memory" if rig.version == 1 else "") / BATCH / FILES[rig.version][-1]
    )
    broken.unlink()
    broken.mkdir()
    for _ in range(3):
        rig.worker.write({**bounds(), **bounds(pod="second")})
    assert rig.heard.said() == [("write.failed", "refused")]
    assert rig.of(SECOND) == rig.expected(GIB, 2 * GIB)


def test_thread_writes_the_newest_and_restores_released(rig):
    rig.worker.submit(bounds(2 * GIB, 3 * GIB))
    rig.worker.submit(bounds())
    becomes(lambda: rig.of(BATCH) == rig.expected(GIB, 2 * GIB), "the newest bounds")
    rig.worker.release(SECOND)
    rig.worker.release(BATCH)
    becomes(lambda: rig.of(BATCH) == rig.nothing, "its own again")
    rig.worker.stop()
    rig.worker._thread.join(30)
    assert not rig.worker._thread.is_alive()


def test_removed_limit_is_repaired_and_recorded(rig):
    rig.worker.write(bounds())
    rig.tree.write(BATCH, FILES[rig.version][-1], NO_LIMIT[rig.version])
    rig.worker.write(bounds())
    rig.worker.write(bounds())
    assert rig.of(BATCH) == rig.expected(GIB, 2 * GIB)
    (record,) = rig.heard.records
    assert (record.event.value, record.pod) == ("drift.repair", "batch")
    assert (record.before, record.after) == ({}, {"memory.limit": 2 * GIB})


def test_later_host_group_is_limited_without_drift(rig):
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


def test_repairs_pause_until_another_limit_is_wanted(rig):
    rig.worker.write(bounds())
    for _ in range(REPAIRS_PER_MINUTE + 2):
        rig.tree.write(BATCH, FILES[rig.version][-1], NO_LIMIT[rig.version])
        rig.worker.write(bounds())
    assert rig.heard.said() == [("drift.repair", "found_different")] * REPAIRS_PER_MINUTE
    assert rig.of(BATCH)[-1] is None
    rig.worker.write(bounds(GIB // 2, GIB))
    assert rig.of(BATCH) == rig.expected(GIB // 2, GIB)


def test_host_groups_limit_is_recorded_with_its_path(rig):
    rig.tree.make("yarn")
    wanted = {"yarn": Bounds(Part(GIB, 2 * GIB))}
    rig.worker.write(wanted)
    rig.tree.write("yarn", FILES[rig.version][-1], NO_LIMIT[rig.version])
    rig.worker.write(wanted)
    assert rig.heard.records[0].because.startswith(f"repaired in yarn: {FILES[rig.version][-1]} ")


def test_a_thread_outlives_what_nobody_foresaw(rig):
    odd = {"../out": Bounds(Part(GIB, GIB))}
    rig.worker.submit(odd | bounds())
    becomes(lambda: rig.of(BATCH) == rig.expected(GIB, 2 * GIB), "the next member")
    rig.worker.submit(bounds(GIB // 2, GIB))
    becomes(lambda: rig.of(BATCH) == rig.expected(GIB // 2, GIB), "the next round")
    rig.worker.stop()


def test_delayed_writes_run_in_order(rig):
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
    becomes(
        lambda: rig.of(BATCH) == rig.expected(GIB, 2 * GIB), "the limits of all reclaim cgroups after them"
    )
    rig.worker.stop()
    assert made == ["first", "second"]
    assert [(one.event.value, one.pod) for one in rig.heard.records] == [("write.failed", "batch")]


def test_refused_write_is_not_repeated_each_time(rig, monkeypatch):
    monkeypatch.setattr(drift, "FIRST_PAUSE_S", 600.0)
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


def test_end_drops_writes_not_begun(rig):
    made: list[str] = []

    def ending() -> None:
        rig.worker.later(Later("second", lambda: made.append("second")), "")
        rig.worker.stop()
        made.append("begun")

    rig.worker.later(Later("first", ending), "")
    assert rig.worker.ended(180)
    rig.worker.later(Later("third", lambda: made.append("third")), "")
    assert made == ["begun"]


def test_vms_request_outside_the_pool_is_no_leftover(tmp_path):
    rig = Rig(tmp_path, 2)
    rig.tree.make("kubepods/podweb")
    create(rig.node, "app", replace(kit.SHARED, handler="pod", knobs=Knobs(memory_high=GIB)))
    target = targets.of_pod(rig.node.state, "web", kit.EVERYTHING)
    assert target is not None
    rig.worker._writer.apply(target)
    rig.again().write({})
    assert rig.tree.read("kubepods/podweb", "memory.high") == str(GIB)
