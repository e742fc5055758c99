"""repair/actuator.py: cgroups get the values that the state orders. Orders and sweeps run mostly without a thread."""

import time
from collections.abc import Mapping
from threading import Thread

import pytest

from nri_coloc.core.decisions import ContainerCreating, ContainerGone, Moves, PodRemoved
from nri_coloc.core.knobs import Capability, Knobs
from nri_coloc.core.settings import ReclaimTuning, Tuning
from nri_coloc.core.workload import QoSClass, Wish
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host.write_back import Apart
from nri_coloc.repair.actuator import STEP_ASIDE_EVERY, TIDY_EVERY
from nri_coloc.repair.drift import REPAIRS_PER_MINUTE
from nri_coloc.repair.read_back import Barrier
from tests.rig.waiting import PATIENCE_SECONDS, wait_until
from tests.unit.parts import Cgroups, NoMemory, a_node, a_report, an_actuator, create, start_pod
from tests.unit.placing import kit

APP = "kubepods/podweb/app"
BATCH = "kubepods/podbatch"


class Rig:
    def __init__(self, tuning: Tuning | None = None, cpus: Mapping[str, int] | None = None) -> None:
        self.node = a_node(tuning)
        self.cgroups = Cgroups(cpus)
        self.report, self.heard = a_report(self.node)
        self.memory = NoMemory()
        self.actuator = an_actuator(
            self.node,
            self.cgroups.as_writer(),
            self.report,
            memory=self.memory,
            look_again=lambda can: kit.EVERYTHING,
        )
        self.node.learn(kit.EVERYTHING)


def test_starting_pod_is_limited_by_files_found_then():
    rig = Rig()
    start_pod(rig.node, "batch", Wish(QoSClass.RECLAIMED, knobs=Knobs(io_weight=10)))
    rig.node.learn(Capability(cgroup=2))
    rig.actuator.place_pod("batch")
    (target,) = rig.cgroups.targets
    assert "io.weight" in {value.name for value in target.values}


def test_pods_found_at_the_start_show_their_files():
    rig = Rig()
    start_pod(rig.node, "batch", Wish(QoSClass.RECLAIMED, knobs=Knobs(io_weight=10)))
    rig.node.learn(Capability(cgroup=2))
    rig.actuator.start()
    rig.actuator.submit(Moves(pods=("batch",)))
    wait_until(lambda: bool(rig.cgroups.targets), 5, "the pod's values")
    assert "io.weight" in {value.name for value in rig.cgroups.targets[0].values}
    rig.actuator.stop()


# ---- departures ----


def test_start_learns_which_cgroups_are_late():
    rig = Rig(cpus={APP: kit.mask("0-7")})
    create(rig.node, "app")
    outcome = create(rig.node, "owner", kit.DEDICATED, 2000, on="db")
    rig.actuator.submit(outcome.moves, "owner", kit.mask("0-1"), outcome.waits_for)
    late = rig.actuator.await_departure("owner", 0)
    assert late is not None
    assert (late.open, late.taken) == (1, kit.mask("0-1"))
    assert rig.actuator.await_departure("owner", 0) is None, "it was waited for once"


def test_start_ignores_cgroups_moved_in_time():
    rig = Rig(cpus={APP: kit.mask("0-7")})
    create(rig.node, "app")
    outcome = create(rig.node, "owner", kit.DEDICATED, 2000, on="db")
    rig.actuator.submit(outcome.moves, "owner", kit.mask("0-1"), outcome.waits_for)
    rig.actuator.place("app")
    assert rig.actuator.await_departure("owner", 0) is None
    assert rig.actuator.actual["app"] == kit.mask("2-7")


def test_refused_move_is_no_departure():
    rig = Rig(cpus={APP: kit.mask("0-7")})
    create(rig.node, "app")
    outcome = create(rig.node, "owner", kit.DEDICATED, 2000, on="db")
    rig.actuator.submit(outcome.moves, "owner", kit.mask("0-1"), outcome.waits_for)
    refusal = KernelInterfaceError("/cpuset.cpus", "write '2-7' to", "Device or resource busy")
    rig.actuator.drifts.refusals.tried("app", (refusal,))
    rig.actuator._keep_container("app")
    late = rig.actuator.await_departure("owner", 0)
    assert late is not None
    assert late.open == 1


def test_nobody_waits_for_what_was_never_taken():
    assert Rig().actuator.await_departure("app", 0) is None


def test_awaited_departure_has_no_pauses(monkeypatch):
    rig = Rig()
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    crowd = dict.fromkeys(f"gone{i}" for i in range(STEP_ASIDE_EVERY))
    monkeypatch.setattr(Barrier, "wait", lambda _self, _seconds: rig.actuator._carry_out({}, crowd))
    rig.actuator.submit(Moves(), "owner", 0b11, Moves(containers=("c",)))
    rig.actuator.await_departure("owner", 0)
    assert pauses == []
    rig.actuator._carry_out({}, crowd)
    assert pauses


# ---- handing CPUs over ----


def handed_over() -> tuple[Rig, Moves, Moves]:
    """Return a rig on which `owner` gets CPUs that `app` must leave, the moves of `app`, the moves of `owner`."""
    rig = Rig(cpus={APP: kit.mask("0-7"), "kubepods/poddb/owner": kit.mask("0-7")})
    create(rig.node, "app")
    create(rig.node, "owner", kit.DEDICATED, 2000, on="db")
    return rig, Moves(containers=("app",)), Moves(containers=("owner",))


def test_owners_come_when_the_others_have_left():
    rig, leaving, coming = handed_over()
    rig.actuator.start()
    assert rig.actuator.hand_over(kit.mask("0-1"), leaving, coming, PATIENCE_SECONDS) == 0
    wait_until(lambda: "owner" in rig.actuator.actual, 20, "the owner")
    rig.actuator.stop()
    assert [t.path for t in rig.cgroups.targets] == [APP, "kubepods/poddb/owner"]


def test_cgroups_that_stay_are_counted():
    rig, leaving, coming = handed_over()
    assert rig.actuator.hand_over(kit.mask("0-1"), leaving, coming, 0) == 1


def test_no_sweep_pins_an_owner_early(monkeypatch):
    rig, leaving, coming = handed_over()
    monkeypatch.setattr(Barrier, "wait", lambda _self, _seconds: rig.actuator._sweep())
    rig.actuator.hand_over(kit.mask("0-1"), leaving, coming, 0)
    assert [t.path for t in rig.cgroups.targets if t.path.endswith("r")] == []
    rig.actuator._sweep()
    assert rig.actuator.actual["owner"] == kit.mask("0-1")


# ---- placing ----


def test_vms_pod_is_placed_and_read_back():
    rig = Rig(cpus={"kubepods/podweb": 0xFF, APP: 0xFF})
    vm = Wish(QoSClass.DEDICATED, handler="pod")
    create(rig.node, "app", vm, 2000)
    create(rig.node, "side", vm, 100)
    rig.actuator.place("app")
    assert [target.path for target in rig.cgroups.targets] == ["kubepods/podweb"]
    assert rig.actuator.actual == dict.fromkeys(("app", "side"), kit.mask("0-1"))


def test_an_observer_reads_what_a_vms_pod_has():
    rig = Rig(Tuning(observe=True), {"kubepods/podweb": 0b11, APP: 0xFF})
    create(rig.node, "app", Wish(QoSClass.SHARED, handler="pod"))
    rig.actuator._sweep()
    assert rig.actuator.actual == {"app": 0b11}


def test_placing_returns_the_drift_since_the_answer():
    rig = Rig(cpus={APP: kit.mask("0-3")})
    create(rig.node, "app")
    rig.actuator.answered(rig.node.state.containers["app"], rig.node.state)
    drift = rig.actuator.place("app")
    assert drift is not None
    assert (drift.before.cpus, drift.after.cpus) == ("0-3", "0-7")
    assert rig.actuator.place("app") is None
    assert rig.actuator.actual == {"app": kit.mask("0-7")}


def test_values_beyond_the_answer_are_no_drift():
    rig = Rig(cpus={APP: kit.mask("0-7")})
    create(rig.node, "app")
    rig.actuator.answered(rig.node.state.containers["app"], rig.node.state)
    create(rig.node, "owner", kit.DEDICATED, 2000, on="db")
    assert rig.actuator.place("app") is None
    assert rig.actuator.actual == {"app": kit.mask("2-7")}


def test_observer_knows_host_groups():
    rig = Rig(Tuning(observe=True, reclaim=ReclaimTuning(host_groups=("yarn",))), {"yarn": 1})
    rig.actuator._sweep()
    assert rig.actuator.host_groups.members == ("yarn",)
    assert rig.cgroups.targets == []


def test_an_observer_writes_nothing():
    rig = Rig(Tuning(observe=True), {APP: 1})
    create(rig.node, "app")
    start_pod(rig.node, "batch")
    rig.actuator.place("app")
    rig.actuator.place_pod("batch")
    rig.actuator._sweep()
    assert (rig.cgroups.targets, rig.cgroups.protections, rig.cgroups.put) == ([], [], [])


def test_a_pod_that_left_gets_its_values_restored():
    rig = Rig()
    start_pod(rig.node, "web", Wish(QoSClass.SHARED, knobs=Knobs(io_weight=300)))
    rig.actuator.place_pod("web")
    ((path, keep),) = rig.cgroups.put
    assert path == "kubepods/podweb"
    assert {"io.weight", "memory.min", "memory.low"} <= keep
    assert "cpuset.cpus" not in keep


def test_containers_placed_alone_do_not_follow_their_pod():
    rig = Rig()
    start_pod(rig.node, "web")
    create(rig.node, "app")
    rig.actuator.place_pod("web")
    assert rig.cgroups.apart == (Apart(APP),)


def test_inheriting_containers_are_read_after_their_pod():
    rig = Rig(cpus={"kubepods/podbatch": kit.mask("0-7"), "kubepods/podbatch/job": kit.mask("2-7")})
    start_pod(rig.node, "batch")
    create(rig.node, "job", kit.RECLAIMED, 0, on="batch")
    create(rig.node, "owner", kit.DEDICATED, 2000, on="db")
    rig.actuator.place_pod("batch")
    assert rig.actuator.actual["job"] == kit.mask("2-7")


# ---- sweeps ----


def test_sweep_repairs_and_records_a_reset():
    rig = Rig(cpus={APP: kit.mask("0-7")})
    create(rig.node, "app")
    rig.actuator.place("app")
    rig.cgroups.cpus_of[APP] = kit.mask("0-3")
    rig.actuator._sweep()
    assert rig.cgroups.cpus_of[APP] == kit.mask("0-7")
    assert rig.heard.said() == [("drift.repair", "found_different")]
    assert rig.actuator.swept_at > 0


def test_sweep_before_an_order_records_no_drift():
    rig = Rig(cpus={APP: kit.mask("0-7"), BATCH: kit.mask("0-7")})
    start_pod(rig.node, "batch")
    create(rig.node, "app")
    rig.actuator._sweep()
    create(rig.node, "owner", kit.DEDICATED, 2000, on="db")
    rig.actuator._sweep()
    assert (rig.cgroups.cpus_of[APP], rig.cgroups.cpus_of[BATCH]) == (kit.mask("2-7"), kit.mask("2-7"))
    assert rig.heard.records == []


def test_overtaken_target_is_never_written_last():
    rig = Rig(cpus={BATCH: kit.mask("0-7")})
    start_pod(rig.node, "batch")
    rig.actuator.place_pod("batch")
    quicker = Thread(target=rig.actuator.place_pod, args=("batch",))

    def overtaken() -> None:
        create(rig.node, "owner", kit.DEDICATED, 2000, on="db")
        quicker.start()
        quicker.join(0.05)  # it must wait: without a lock it would have ended by now

    rig.cgroups.before_writing = overtaken
    rig.actuator.guard_pod("batch")
    quicker.join(30)
    assert rig.cgroups.cpus_of[BATCH] == kit.mask("2-7")
    assert rig.heard.records == []


@pytest.mark.parametrize(("name", "is_told"), [("cpu.weight", False), ("io.weight", True)])
def test_kubelets_resize_is_not_recorded(name, is_told):
    rig = Rig(cpus={BATCH: kit.mask("0-7")})
    rig.node.learn(Capability(2, kit.EVERYTHING.files))
    start_pod(rig.node, "batch", Wish(QoSClass.RECLAIMED, knobs=Knobs(io_weight=10)))
    rig.actuator.place_pod("batch")
    rig.actuator.bandwidths.resized("batch")
    rig.cgroups.texts = {(BATCH, name): "100"}
    rig.actuator.guard_pod("batch")
    assert bool(rig.heard.records) is is_told


def test_reset_weight_is_recorded_with_both_values():
    rig = Rig(cpus={BATCH: kit.mask("0-7")})
    rig.node.learn(Capability(2, kit.EVERYTHING.files))
    start_pod(rig.node, "batch", Wish(QoSClass.RECLAIMED, knobs=Knobs(io_weight=10)))
    rig.actuator.place_pod("batch")
    rig.cgroups.texts = {(BATCH, "cpu.weight"): "100", (BATCH, "io.weight"): "default 100"}
    rig.actuator.guard_pod("batch")
    rig.actuator.guard_pod("batch")
    (record,) = rig.heard.records
    assert (record.event.value, record.pod) == ("drift.repair", "batch")
    assert (record.before, record.after) == (
        {"shares": 2598, "io.weight": 100},
        {"shares": 2, "io.weight": 10},
    )
    assert record.because == "repaired: cpu.weight 100 instead of 1, io.weight 100 instead of 10"


def test_order_records_a_reset_that_it_finds():
    rig = Rig(cpus={BATCH: kit.mask("0-7")})
    rig.node.learn(Capability(2, kit.EVERYTHING.files))
    start_pod(rig.node, "batch", Wish(QoSClass.RECLAIMED, knobs=Knobs(io_weight=10)))
    rig.actuator.place_pod("batch")
    rig.cgroups.texts = {(BATCH, "io.weight"): "default 100"}
    create(rig.node, "owner", kit.DEDICATED, 2000, on="db")
    rig.actuator.place_pod("batch")
    (record,) = rig.heard.records
    assert (record.before, record.after) == ({"io.weight": 100}, {"io.weight": 10}), (
        "its CPUs are our own change"
    )


def test_repair_before_the_start_is_not_recorded():
    """runc makes the cgroup first and writes its values later; a sweep may run between the two."""
    rig = Rig(cpus={APP: kit.mask("0-7")})
    made = kit.container("app", "web", 2000, cgroups_path=f"/{APP}")
    rig.node.decide(ContainerCreating(kit.pod("web"), made, kit.DEDICATED))
    rig.actuator._sweep()
    assert rig.cgroups.cpus_of[APP] == kit.mask("0-1")
    assert rig.heard.said() == []


def test_repairs_pause_against_a_constant_rival():
    rig = Rig(cpus={APP: kit.mask("0-3")})
    create(rig.node, "app")
    rig.actuator.place("app")
    for _ in range(REPAIRS_PER_MINUTE + 3):
        rig.cgroups.cpus_of["kubepods/podweb/app"] = kit.mask("0-3")
        rig.actuator._sweep()
    assert len(rig.heard.records) == REPAIRS_PER_MINUTE
    assert rig.heard.records[-1].because.endswith("repair paused: 6 repairs in 60 s")
    assert rig.actuator.place("app"), "a start is no sweep: its container is placed nevertheless"


def test_unexpected_failure_stops_no_other_cgroup():
    rig = Rig(cpus={APP: kit.mask("0-3"), "kubepods/podweb/bad": 1})
    create(rig.node, "bad")
    create(rig.node, "app")
    rig.cgroups.broken.add("kubepods/podweb/bad")
    rig.actuator._sweep()
    rig.actuator._carry_out({}, {"bad": None, "app": None})
    assert rig.cgroups.cpus_of["kubepods/podweb/app"] == kit.mask("0-7")


def test_what_ended_is_forgotten_everywhere():
    rig = Rig(cpus={APP: kit.mask("0-3"), "kubepods/podbatch": kit.mask("0-3")})
    start_pod(rig.node, "batch")
    create(rig.node, "app")
    outcome = create(rig.node, "owner", kit.DEDICATED, 2000, on="db")
    rig.actuator.submit(outcome.moves, "owner", 3, outcome.waits_for)
    rig.actuator.answered(rig.node.state.containers["app"], rig.node.state)
    rig.actuator._sweep()
    assert rig.actuator.drifts.ids >= {"app", "batch"}
    for name in ("app", "owner"):
        rig.node.decide(ContainerGone(name, vanished=True))
    rig.node.decide(PodRemoved("batch"))
    rig.actuator._sweep()
    remembered = rig.actuator.drifts.ids & {"app", "owner", "batch"}
    left = (rig.actuator.actual, rig.actuator._departures.owners, remembered, rig.actuator._scores.ids)
    assert left == ({}, set(), set(), set())


def test_the_journal_is_tidied_now_and_then():
    rig = Rig()
    for _ in range(2 * TIDY_EVERY):
        rig.actuator._sweep()
    assert rig.cgroups.tidied == 2


def test_sweep_tidies_a_cluttered_journal():
    rig = Rig()
    rig.cgroups.is_cluttered = True
    for _ in range(3):
        rig.actuator._sweep()
    assert rig.cgroups.tidied == 1


# ---- memory of the reclaim cgroups ----


def test_pod_that_leaves_the_pool_is_released():
    rig = Rig()
    start_pod(rig.node, "batch")
    start_pod(rig.node, "still", Wish(QoSClass.RECLAIMED, preserve=frozenset({"cpu"})))
    start_pod(rig.node, "web", kit.SHARED)
    rig.actuator._sweep()
    assert rig.memory.released == ["kubepods/podweb"]


# ---- an ordered sweep ----


def swept(rig: Rig) -> int:
    """Order a sweep of the actuator's thread; return the number of pods and containers that it checked."""
    rig.actuator.start()
    try:
        return rig.actuator.sweep_soon().result(PATIENCE_SECONDS)
    finally:
        rig.actuator.stop()
        assert rig.actuator.ended(20)
        assert rig.cgroups.looked_again


def test_an_ordered_sweep_looks_at_everybody_at_once():
    rig = Rig(cpus={APP: kit.mask("0-7"), BATCH: kit.mask("0-7")})
    create(rig.node, "app")
    start_pod(rig.node, "batch")
    assert swept(rig) == len(rig.node.state.pods) + 1
    assert {target.path for target in rig.cgroups.targets} >= {APP, BATCH}


def test_ordered_sweep_ends_pauses():
    rig = Rig(cpus={APP: kit.mask("0-7")})
    create(rig.node, "app")
    rig.actuator._sweep()
    for _ in range(REPAIRS_PER_MINUTE + 1):
        rig.cgroups.cpus_of[APP] = 1
        rig.actuator._sweep()
    assert rig.cgroups.cpus_of[APP] == 1, "its repairs are paused by now"
    swept(rig)
    assert rig.cgroups.cpus_of[APP] == kit.mask("0-7")


def test_a_resize_ends_its_pods_pause():
    rig = Rig(cpus={BATCH: kit.mask("0-7"), "kubepods/podother": kit.mask("0-7")})
    for name in ("batch", "other"):
        start_pod(rig.node, name)
    rig.actuator._sweep()
    ours = rig.cgroups.cpus_of[BATCH]
    for _ in range(REPAIRS_PER_MINUTE + 1):
        rig.cgroups.cpus_of |= {BATCH: 1, "kubepods/podother": 1}
        rig.actuator._sweep()
    rig.actuator.resized("batch")
    rig.actuator._sweep()
    assert (rig.cgroups.cpus_of[BATCH], rig.cgroups.cpus_of["kubepods/podother"]) == (ours, 1)


# ---- after the previous process ----


def test_a_previous_pool_is_its_smallest_cgroups():
    rig = Rig(cpus={BATCH: 0b111100, "kubepods/podother": 0b111111, "kubepods/podnew": 0b1})
    for name in ("batch", "other", "new", "gone"):
        start_pod(rig.node, name)
    rig.cgroups.former_places = {BATCH, "kubepods/podother", "kubepods/podgone"}
    assert rig.actuator.former_box() == 4


def test_host_groups_are_known_before_the_first_sweep():
    members = Tuning(reclaim=ReclaimTuning(host_groups=("hadoop-yarn",)))
    rig = Rig(cpus={"hadoop-yarn": 0b11}, tuning=members)
    rig.cgroups.texts["hadoop-yarn", "cpuset.cpus"] = "0-1"
    rig.cgroups.former_places = {"hadoop-yarn"}
    assert rig.actuator.former_box() == 2
    assert rig.actuator.host_groups.members == ("hadoop-yarn",)


def test_without_a_former_life_there_was_no_box():
    rig = Rig(cpus={BATCH: 0b111100})
    start_pod(rig.node, "batch")
    assert rig.actuator.former_box() == 0
