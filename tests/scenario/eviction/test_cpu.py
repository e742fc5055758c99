"""Evictions of pods that starve for CPU."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from nri_coloc.core.readings import GroupReading, NodeReading, Picture
from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.pressure.eviction import Pace
from nri_coloc.pressure.starvation import MOVED_S, STARVED_S
from tests.scenario.eviction.bed import EVICTS, SNAPSHOT_S, Bed


def starves(bed: Bed, names: Iterable[str], used: float = 8.0) -> Callable[[], None]:
    """Return a second in which pods wait all the time and get no CPU; a snapshot shows it each minute.

    used: CPUs of the node that are in use.
    """

    def second() -> None:
        if bed.now - bed.picture.at < SNAPSHOT_S:
            return
        waiting = GroupReading(1, bed.now, usage_us=0, cpu_stall_us=int(bed.now * 1e6))
        there = [name for name in names if name in bed.known.state.pods]
        bed.picture = Picture(
            bed.now,
            NodeReading(bed.now, usage_us=int(bed.now * used * 1e6)),
            pods=dict.fromkeys(there, waiting),
            containers={f"{name}-app": waiting for name in there},
        )

    return second


def test_a_starved_pod_is_moved_away(make: Callable[..., Bed]):
    bed = make(first=1, second=1)
    second = starves(bed, ("first", "second"))
    bed.seconds(int(MOVED_S), second)
    assert bed.cluster.ordered == []
    bed.seconds(3, second)
    (wish,) = bed.cluster.ordered
    assert (wish.name, wish.reason) == ("second", Reason.CPU_STARVED)
    assert bed.is_cooling


def test_an_order_ends_when_cpu_comes_back(make: Callable[..., Bed]):
    bed = make(first=1)
    bed.cluster.gives_notice = True
    bed.seconds(int(MOVED_S) + 2, starves(bed, ("first",)))
    assert bed.cluster.open(bed.now) == {"uid-first"}
    runs = GroupReading(1, bed.now, usage_us=60_000_000, cpu_stall_us=int(bed.now * 1e6))
    bed.picture = Picture(bed.now, NodeReading(bed.now), pods={"first": runs}, containers={"first-app": runs})
    bed.seconds(1)
    assert bed.cluster.open(bed.now) == frozenset()


def test_an_order_ends_when_no_cpu_is_lent(make: Callable[..., Bed]):
    bed = make(first=1)
    bed.cluster.gives_notice = True
    bed.seconds(int(MOVED_S) + 2, starves(bed, ("first",)))
    tuning = bed.known.tuning
    bed.known.tuning = replace(tuning, reclaim=replace(tuning.reclaim, lend=False))
    bed.seconds(1)
    assert bed.cluster.open(bed.now) == frozenset()


def test_an_order_stays_while_its_pod_starves(make: Callable[..., Bed]):
    bed = make(first=1)
    bed.cluster.gives_notice = True
    bed.seconds(int(MOVED_S) + int(SNAPSHOT_S) + 10, starves(bed, ("first",)))
    assert bed.cluster.names == ["first"]
    assert bed.cluster.open(bed.now) == {"uid-first"}


def test_starving_beside_idle_cpus_closes_no_node(make: Callable[..., Bed]):
    bed = make(first=1, second=1)
    bed.seconds(int(MOVED_S) + 3, starves(bed, ("first", "second"), used=2.0))
    assert len(bed.cluster.ordered) == 1
    assert not bed.is_cooling


def test_starving_beside_idle_cpus_prolongs_no_cool_down(make: Callable[..., Bed]):
    bed = make(guarded=1)
    bed.cluster.budgets = {"guarded"}
    bed.evictor = bed.daemon(Pace(cools_until_s=bed.now + MOVED_S + 60))
    bed.seconds(int(MOVED_S) + 90, starves(bed, ("guarded",), used=2.0))
    assert not bed.is_cooling


def test_an_evicted_starved_pod_had_its_event_before(make: Callable[..., Bed]):
    bed = make(hog=1)
    second = starves(bed, ("hog",))
    bed.seconds(int(STARVED_S) + 1, second)
    (told,) = bed.told.decisions
    assert (told.event, told.reason, told.pod_id) == (AuditEvent.POD_STARVED, Reason.WITHOUT_CPU, "hog")
    assert bed.cluster.ordered == []
    bed.seconds(int(MOVED_S - STARVED_S) + 1, second)
    assert bed.cluster.names == ["hog"]


def test_starved_pods_go_one_by_one(make: Callable[..., Bed]):
    bed = make(EVICTS, **{f"worker-{n}": 0.1 for n in range(4)})
    bed.seconds(3 * int(MOVED_S) + 200, starves(bed, [f"worker-{n}" for n in range(4)]))
    assert len(bed.cluster.ordered) == 3


def test_memory_and_cpu_short_at_once(make: Callable[..., Bed]):
    bed = make(first=2, second=2)
    second = starves(bed, ("first", "second"))
    bed.seconds(int(MOVED_S) - 10, second)
    bed.leaves(0.1)
    bed.seconds(20, second)
    assert bed.cluster.names == ["second"]
