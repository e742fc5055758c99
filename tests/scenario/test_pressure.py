"""Pressure on the simulated node's files, minutes in seconds: culprits are found, limited, and set free again."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.core.settings import PressureTuning, RungTuning, Tuning
from nri_coloc.core.state import Assignment, Crowd
from nri_coloc.core.workload import Container, QoSClass, Resources, Wish
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host import io_limits, restoration
from nri_coloc.host.cgroups import CgroupWriter
from nri_coloc.host.journal import Journal
from nri_coloc.pressure.verdict import Resource
from nri_coloc.sim.node import Node
from tests.scenario.pressure_bed import ACTS, BUSY_READER, NOTHING, Bed, day, hurt
from tests.scenario.versions import VERSIONS
from tests.unit.pressure.kit import DISK, MIB, Doing


@pytest.fixture(params=VERSIONS)
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Node]:
    with Node(tmp_path / "node", "8cpu", cgroup=request.param) as found:
        yield found


@pytest.fixture
def make(node: Node, tmp_path: Path) -> Callable[..., Bed]:
    def bed(tuning: Tuning | None = None) -> Bed:
        made = Bed(node, tmp_path, tuning or Tuning(pressure=ACTS))
        made.pod("web", QoSClass.SHARED)
        for name in ("hog", "quiet"):
            made.pod(name, QoSClass.RECLAIMED)
        return made

    return bed


SLOW = 1500
"""Operations a second below which the online reader of the bed is hurt; it reads 2,500 alone."""


def test_a_disk_reader_is_limited_in_two_seconds(make: Callable[..., Bed]):
    bed = hurt(make())
    (verdict,) = bed.told.events(AuditEvent.PRESSURE_VERDICT)
    (throttle,) = bed.told.events(AuditEvent.PRESSURE_THROTTLE)
    assert (verdict.pod_id, verdict.reason) == ("web", Reason.IO_STALL)
    assert (throttle.pod_id, throttle.after.io_max) == ("hog", f"{DISK}={200 * MIB}")
    assert bed.limit("hog") == 200 * MIB
    assert bed.limit("quiet") is None
    assert bed.loop.throttled == {"hog": {"io.max": "200.0 MiB/s"}}


def test_a_hurt_is_confirmed_in_a_quarter_second(make: Callable[..., Bed]):
    bed = make()
    bed.seconds(20, day(bed, 0))
    assert bed.loop.times.due_in(bed.now) > 1
    bed.second(day(bed, BUSY_READER)())
    due = bed.loop.times.due_in(bed.now)
    bed.second(day(bed, BUSY_READER)(), due)
    assert 0.2 <= due <= 0.25
    assert bed.limit("hog") is not None


def test_waits_beside_a_limit_are_no_baseline(make: Callable[..., Bed]):
    """The limited hog leaves the online pod a wait that is hardly below the bound."""
    bed = hurt(make())
    bed.seconds(60, day(bed, BUSY_READER))
    assert bed.limit("hog") is not None
    bed.seconds(90, day(bed, 0))
    assert bed.limit("hog") is None
    bed.seconds(4, day(bed, BUSY_READER))
    first, *_, last = (one.inputs or {} for one in bed.told.events(AuditEvent.PRESSURE_VERDICT))
    assert last["baseline"] == pytest.approx(first["baseline"], rel=0.05)


@pytest.mark.parametrize("online", [1, 17])
@pytest.mark.parametrize("eighth", range(8))
def test_a_limit_follows_the_first_read(make: Callable[..., Bed], eighth: int, online: int):
    """The hog begins so many eighths of a second after a turn; a calm turn reads eight online pods."""
    bed = make()
    for number in range(1, online):
        bed.pod(f"other{number}", QoSClass.SHARED)
    bed.seconds(35, day(bed, 0))
    began = bed.now + eighth / 8

    def doing(span: float) -> dict[str, Doing]:
        part = min(1.0, max(0.0, bed.now + span - began) / span) if span else 0.0
        return parts(day(bed, 0)(), day(bed, BUSY_READER)(), part)

    while bed.limit("hog") is None:
        bed.wake(doing)
    assert bed.now - began < 1.0


@pytest.mark.parametrize("eighth", range(8))
def test_a_limit_follows_a_quiet_pods_first_read(make: Callable[..., Bed], eighth: int):
    """The online pod read nothing for over a minute, so only turns notice that it waits: 0.5 to 1.4 s."""
    bed = make()
    bed.seconds(35, day(bed, 0))
    bed.seconds(90, dict)
    began = bed.now + eighth / 8

    def doing(span: float) -> dict[str, Doing]:
        part = min(1.0, max(0.0, bed.now + span - began) / span) if span else 0.0
        return parts(dict.fromkeys(bed.paths, NOTHING), day(bed, BUSY_READER)(), part)

    while bed.limit("hog") is None:
        bed.wake(doing)
    assert bed.now - began < 1.5


def parts(first: dict[str, Doing], then: dict[str, Doing], part: float) -> dict[str, Doing]:
    """Return a second of which `part`, 0 to 1, is like `then`, and the time before it like `first`."""
    return {name: mixed(first[name], doing, part) for name, doing in then.items()}


def mixed(first: Doing, then: Doing, part: float) -> Doing:
    amounts = {
        name: getattr(first, name) * (1 - part) + getattr(then, name) * part
        for name in ("io_stall", "read", "operations")
    }
    return replace(then, **amounts)


def test_hurt_pods_do_not_hasten_each_turn(make: Callable[..., Bed]):
    bed = make()
    bed.pod("db", QoSClass.SHARED)
    calm = Doing(io_stall=0.5, operations=2500)
    bed.seconds(20, lambda: {"web": calm, "db": calm})
    hasty = 0
    for turn in range(40):
        due = min(1.0, bed.loop.times.due_in(bed.now))
        hasty += due < 1
        bed.second({"web": (HURT["web"], calm)[turn % 2], "db": (calm, HURT["web"])[turn % 2]}, due)
    assert 0 < hasty <= 20


def test_the_limit_falls_until_the_reader_is_calm(make: Callable[..., Bed]):
    bed = hurt(make())
    bed.seconds(25, day(bed, BUSY_READER))
    assert bed.limit("hog") == 50 * MIB
    steps = len(bed.told.events(AuditEvent.PRESSURE_THROTTLE))
    bed.seconds(5, day(bed, BUSY_READER))
    assert len(bed.told.events(AuditEvent.PRESSURE_THROTTLE)) == steps


def test_readers_that_take_turns_are_limited(make: Callable[..., Bed]):
    bed = make()
    readers = ("hog", "quiet", bed.pod("third", QoSClass.RECLAIMED))
    bed.seconds(30, day(bed, 0))
    slow = []
    for second in range(180):
        reads = {name: bed.reads(name, BUSY_READER * (second % 3 == at)) for at, name in enumerate(readers)}
        web = bed.waits([*reads.values()])
        slow.append(web.operations < SLOW)
        bed.second({"web": web, **reads})
    assert all((bed.limit(name) or BUSY_READER) < BUSY_READER for name in readers)
    assert sum(slow) < 90


def test_a_faked_stall_frees_no_hog(make: Callable[..., Bed]):
    """The faker stalls from the hog's first read on, and no limit relieves it."""
    bed = make()
    bed.pod("faker", QoSClass.SHARED)
    bed.seconds(20, lambda: {**day(bed, 0)(), "faker": CALM["web"]})
    slow = 0
    for _ in range(300):
        doing = day(bed, BUSY_READER)()
        slow += doing["web"].operations < SLOW
        bed.second({**doing, "faker": HURT["web"]})
    assert slow < 15
    assert all(one.reason is not Reason.NO_RELIEF for one in bed.told.decisions)


def test_a_verdict_says_that_its_limit_was_in_vain(make: Callable[..., Bed]):
    bed = make()
    bed.seconds(20, day(bed, 0))
    bed.seconds(58, lambda: {"web": HURT["web"], "hog": bed.reads("hog", BUSY_READER)})
    bed.seconds(8, day(bed, 0))
    bed.seconds(5, lambda: {"web": HURT["web"], "hog": bed.reads("hog", BUSY_READER)})
    said = [(one.inputs or {})["action"] for one in bed.told.events(AuditEvent.PRESSURE_VERDICT)]
    assert said == ["throttle_io", "none: limit in vain"]


def test_a_culprit_that_stops_is_set_free(make: Callable[..., Bed]):
    bed = hurt(make())
    bed.seconds(60, day(bed, 0))
    assert bed.limit("hog") is None
    assert bed.loop.throttled == {}
    assert [one.reason for one in bed.told.events(AuditEvent.PRESSURE_RECOVER)] == [Reason.CALM] * 2


def test_a_culprit_that_stops_beside_a_hurt_is_set_free(make: Callable[..., Bed]):
    bed = hurt(make())
    bed.seconds(60, lambda: {"web": HURT["web"]})
    assert bed.limit("hog") is None
    throttles = bed.told.events(AuditEvent.PRESSURE_THROTTLE)
    assert [one.after.io_max for one in throttles] == [f"{DISK}={200 * MIB}"]


def test_ten_minutes_of_sawtooth_do_not_flap(make: Callable[..., Bed]):
    bed = make()
    bed.seconds(20, day(bed, 0))
    freed = []
    for second in range(600):
        bed.second(day(bed, BUSY_READER if second // 7 % 2 else 0)())
        freed += [
            second
            for one in bed.told.decisions
            if one.event is AuditEvent.PRESSURE_RECOVER and one.after.io_max == "max"
        ]
        bed.told.decisions.clear()
    assert all(third - first > 60 for first, third in zip(freed, freed[2:], strict=False))


@pytest.mark.tier("test")  # test_pressure_of_innocents.py shows three hours
def test_innocents_are_left_alone_for_an_hour(make: Callable[..., Bed]):
    bed = make()
    for second in range(3600):
        steady, bursts = bed.reads("hog", 40.0 * MIB), bed.reads("quiet", 30.0 * MIB * (second % 11 == 0))
        bed.second({"web": bed.waits([steady, bursts]), "hog": steady, "quiet": bursts})
    assert bed.told.decisions == []


@pytest.mark.parametrize(
    ("calm", "stalled", "culprit", "reason"),
    [
        (Doing(cpu=300, cpu_stall=0.02), Doing(cpu=280, cpu_stall=0.6), Doing(cpu=4000), Reason.CPU_STALL),
        (NOTHING, Doing(memory_stall=0.5), Doing(grows=300.0 * MIB), Reason.MEMORY_STALL),
    ],
    ids=["cpu", "memory"],
)
def test_cpu_and_memory_have_a_verdict_and_no_action(
    make: Callable[..., Bed], calm: Doing, stalled: Doing, culprit: Doing, reason: Reason
):
    bed = make()
    bed.seconds(20, lambda: {"web": calm})
    bed.seconds(3, lambda: {"web": stalled, "hog": culprit})
    (verdict,) = bed.told.decisions
    assert (verdict.reason, verdict.pod_id) == (reason, "web")
    assert "shop/hog" in verdict.because
    assert "action=none" in verdict.because


def test_a_containers_own_memory_limit_blames_no_pod(make: Callable[..., Bed]):
    bed = make()
    app = bed.known.state.containers["web-app"]
    limited = replace(app, container=replace(app.container, resources=Resources(memory_limit=1 << 30)))
    bed.known.state = replace(bed.known.state, containers=bed.known.state.containers.adding(limited))
    bed.seconds(20, lambda: {"web": NOTHING})
    at_limit = Doing(memory_stall=0.5, hits=20)
    bed.seconds(40, lambda: {"web": at_limit, "hog": Doing(grows=300.0 * MIB)})
    assert bed.told.decisions == []


@pytest.mark.parametrize(
    ("tuning", "action"),
    [(Tuning(pressure=ACTS, observe=True), "none in mode observe"), (Tuning(), "none: report only")],
    ids=["observe", "report"],
)
def test_nothing_is_written_unless_told_to(make: Callable[..., Bed], tuning: Tuning, action: str):
    bed = hurt(make(tuning))
    bed.seconds(20, day(bed, BUSY_READER))
    (verdict,) = bed.told.decisions
    assert (verdict.event, (verdict.inputs or {})["action"]) == (AuditEvent.PRESSURE_VERDICT, action)
    assert bed.limit("hog") is None


def test_another_culprit_is_recorded_within_the_minute(make: Callable[..., Bed]):
    bed = hurt(make(Tuning()))
    bed.seconds(10, day(bed, 0))
    other = bed.reads("quiet", BUSY_READER)
    bed.seconds(10, lambda: {"web": bed.waits([other]), "quiet": other})
    verdicts = bed.told.events(AuditEvent.PRESSURE_VERDICT)
    assert ["hog" in verdicts[0].because, "quiet" in verdicts[1].because] == [True, True]


def test_avoidance_without_throttle_is_respected(make: Callable[..., Bed]):
    bed = make()
    bed.pod("spared", QoSClass.RECLAIMED, Wish(QoSClass.RECLAIMED, avoidance=frozenset({"evict"})))
    bed.seconds(20, day(bed, 0))

    def second() -> dict[str, Doing]:
        spared = bed.reads("spared", BUSY_READER)
        return {"web": bed.waits([spared]), "spared": spared}

    bed.seconds(10, second)
    (verdict,) = bed.told.events(AuditEvent.PRESSURE_VERDICT)
    assert "action=none: not allowed)" in verdict.because
    assert bed.limit("spared") is None


MIXED = Wish(QoSClass.RECLAIMED, mixed=True)
"""The wish of a reclaimed pod whose annotations name another class for one container."""


def hurt_by(bed: Bed, name: str) -> Bed:
    """Let one pod saturate the disk."""
    bed.seconds(20, day(bed, 0))

    def second() -> dict[str, Doing]:
        reads = bed.reads(name, BUSY_READER)
        return {"web": bed.waits([reads]), name: reads}

    bed.seconds(10, second)
    return bed


def test_a_class_for_a_missing_container_spares_nothing(make: Callable[..., Bed]):
    bed = make()
    bed.pod("ghost", QoSClass.RECLAIMED, MIXED)
    hurt_by(bed, "ghost")
    assert bed.limit("ghost") is not None


def test_a_pod_with_an_online_container_is_spared(make: Callable[..., Bed]):
    bed = make()
    online = Assignment(Container("both-web", "both", "web"), QoSClass.SHARED, QoSClass.SHARED.value)
    bed.pod("both", QoSClass.RECLAIMED, MIXED, beside=online)
    hurt_by(bed, "both")
    assert bed.limit("both") is None


def test_a_pod_that_the_kubelet_pins_is_spared(make: Callable[..., Bed]):
    bed = make()
    bed.pod("pinned", QoSClass.RECLAIMED, replace(MIXED, kept=0b11))
    hurt_by(bed, "pinned")
    assert bed.limit("pinned") is None


def test_switching_off_sets_free(make: Callable[..., Bed]):
    bed = hurt(make())
    off = RungTuning(judges=False)
    bed.known.tuning = Tuning(pressure=PressureTuning(cpu=off, memory=off, io=off))
    bed.second(day(bed, BUSY_READER)())
    assert bed.limit("hog") is None
    (recover,) = bed.told.events(AuditEvent.PRESSURE_RECOVER)
    assert recover.reason is Reason.RECONFIGURED


def test_the_end_sets_free(make: Callable[..., Bed]):
    bed = hurt(make())
    bed.loop.end()
    assert bed.limit("hog") is None
    assert bed.told.decisions[-1].reason is Reason.UNWATCHED


def test_a_killed_daemons_limit_is_found_after_a_restart(make: Callable[..., Bed]):
    bed = hurt(make())
    bed.loop = bed.daemon()
    bed.second(day(bed, BUSY_READER)())
    assert bed.limit("hog") is None
    (recover,) = bed.told.events(AuditEvent.PRESSURE_RECOVER)
    assert (recover.pod_id, recover.reason) == ("hog", Reason.UNWATCHED)


def test_restore_takes_the_limit_back(make: Callable[..., Bed], tmp_path: Path):
    bed = hurt(make())
    root = str(bed.node.host_root)
    journal = Journal(str(tmp_path / "journal"), root)
    restored = restoration.restore(journal, root, bed.node.tree.version)
    assert restored.done
    assert not restored.refused
    assert bed.limit("hog") is None


def test_a_refused_limit_is_not_shown(make: Callable[..., Bed]):
    bed = make()
    bed.seconds(20, day(bed, 0))
    pod, app = bed.paths["hog"]
    names = io_limits.NAMES[bed.node.tree.version]
    for name in names:
        (bed.node.tree.folder(name, pod if bed.node.tree.version == 2 else app) / name).unlink()
    bed.seconds(5, day(bed, BUSY_READER))
    assert bed.loop.throttled == {}
    assert not bed.told.events(AuditEvent.PRESSURE_THROTTLE)
    assert not bed.loop.gave_no_relief("hog", Resource.IO, "web"), "it was never in force"


@contextmanager
def refused(bed: Bed, name: str) -> Iterator[None]:
    """Let the files of a pod's limit refuse reads and writes: a folder stands in their place."""
    version = bed.node.tree.version
    path = bed.paths[name][version == 1]
    files = [bed.node.tree.folder(each, path) / each for each in io_limits.NAMES[version]]
    texts = [file.read_text() for file in files]
    for file in files:
        file.unlink()
        file.mkdir()
    yield
    for file, text in zip(files, texts, strict=True):
        file.rmdir()
        file.write_text(text)


HURT = {"web": Doing(io_stall=0.95, operations=100), "hog": Doing(read=200.0 * MIB, operations=3200)}
CALM = {"web": Doing(io_stall=0.5, operations=2500)}


def test_a_container_that_restarts_is_limited(make: Callable[..., Bed]):
    bed = hurt(make())
    bed.restart_container("hog")
    bed.second(CALM)
    assert bed.limit("hog") == 200 * MIB


def test_a_throttled_pod_is_limited_on_the_next_disk_too(make: Callable[..., Bed]):
    bed = hurt(make())
    elsewhere = {name: replace(doing, disk="8:16") for name, doing in HURT.items()}
    bed.seconds(10, lambda: elsewhere)
    devices = [one.inputs["devices"] for one in bed.told.events(AuditEvent.PRESSURE_THROTTLE) if one.inputs]
    assert devices[0] == DISK
    assert devices[1] == f"{DISK} 8:16"


def test_a_refused_step_keeps_the_limit(make: Callable[..., Bed]):
    bed = hurt(make())
    with refused(bed, "hog"):
        bed.seconds(6, lambda: HURT)
        assert bed.told.refusals
        assert bed.loop.throttled == {"hog": {"io.max": "200.0 MiB/s"}}
    bed.second(HURT)
    assert bed.limit("hog") == 100 * MIB
    assert bed.loop.throttled == {"hog": {"io.max": "100.0 MiB/s"}}


def test_a_refused_removal_is_shown_and_tried_again(make: Callable[..., Bed]):
    bed = hurt(make())
    bed.known.tuning = Tuning()
    with refused(bed, "hog"):
        bed.seconds(2, lambda: CALM)
        assert bed.loop.throttled == {"hog": {"io.max": "200.0 MiB/s"}}
        assert not bed.told.events(AuditEvent.PRESSURE_RECOVER)
    bed.second(CALM)
    assert bed.limit("hog") is None
    assert bed.loop.throttled == {}


def test_a_former_limit_that_is_refused_is_tried_again(make: Callable[..., Bed]):
    bed = hurt(make())
    bed.loop = bed.daemon()
    with refused(bed, "hog"):
        bed.seconds(2, lambda: CALM)
        assert bed.told.refusals
        assert not bed.told.events(AuditEvent.PRESSURE_RECOVER)
    bed.seconds(2, lambda: CALM)
    assert bed.limit("hog") is None
    (recover,) = bed.told.events(AuditEvent.PRESSURE_RECOVER)
    assert recover.pod_id == "hog"


class LostDisk(CgroupWriter):
    """The original values name a disk that is gone: the kernel refuses them, and takes limits for other disks."""

    is_gone = True

    def unlimit_io(self, path: str) -> tuple[KernelInterfaceError, ...]:
        if self.is_gone:
            return (KernelInterfaceError("write", path, "No such device"),)
        return super().unlimit_io(path)


def test_a_former_limit_ends_with_a_new_one(make: Callable[..., Bed], monkeypatch: pytest.MonkeyPatch):
    bed = hurt(make())
    bed.writes = LostDisk
    bed.loop = bed.daemon()
    bed.seconds(20, lambda: CALM)
    bed.seconds(2, lambda: HURT)
    assert bed.loop.throttled
    monkeypatch.setattr(LostDisk, "is_gone", False)
    bed.second(HURT)
    assert bed.limit("hog") is not None


def test_a_pod_that_is_pinned_later_is_set_free(make: Callable[..., Bed]):
    bed = make()
    bed.pod("late", QoSClass.RECLAIMED, MIXED)
    hurt_by(bed, "late")
    assert bed.limit("late") is not None
    pinned = [
        replace(one, wish=replace(MIXED, kept=0b11)) if one.container.pod_id == "late" else one
        for one in bed.known.state.containers.values()
    ]
    known = bed.known.state.pods
    pods = {**known, "late": replace(known["late"], boxed=False)}
    bed.known.state = replace(bed.known.state, pods=pods, containers=Crowd.of(pinned))
    bed.second(CALM)
    assert bed.limit("late") is None
