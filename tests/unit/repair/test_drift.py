"""A changed value is a drift only if it was in place before, and is still wanted."""

import pytest

from nri_coloc.core.knobs import NO_KNOBS, Knobs
from nri_coloc.core.report import Drift
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host.knob_files import Applied, Correction, FileValue, Later, Target
from nri_coloc.repair.drift import (
    ANNOUNCED_WITHIN_S,
    FORMER_KEPT,
    LONGEST_WRITE_S,
    REPAIRS_PER_MINUTE,
    RUNTIME_LATE_S,
    Drifts,
    Unannounced,
)
from tests.unit.placing import kit

ALL, LOW, HIGH = kit.mask("0-7"), kit.mask("0-3"), kit.mask("4-7")
LIGHT = FileValue("cpu", "cpu.weight", "1")
RESET = Correction("cpu.weight", "100", "1")


def target(cpus: int = ALL, *values: FileValue) -> Target:
    return Target("pod", cpus, values)


def found(before: int, after: int = ALL, *corrected: Correction) -> Applied:
    return Applied(after, before, corrected=corrected)


class Clock:
    """A clock whose time is set, seconds."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def written(drifts: Drifts, id_: str) -> None:
    """Have the runtime write values of a cgroup, and say so."""
    drifts.pushing(id_)
    drifts.pushed(id_)


def settled(*wanted: Target, seconds: float = RUNTIME_LATE_S, is_pushed: bool = True) -> Drifts:
    """Return the drifts of a cgroup that had each target for a while, the last for `seconds`.

    is_pushed: whether the runtime was asked to write the first target.
    """
    clock = Clock()
    drifts = Drifts(clock)
    if is_pushed:
        written(drifts, "pod")
    for each in wanted:
        drifts.judge("pod", each, found(each.cpus, each.cpus))
    clock.now += seconds
    return drifts


NODES = FileValue("cpuset", "cpuset.mems", "0")


@pytest.mark.parametrize(
    ("was", "seconds", "is_drift"), [("0-1", 1, False), ("1", 1, True), ("0-1", 11, True)]
)
def test_memory_nodes_that_the_runtimes_spec_still_names_are_no_drift(was, seconds, is_drift):
    drifts = settled(target(ALL, NODES), seconds=seconds)
    reset = Correction("cpuset.mems", was, "0")
    assert (drifts.judge("pod", target(ALL, NODES), found(ALL, ALL, reset)) is not None) is is_drift


def test_value_never_seen_in_place_is_no_drift():
    assert Drifts().judge("pod", target(ALL, LIGHT), found(LOW, ALL, RESET)) is None


def test_changed_value_that_is_still_wanted_is_drift():
    drift = settled(target(ALL, LIGHT)).judge("pod", target(ALL, LIGHT), found(LOW, ALL, RESET))
    assert drift is not None
    assert drift.before.named() == {"cpus": "0-3", "shares": 2598}
    assert drift.after.named() == {"cpus": "0-7", "shares": 2}
    assert drift.because == "repaired: CPUs 0-3 instead of 0-7, cpu.weight 100 instead of 1"


def test_newly_wanted_value_is_no_drift():
    assert settled(target(ALL)).judge("pod", target(LOW, LIGHT), found(ALL, LOW, RESET)) is None


def test_cpus_beyond_are_taken_back_without_a_drift():
    drifts = settled(Target("pod", LOW, beyond=HIGH))
    assert drifts.judge("pod", target(LOW), found(ALL, LOW)) is None


def test_only_cpus_sent_to_the_runtime_are_expected():
    drifts = Drifts()
    drifts.expect("pod", "pod", ALL)
    drift = drifts.judge("pod", target(ALL, LIGHT), found(LOW, ALL, RESET))
    assert drift is not None
    assert drift.after.named() == {"cpus": "0-7"}, "of its weight nothing was known"


def test_a_value_that_the_kernel_refused_is_not_in_place():
    drifts = settled(target(ALL))
    refused = KernelInterfaceError("/sys/pod/cpu.weight", "write", "no")
    drifts.judge("pod", target(LOW, LIGHT), Applied(ALL, ALL, (refused,)))
    assert drifts.judge("pod", target(LOW, LIGHT), found(ALL, LOW, RESET)) is None


def test_an_unwritten_value_counts_once_it_is_there():
    bound = FileValue("memory", "memory.high", "4096")
    drifts = settled(target(ALL, bound))
    raised = Correction("memory.high", "max", "4096")
    waits = Applied(ALL, ALL, corrected=(raised,), later=(Later("/pod/memory.high", lambda: None),))
    told = [drifts.judge("pod", target(ALL, bound), waits) for _ in range(3)]
    assert [drift is not None for drift in told] == [True, False, False]
    drifts.judge("pod", target(ALL, bound), found(ALL))
    assert drifts.judge("pod", target(ALL, bound), found(ALL, ALL, raised)) is not None


def test_failed_repair_is_not_reported_as_repaired():
    assert settled(target(ALL)).judge("pod", target(ALL), found(LOW, LOW)) is None


def test_value_ordered_before_is_recognised_and_reported():
    drifts = settled(target(LOW, LIGHT), target(ALL, LIGHT))
    overtaken = drifts.judge("pod", target(ALL, LIGHT), found(LOW))
    foreign = drifts.judge("pod", target(ALL, LIGHT), found(HIGH))
    weight = drifts.judge("pod", target(ALL, LIGHT), found(LOW, ALL, RESET))
    assert [drift and drift.former for drift in (overtaken, foreign, weight)] == [True, False, False]
    assert overtaken is not None
    assert "the value was ordered before" in overtaken.because


@pytest.mark.parametrize(("seconds", "is_drift"), [(0, False), (RUNTIME_LATE_S, True)])
def test_late_write_of_the_runtime_is_no_drift(seconds: float, *, is_drift: bool):
    drifts = settled(target(LOW, LIGHT), target(ALL, LIGHT), seconds=seconds)
    assert bool(drifts.judge("pod", target(ALL, LIGHT), found(LOW))) is is_drift


@pytest.mark.parametrize(
    ("path", "seconds", "is_drift"),
    [("pod/app.scope", 0, False), ("pod/app.scope", RUNTIME_LATE_S, True), ("pod/app", 0, True)],
)
def test_late_write_at_a_start_is_no_drift(path: str, seconds: float, *, is_drift: bool):
    clock = Clock()
    drifts = Drifts(clock)
    drifts.expect("app", path, LOW)
    drifts.judge("app", target(ALL), found(LOW))
    drifts.pushed("app")
    clock.now += seconds
    assert bool(drifts.judge("app", target(ALL), found(LOW))) is is_drift


@pytest.mark.parametrize(
    ("path", "seconds", "is_drift"),
    [("pod/app.scope", 0, False), ("pod/app.scope", RUNTIME_LATE_S, True), ("pod/app", 0, True)],
)
@pytest.mark.parametrize("name", ["io.weight", "io.bfq.weight"])
def test_systemds_io_weight_after_a_push_is_no_drift(path: str, seconds: float, name: str, *, is_drift: bool):
    clock, wanted = Clock(), Target(path, values=(FileValue("blkio", name, "10"),))
    drifts = Drifts(clock)
    drifts.judge("app", wanted, Applied())
    written(drifts, "app")
    clock.now += seconds
    reset = Correction(name, "default 100" if name == "io.weight" else "100", "10")
    assert bool(drifts.judge("app", wanted, Applied(corrected=(reset,)))) is is_drift


@pytest.mark.parametrize(
    ("seconds", "is_answered", "is_drift"),
    [(100, False, False), (100, True, False), (LONGEST_WRITE_S, True, False), (LONGEST_WRITE_S, False, True)],
)
def test_late_write_of_a_push_that_took_long_is_no_drift(
    seconds: float, *, is_answered: bool, is_drift: bool
):
    clock = Clock()
    drifts = Drifts(clock)
    drifts.judge("pod", target(LOW), found(LOW, LOW))
    drifts.pushing("pod")
    drifts.judge("pod", target(ALL), found(LOW))
    clock.now += seconds
    if is_answered:
        drifts.pushed("pod")
    assert bool(drifts.judge("pod", target(ALL), found(LOW))) is is_drift


def test_the_end_of_a_write_that_nobody_announced_is_not_noted():
    drifts = settled(target(LOW), target(ALL), is_pushed=False)
    drifts.pushed("pod")
    assert drifts.judge("pod", target(ALL), found(LOW))


def test_former_value_without_a_push_is_a_drift():
    drifts = settled(target(LOW, LIGHT), target(ALL, LIGHT), seconds=0, is_pushed=False)
    assert drifts.judge("pod", target(ALL, LIGHT), found(LOW))


def test_foreign_value_is_a_drift_at_once():
    drifts = settled(target(LOW, LIGHT), target(ALL, LIGHT), seconds=0)
    assert drifts.judge("pod", target(ALL, LIGHT), found(HIGH))


def test_a_former_value_of_a_file_is_known_again():
    heavy = FileValue("cpu", "cpu.weight", "100")
    drifts = settled(target(ALL, heavy), target(LOW, LIGHT))
    drift = drifts.judge("pod", target(LOW, LIGHT), found(LOW, LOW, RESET))
    assert drift is not None
    assert drift.former


def test_value_ordered_long_ago_is_forgotten():
    sets = [LOW, *(1 << cpu for cpu in range(FORMER_KEPT)), ALL]
    drift = settled(*map(target, sets)).judge("pod", target(ALL), found(LOW))
    assert drift is not None
    assert not drift.former


def test_missing_cgroup_shows_no_drift():
    drifts = Drifts()
    drifts.expect("pod", "pod", ALL)
    nothing = Applied(absent=("cpu.weight",))
    assert drifts.judge("pod", target(ALL, LIGHT), nothing) is None
    drift = drifts.judge("pod", target(ALL, LIGHT), found(LOW, ALL, RESET))
    assert drift is not None
    assert drift.before.named() == {"cpus": "0-3"}, "only the CPUs sent to the runtime are still expected"


def test_knob_in_two_files_is_reported_once():
    values = (FileValue("blkio", "io.weight", "default 300"), FileValue("blkio", "io.bfq.weight", "118"))
    reset = (
        Correction("io.weight", "default 100\n8:0 50", "default 300"),
        Correction("io.bfq.weight", "100", "118"),
    )
    drift = settled(target(ALL, *values)).judge("pod", target(ALL, *values), found(ALL, ALL, *reset))
    assert drift is not None
    assert (drift.before.named(), drift.after.named()) == ({"io.weight": 100}, {"io.weight": 300})
    assert drift.because == "repaired: io.weight 100 instead of 300, io.bfq.weight 100 instead of 118"


def test_removed_limit_is_reported_as_none():
    high = FileValue("memory", "memory.high", "4096")
    reset = Correction("memory.high", "max", "4096")
    drift = settled(target(0, high)).judge("pod", target(0, high), Applied(corrected=(reset,)))
    assert drift is not None
    assert (drift.before, drift.because) == (NO_KNOBS, "repaired: memory.high max instead of 4096")
    assert drift.after.named() == {"memory.high": 4096}


def test_removed_nodes_are_reported_as_nothing():
    mems = FileValue("cpuset", "cpuset.mems", "0")
    reset = Correction("cpuset.mems", "", "0")
    drift = settled(target(0, mems)).judge("pod", target(0, mems), Applied(corrected=(reset,)))
    assert drift is not None
    assert (drift.before, drift.after.named()) == (NO_KNOBS, {"mems": "0"})
    assert "repaired: cpuset.mems nothing instead of 0" in drift.because


def test_repairs_pause_after_six_in_a_minute():
    drifts = settled(target(ALL))
    told = [drifts.judge("pod", target(ALL), found(LOW)) for _ in range(REPAIRS_PER_MINUTE)]
    assert all(told)
    assert drifts.lets_be("pod")
    assert drifts.lets_be("pod", target(ALL))
    assert not drifts.lets_be("pod", target(LOW))
    drifts.forget("pod")
    assert (drifts.lets_be("pod"), drifts.ids) == (False, set())


RESIZED = Drift(Knobs(shares=307), Knobs(shares=2), "repaired: cpu.shares 307 instead of 2")
OTHER = Drift(Knobs(io_weight=400), Knobs(io_weight=10), "repaired: io.weight 400 instead of 10")
LATE = ANNOUNCED_WITHIN_S


def reported(*looks: tuple[float, Drift | None, bool]) -> list[tuple[Drift, ...]]:
    """Return the drifts that each check of a pod reports; a check is (time, drift, a resize is announced)."""
    resized: list[bool] = []
    pods, found = Unannounced(lambda _pod_id: resized[-1]), []
    for now, drift, is_resized in looks:
        resized.append(is_resized)
        found.append(pods.judge("pod", drift, now))
    return found


def test_announced_write_is_not_reported():
    assert reported((0, RESIZED, False), (1, None, True), (LATE, None, False)) == [(), (), ()]


def test_write_that_nothing_announces_is_reported_once():
    assert reported((0, RESIZED, False), (1, None, False), (LATE, None, False), (9, None, False)) == [
        (),
        (),
        (RESIZED,),
        (),
    ]


def test_repeated_write_is_reported_at_once():
    again = RESIZED._replace(times=2)
    assert reported((0, RESIZED, False), (1, again, False)) == [(), (RESIZED, again)]


def test_other_drift_is_reported_at_once():
    assert reported((0, OTHER, False), (1, RESIZED, False), (2, OTHER, True)) == [(OTHER,), (), (OTHER,)]


def test_pod_that_is_gone_is_not_reported():
    pods = Unannounced(lambda _pod_id: False)
    pods.judge("pod", RESIZED, now=0)
    pods.forget("pod")
    assert pods.judge("pod", None, now=LATE) == ()


def test_a_push_at_a_containers_end_is_forgotten():
    drifts = Drifts()
    drifts.forget("ended")
    drifts.pushing("ended")
    assert drifts.ids == {"ended"}
    drifts.forget("ended")
    assert drifts.ids == set()
