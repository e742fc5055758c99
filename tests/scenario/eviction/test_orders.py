"""Orders that are refused, pods that leave already or stay, and nodes on which no order can be given."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from nri_coloc.core.evictions import REFUSED_S
from nri_coloc.core.reasons import Reason
from nri_coloc.core.settings import Tuning
from nri_coloc.core.state import Assignment
from nri_coloc.core.workload import Container, QoSClass, Wish
from nri_coloc.pressure.eviction import COOL_S, Pace
from nri_coloc.pressure.evictor import LONGEST_LEAVE_S, SPARED_S
from tests.scenario.eviction.bed import EVICTS, NOTHING_TOLD, Bed, short, told


def test_a_budget_sends_the_next_pod(make: Callable[..., Bed]):
    bed = make(first=2, second=2)
    bed.cluster.budgets = {"second"}
    short(bed)
    bed.seconds(1)
    assert bed.cluster.names == ["second", "first"]


def test_a_pod_that_ignores_sigterm_counts_as_leaving(make: Callable[..., Bed]):
    bed = make(first=2, second=2)
    bed.cluster.grace_s = 300.0
    short(bed)
    bed.seconds(290)
    assert bed.cluster.names == ["second"]
    assert bed.is_cooling


def test_a_refused_pod_blocks_no_other(make: Callable[..., Bed]):
    bed = make(first=1, daemon=4)
    bed.cluster.refused = {"daemon"}
    short(bed)
    bed.seconds(int(SPARED_S) + 5)
    bed.pod("late")
    bed.holds("late", 1)
    bed.seconds(2)
    assert bed.cluster.names == ["daemon", "first", "late"]


def test_a_pod_that_rests_is_not_asked_for(make: Callable[..., Bed]):
    bed = make(first=1, daemon=4)
    bed.cluster.refused = {"first", "daemon"}
    short(bed)
    bed.seconds(int(REFUSED_S) - 5)
    assert sorted(bed.cluster.asked) == ["daemon", "first"]
    bed.seconds(10)
    assert sorted(bed.cluster.names) == ["daemon", "daemon", "first", "first"]


def test_an_unknown_sandbox_blocks_no_other(make: Callable[..., Bed]):
    bed = make(first=1, No_Name=4)
    assert short(bed).cluster.names == ["first"]


def test_a_refused_eviction_closes_no_node(make: Callable[..., Bed]):
    bed = make(only=2)
    bed.cluster.budgets = {"only"}
    short(bed)
    bed.seconds(2)
    assert not bed.is_cooling
    assert bed.kept[-1] < bed.now


def test_many_budgets_hold_back_no_other(make: Callable[..., Bed]):
    guarded = {f"guarded-{n}": 1.0 for n in range(20)}
    bed = make(EVICTS, other=0.2, **guarded)
    bed.cluster.budgets = set(guarded)
    short(bed)
    bed.seconds(15)
    assert "other" in bed.cluster.names


def test_an_endless_grace_blocks_no_other(make: Callable[..., Bed]):
    bed = make(first=2, endless=2)
    told(bed, endless=NOTHING_TOLD._replace(killed_at=bed.now + 1e9))
    short(bed)
    bed.seconds(590)
    assert bed.cluster.names == []
    bed.seconds(10)
    assert bed.cluster.names == ["first"]


def test_an_endless_grace_prolongs_no_cool_down(make: Callable[..., Bed]):
    bed = make(endless=2)
    bed.cluster.grace_s = 1e9
    short(bed)
    told(bed, endless=NOTHING_TOLD._replace(killed_at=bed.now + 1e9))
    bed.holds("web", 0)
    bed.seconds(int(LONGEST_LEAVE_S + COOL_S) + 5)
    assert not bed.is_cooling


def test_avoidance_spares_a_pod(make: Callable[..., Bed]):
    bed = make()
    bed.pod("spared", wish=Wish(QoSClass.RECLAIMED, avoidance=frozenset({"throttle"})))
    bed.holds("spared", 4)
    short(bed)
    bed.seconds(30)
    assert bed.cluster.ordered == []


def mixed(bed: Bed, *, online: bool) -> Bed:
    """Run a pod whose annotations name another class for one container, which exists or not."""
    bed.pod("both", wish=Wish(QoSClass.RECLAIMED, mixed=True))
    bed.holds("both", 4)
    if online:
        state = bed.known.state
        web = Assignment(Container("both-web", "both", "web"), QoSClass.SHARED, QoSClass.SHARED.value)
        pods = {**state.pods, "both": replace(state.pods["both"], boxed=False)}
        bed.known.state = replace(state, pods=pods, containers=state.containers.adding(web))
    return short(bed)


def test_a_pod_with_an_online_container_stays(make: Callable[..., Bed]):
    assert mixed(make(), online=True).cluster.ordered == []


def test_a_class_for_a_missing_container_spares_nothing(make: Callable[..., Bed]):
    assert mixed(make(), online=False).cluster.names == ["both"]


@pytest.mark.parametrize("refusal", ["mode observe changes nothing", "no companion is connected"])
def test_what_would_go_is_told_once_a_minute(make: Callable[..., Bed], refusal: str):
    bed = make(hog=2)
    bed.cluster.refusal = refusal
    short(bed)
    bed.seconds(119)
    assert bed.cluster.ordered == []
    assert not bed.is_cooling
    told = bed.told.decisions
    assert [(one.pod_id, one.reason) for one in told] == [("hog", Reason.DECLINED)] * 2
    assert told[0].because == f"not evicted: {refusal} (cause=memory_short, scope=node)"


def test_nothing_is_evicted_by_default(make: Callable[..., Bed]):
    bed = short(make(Tuning(), hog=2))
    bed.seconds(30)
    assert (bed.cluster.ordered, bed.told.decisions) == ([], [])


def test_a_restart_keeps_the_cool_down(make: Callable[..., Bed]):
    bed = short(make(first=2, second=2))
    bed.seconds(30)
    kept = bed.kept[-1]
    bed.evictor = bed.daemon(Pace(cools_until_s=kept))
    bed.seconds(1)
    assert bed.is_cooling
    assert bed.evictor.pace.cools_until_s == kept


def test_a_deleted_pod_counts_during_its_grace(make: Callable[..., Bed]):
    bed = make(first=2, second=2)
    told(bed, second=NOTHING_TOLD._replace(killed_at=bed.now + 60))
    short(bed)
    bed.seconds(57)
    assert bed.cluster.ordered == []
    bed.seconds(2)
    assert len(bed.cluster.ordered) == 1
