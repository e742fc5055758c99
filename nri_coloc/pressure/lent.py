"""Return how much a reclaimed pod was lent, by its annotations and by the companion's facts about its spec; pure."""

from typing import Final

from nri_coloc.core.state import Assignment, NodeState

_WHOLE_CPU: Final = 1000
_NO_SHARES: Final = 2
"""CPU shares of a container that was lent no CPU."""


def memory_bytes(state: NodeState, pod_id: str) -> int:
    """Return the memory that a pod was lent: the lent memory that its spec requests, or the limit of its annotation.

    A limit of the pod's own is no loan, because its author sets it freely. The companion reports the requests, and
    may be false: beyond the annotation they count up to an equal part of the node's memory.
    """
    members = state.of_pod(pod_id)
    limits = sum(max(0, one.knobs.memory_limit or 0) for one in members if _has_loan(one, "memory-limit"))
    known = [told.memory_bytes for one in members if (told := state.lent_to(one)) is not None]
    equal_part = state.topology.memory_bytes // max(1, len(state.box))
    return min(sum(known), max(limits, equal_part)) if known else limits


def cpu_milli(state: NodeState, pod_id: str) -> float:
    """Return the CPU that a pod was lent, or requests itself, milli-CPU; 0 for none.

    The lent CPU that its spec requests counts without an annotation too. The companion reports it, and may be false:
    beyond the annotation it counts up to an equal part of the node's CPUs.
    """
    members = state.of_pod(pod_id)
    given = sum(_milli(one, state) for one in members)
    asked = sum(told.cpu_milli for one in members if (told := state.lent_to(one)) is not None)
    equal_part = state.topology.online.bit_count() * _WHOLE_CPU // max(1, len(state.box))
    return max(given, min(asked, equal_part))


def _milli(one: Assignment, state: NodeState) -> float:
    """Return the CPU of one container: of a loan only the part that its spec requests too."""
    shares = one.knobs.shares or one.container.resources.shares or 0
    milli = shares * _WHOLE_CPU / 1024 if shares > _NO_SHARES else 0.0
    confirmed = state.lent_to(one) if _has_loan(one, "lent-shares") else None
    return milli if confirmed is None else min(milli, confirmed.cpu_milli)


def _has_loan(one: Assignment, key: str) -> bool:
    """Return whether a vocabulary of lent resources gave the container a value."""
    return any(each == key for each, *_ in one.wish.origins)
