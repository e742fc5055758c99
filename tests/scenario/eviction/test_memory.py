"""Evictions for a shortage of memory: shortage, order, grace, cool-down, and open again."""

from collections.abc import Callable
from dataclasses import replace

from nri_coloc.core.knobs import Knobs
from nri_coloc.core.pod_facts import ContainerFacts, Facts, Kind, Lent
from nri_coloc.core.reasons import Reason
from nri_coloc.core.settings import ReclaimTuning
from nri_coloc.core.workload import QoSClass, Resources, Wish
from nri_coloc.pressure.eviction import COOL_S, MOST
from tests.scenario.eviction.bed import (
    EVICTS,
    GIB,
    GRACE_S,
    NOTHING_TOLD,
    Bed,
    short,
    told,
)

KUBELETS_OWN = 100 << 20
"""The bound below which the kubelet evicts, bytes."""


def test_shortage_order_cool_down_and_open_again(make: Callable[..., Bed]):
    bed = short(make(small=1, large=2))
    (wish,) = bed.cluster.ordered
    assert (wish.name, wish.pod_uid, wish.reason) == ("large", "uid-large", Reason.MEMORY_SHORT)
    assert bed.is_cooling
    bed.seconds(int(GRACE_S + COOL_S))
    assert bed.cluster.names == ["large"]
    bed.seconds(3)
    assert not bed.is_cooling


def test_an_eviction_follows_a_shortage_in_two_seconds(make: Callable[..., Bed]):
    bed = make(hog=2)
    bed.seconds(5)
    bed.leaves(0.1)
    bed.seconds(1)
    assert bed.cluster.names == []
    bed.seconds(1)
    assert bed.cluster.names == ["hog"]


def test_several_go_for_a_large_shortage(make: Callable[..., Bed]):
    bed = make(EVICTS, **{f"worker-{n}": 0.25 for n in range(9)})
    short(bed)
    assert len(bed.cluster.ordered) == MOST
    bed.seconds(30)
    assert len(bed.cluster.ordered) == MOST


def test_page_cache_is_no_shortage(make: Callable[..., Bed]):
    bed = make(reader=0.5)
    bed.holds("reader", 0.5, file=bed.total / GIB - 1.5)
    bed.seconds(30)
    assert bed.cluster.ordered == []


def test_a_flapping_load_evicts_no_pod(make: Callable[..., Bed]):
    bed = make(hog=2)
    bed.leaves(0.1)

    def second() -> None:
        bed.holds("hog", 2 if bed.now % 2 else 0.0)

    bed.seconds(600, second)
    assert bed.cluster.ordered == []


def promised(bed: Bed, **gib: int) -> None:
    """Let the annotations of pods promise lent memory."""
    state = bed.known.state
    for name, amount in gib.items():
        wish = Wish(QoSClass.RECLAIMED, origins=(("memory-limit", "theirs", f"{amount}Gi"),))
        known = state.containers[f"{name}-app"]
        loan = replace(known, knobs=Knobs(memory_limit=amount * GIB), wish=wish)
        state = replace(state, containers=state.containers.adding(loan))
    bed.known.state = state


def test_an_own_limit_is_no_loan(make: Callable[..., Bed]):
    bed = make(limited=2, honest=2)
    state = bed.known.state
    limited = state.containers["limited-app"]
    own = replace(limited.container, resources=Resources(memory_limit=64 * GIB))
    bed.known.state = replace(state, containers=state.containers.adding(replace(limited, container=own)))
    promised(bed, honest=3)
    assert short(bed).cluster.names == ["limited"]


def test_a_headroom_of_zero_evicts_no_pod(make: Callable[..., Bed]):
    nothing = ReclaimTuning(lend=0.0, offer=0.0, paused="by an operator")
    bed = make(replace(EVICTS, reclaim=nothing), hog=2)
    bed.seconds(300)
    assert bed.cluster.ordered == []


def test_kubepods_is_relieved_before_the_kubelet_evicts(make: Callable[..., Bed]):
    bed = make(hog=2)
    name = "memory.max" if bed.node.tree.version == 2 else "memory.limit_in_bytes"
    bed.node.tree.write("kubepods", name, str(4 * GIB))
    bed.holds("web", 1.7)
    bed.seconds(5)
    assert bed.cluster.ordered == []
    bed.holds("web", 1.85)
    bed.seconds(2)
    (wish,) = bed.cluster.ordered
    assert (wish.name, wish.inputs["scope"]) == ("hog", "kubepods")
    assert wish.inputs["available_bytes"] > KUBELETS_OWN


def test_a_lower_priority_class_goes_first(make: Callable[..., Bed]):
    bed = make(first=2, second=2)
    told(bed, first=NOTHING_TOLD._replace(priority=-10), second=NOTHING_TOLD._replace(priority=10))
    assert short(bed).cluster.names == ["first"]


def lent(memory_bytes: int) -> Facts:
    """Return the facts about a pod whose spec requests lent memory."""
    return NOTHING_TOLD._replace(
        containers=(ContainerFacts("app", Kind.MAIN, 0, 0, Lent(memory_bytes=memory_bytes)),)
    )


def test_a_loan_beyond_the_spec_spares_no_pod(make: Callable[..., Bed]):
    bed = make(greedy=2, honest=2)
    promised(bed, greedy=64, honest=3)
    told(bed, greedy=lent(GIB), honest=lent(3 * GIB))
    assert short(bed).cluster.names == ["greedy"]


def test_a_lent_request_needs_no_annotation(make: Callable[..., Bed]):
    bed = make(nothing=2, honest=2)
    told(bed, nothing=NOTHING_TOLD, honest=lent(3 * GIB))
    assert short(bed).cluster.names == ["nothing"]


def test_a_false_request_counts_for_an_equal_part(make: Callable[..., Bed]):
    bed = make(false=2, other=2)
    told(bed, false=lent(2**63 - 1), other=lent(2**63 - 1))
    (wish,) = short(bed).cluster.ordered
    assert wish.inputs["lent_bytes"] == bed.known.state.topology.memory_bytes // 2
