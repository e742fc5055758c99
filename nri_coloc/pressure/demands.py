"""Turn shortages, starved pods and lasting verdicts into demands: the pods that could go, and why; pure."""

from collections.abc import Collection, Mapping
from typing import Final

from nri_coloc.core.reasons import Reason
from nri_coloc.core.state import NodeState
from nri_coloc.pressure import lent
from nri_coloc.pressure.disk_writers import Filled
from nri_coloc.pressure.disks import REASONS
from nri_coloc.pressure.eviction import MOST, Demand
from nri_coloc.pressure.judging import Verdict
from nri_coloc.pressure.memory_shortages import Short
from nri_coloc.pressure.starvation import MOVED_S
from nri_coloc.pressure.verdict import Resource
from nri_coloc.pressure.victims import Candidate

STALLED: Final = 30
"""Readings in a row, one a second, in which an online pod waits for memory, before the culprit is evicted."""


def of_memory(short: Short, uses: Mapping[str, float], state: NodeState) -> Demand:
    """Return the demand of a memory shortage. `uses`: by reclaimed pod, the bytes that its end frees there."""
    left, known = short.left, short.known
    pods = {
        pod_id: one._replace(lent=float(lent.memory_bytes(state, pod_id)))
        for pod_id, one in _candidates(uses, state).items()
    }
    return Demand(
        resource=Resource.MEMORY,
        reason=Reason.MEMORY_SHORT,
        scope=short.scope,
        amount=float(short.missing),
        pods=pods,
        most=MOST,
        because=f"memory short on {short.scope}",
        inputs={
            "total_bytes": left.total,
            "available_bytes": left.available,
            "least_bytes": known.least,
            "enough_bytes": known.enough,
        },
        shows=("available_bytes", "enough_bytes"),
    )


def of_starvation(
    starved: Collection[str], leaving: Collection[str], state: NodeState, *, is_short: bool
) -> Demand:
    """Return the demand for CPU of starved pods: one of them goes, unless any reclaimed pod leaves already.

    is_short: whether the reclaim pool has no idle CPU.
    """
    return Demand(
        resource=Resource.CPU,
        reason=Reason.CPU_STARVED,
        scope="node",
        amount=1.0,
        pods=_candidates(dict.fromkeys((*starved, *leaving), 1.0), state),
        most=1,
        because="no CPU for minutes, so that it can run on another node",
        inputs={"least_starved_s": round(MOVED_S), "starved_pods": len(starved), "pool_is_full": is_short},
        shows=("least_starved_s", "starved_pods"),
        closes=is_short,
    )


def of_verdict(verdict: Verdict, uses: Mapping[str, float], state: NodeState) -> Demand:
    """Return the demand for the end of one culprit, because milder actions did not help the online pod.

    uses: by culprit, the amount that its end frees, in any unit.
    """
    victim = state.pods[verdict.victim].pod
    reason = Reason.IO_STALL if verdict.resource is Resource.IO else Reason.MEMORY_STALL
    why = ", and its limit gave no relief" if verdict.resource is Resource.IO else ""
    return Demand(
        resource=verdict.resource,
        reason=reason,
        scope=victim.full_name,
        amount=1.0,
        pods=_candidates(uses, state),
        most=1,
        because=f"an online pod waits for {verdict.resource}{why}",
        inputs={
            "wait": round(verdict.judgement.wait, 6),
            "bound": None if verdict.judgement.bound is None else round(verdict.judgement.bound, 6),
            "hurt_readings": verdict.readings,
            "confidence": round(verdict.evidence.confidence, 3),
        },
        shows=("hurt_readings", "confidence"),
    )


def of_disk(found: Filled, state: NodeState) -> Demand:
    """Return the demand of a file system that fills: one of its writers goes, the largest first."""
    short, writers = found.short, found.writers
    return Demand(
        resource=Resource.IO,
        reason=REASONS[short.lack],
        scope=short.file_system.value,
        amount=max(writers.values()),
        pods=_candidates(writers, state),
        most=1,
        because=f"{short.file_system} file system short of {short.lack}, and falling",
        inputs={
            "total_bytes": short.left.total,
            "available_bytes": short.left.available,
            "inodes": short.left.inodes,
            "free_inodes": short.left.free_inodes,
            "lost": found.lost,
            "disk": short.left.disk,
        },
        shows=("written_bytes",),
    )


def _candidates(uses: Mapping[str, float], state: NodeState) -> dict[str, Candidate]:
    """Return the pods of some uses that are there, as candidates that were lent nothing."""
    return {
        pod_id: Candidate(
            use=float(uses[pod_id]),
            kube_priority=0 if (facts := state.facts.of(place.pod)) is None else facts.priority,
            priority=place.wish.priority,
            kube_qos=place.pod.kube_qos,
            arrival=number,
            namespace=place.pod.namespace,
        )
        for number, (pod_id, place) in enumerate(state.pods.items())
        if pod_id in uses
    }
