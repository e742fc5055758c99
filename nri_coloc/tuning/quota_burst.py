"""Quota burst: online containers held back by their own quota get more while the node can bear it.

Four node states, as in Koordinator's CPU burst, by what the online pods use of the CPUs they share with the box:
idle: throttled containers go up; cooling: nobody goes up; overload: everybody goes back down; unknown (no
readings): nobody goes up. Each container has a factor of its own quota, from 1 to the tuned most.

What is better here: the sum of what all raised containers could use beyond their present use never exceeds the
headroom of the moment. Koordinator's raises know no sum, so that many at once can overload a node that was idle.
What cannot be borne is taken from all raises alike and at once, whatever the state. Quotas are written to files
only; the runtime's spec keeps the kubelet's (an in-place resize compares them).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from nri_coloc.core.apportionment import apportion
from nri_coloc.core.decisions import Figure
from nri_coloc.core.settings import BurstTuning

_RESTED_BELOW: Final = 0.6
"""Below this part of its own quota a container saves up for the next burst (Koordinator: 60 %)."""

_LONGEST_GAP_S: Final = 10.0
"""Of the time between two ticks, no more counts: neither a late tick nor a clock that jumps pays out savings."""


_FLOATS_ARE_OFF: Final = 1e-4
"""µs, at most, for any quota that a machine can use up; a hundredth is the least that a percentage leaves over."""


class NodeState(StrEnum):
    """How much the online pods leave of their CPUs."""

    IDLE = "idle"
    COOLING = "cooling"
    OVERLOAD = "overload"
    UNKNOWN = "unknown"


class Throttled(NamedTuple):
    """One online container that has a quota. `quota`, `period`: its own, µs, as the kubelet wants them.

    `used_milli`: its use of late; `held_back`: the part of its periods in which its quota held it, 0 to 1. None is
    not known.
    """

    quota: int
    period: int = 100_000
    used_milli: int | None = None
    held_back: float | None = None
    pod_id: str = ""


@dataclass(frozen=True, slots=True)
class Raise:
    """What is remembered of one container: the factor of its quota, and the seconds of whole raise it has saved."""

    factor: float = 1.0
    saved_s: float = 0.0


@dataclass(frozen=True, slots=True)
class QuotaBurst:
    """All raises by container id, and when they were last reckoned."""

    raises: Mapping[str, Raise]
    at: float | None = None


NO_BURST: Final = QuotaBurst({})


class Ground(NamedTuple):
    """What decided all quotas of one turn; milli-CPU.

    `online`: what online pods use, None if not known; `cpus`: those that they share with the box; `unused`: what all
    raises together may come to.
    """

    state: NodeState
    online: int | None
    cpus: int
    unused: int


def node_state(online_milli: int | None, cpus_milli: int, tuning: BurstTuning) -> NodeState:
    """Return the state for what online pods use of the CPUs they share with the box; None is not known."""
    if online_milli is None or cpus_milli <= 0:
        return NodeState.UNKNOWN
    part = online_milli / cpus_milli
    if part >= tuning.threshold:
        return NodeState.OVERLOAD
    return NodeState.COOLING if part >= tuning.threshold * tuning.cooling else NodeState.IDLE


def quota_burst(
    before: QuotaBurst,
    containers: Mapping[str, Throttled],
    state: NodeState,
    headroom_milli: int,
    now_s: float,
    tuning: BurstTuning,
) -> tuple[QuotaBurst, Mapping[str, int]]:
    """Return what to remember and every container's quota, µs; never below its own, never above the tuned most.

    Containers without a quota must not be given. Switched off (`quota_percent` 100) these are their own quotas, so
    that what was raised goes back.
    """
    gap_s = 0.0 if before.at is None else min(max(0.0, now_s - before.at), _LONGEST_GAP_S)
    stepped = {
        container_id: _stepped(before.raises.get(container_id), each, state, gap_s, tuning)
        for container_id, each in containers.items()
    }
    quotas = _borne({key: (containers[key], each.factor) for key, each in stepped.items()}, headroom_milli)
    raises = {
        key: Raise(quotas[key] / containers[key].quota, each.saved_s)
        for key, each in stepped.items()
        if quotas[key] > containers[key].quota or tuning.seconds > 0.0
    }
    return QuotaBurst(raises, now_s), quotas


def because(each: Throttled, quota: int, ground: Ground, tuning: BurstTuning) -> str:
    """Say how one container came to its quota, µs, with every figure."""
    if tuning.quota_percent <= 100:
        return f"quota restored: quota-burst is switched off (quota={each.quota})"
    return (
        f"node {ground.state}: {_load(ground, tuning)}; {_need(each)}; {quota / each.quota:.2f} of its own"
        f" {each.quota}, at most {tuning.quota_percent / 100:.2f}, within {ground.unused}m for all raises together"
    )


def inputs(each: Throttled, ground: Ground, tuning: BurstTuning) -> dict[str, Figure]:
    """Return by name the figures that decide one container's quota."""
    return {
        "node": ground.state.value,
        "online_milli": ground.online,
        "cpus_milli": ground.cpus,
        "unused_milli": ground.unused,
        "own_quota": each.quota,
        "period": each.period,
        "used_milli": each.used_milli,
        "held_back": each.held_back,
        "most_percent": tuning.quota_percent,
        "threshold": tuning.threshold,
        "cooling": tuning.cooling,
    }


def _need(each: Throttled) -> str:
    own, uses, held = each.quota * 1000 // each.period, each.used_milli, each.held_back
    used = f"its use of {own}m is unknown" if uses is None else f"it uses {uses}m of its {own}m"
    return f"{used}, throttled {'an unknown part of the time' if held is None else f'{held:.0%} of the time'}"


def _load(ground: Ground, tuning: BurstTuning) -> str:
    bounds = f"raised below {tuning.threshold * tuning.cooling:.0%}, lowered from {tuning.threshold:.0%} on"
    if ground.state is NodeState.UNKNOWN:
        return f"online use is unknown, no quota is raised ({bounds})"
    return f"online pods use {ground.online}m of {ground.cpus}m, {bounds}"


# --- one container ---------------------------------------------------------------------------------------


def _stepped(
    known: Raise | None, each: Throttled, state: NodeState, gap_s: float, tuning: BurstTuning
) -> Raise:
    """Return the factor as far as the container and the node's state decide it."""
    most = tuning.quota_percent / 100
    old = known or Raise(saved_s=tuning.seconds / 4)
    saved_s = _saved(old, each, gap_s, most, tuning)
    if most <= 1.0:
        return Raise()
    spent = tuning.seconds > 0.0 and saved_s <= 0.0
    factor = old.factor
    if state is NodeState.OVERLOAD or spent:
        factor *= tuning.down
    elif state is NodeState.IDLE and each.held_back:
        factor *= tuning.up
    return Raise(min(max(factor, 1.0), most), saved_s)


def _saved(old: Raise, each: Throttled, gap_s: float, most: float, tuning: BurstTuning) -> float:
    """Return the seconds of whole raise that are left: spent above the own quota, saved well below it.

    A token bucket like Koordinator's, which begins with a random part; a quarter here, the same for everybody.
    """
    if tuning.seconds <= 0.0 or each.used_milli is None or most <= 1.0:
        return old.saved_s
    part = each.used_milli * each.period / (each.quota * 1000)
    if _RESTED_BELOW <= part < 1.0:
        return old.saved_s
    # part - 1 of a whole raise of most - 1 was used: so much of the gap is spent, or saved where it is negative
    return min(max(old.saved_s - (part - 1.0) / (most - 1.0) * gap_s, 0.0), tuning.seconds)


# --- all of them -----------------------------------------------------------------------------------------


def _borne(wanted: Mapping[str, tuple[Throttled, float]], headroom_milli: int) -> dict[str, int]:
    """Return quotas of which the raises together stay within the headroom, cut in proportion where they do not.

    Headroom is reckoned from present use, so what a container uses of its raise already is borne; what it could
    use more of it is not.
    """
    unused = {key: _unused_milli(each, factor) for key, (each, factor) in wanted.items()}
    granted = apportion(min(max(headroom_milli, 0), sum(unused.values())), unused)
    quotas = {}
    for key, (each, factor) in wanted.items():
        cut = -(-(unused[key] - granted[key]) * each.period // 1000)
        quotas[key] = max(each.quota, _raised(each, factor) - cut)
    return quotas


def _unused_milli(each: Throttled, factor: float) -> int:
    """What a raised container could use beyond its present use and its own quota; not known counts as nothing used."""
    own = each.quota * 1000 // each.period
    raised = -(-_raised(each, factor) * 1000 // each.period)
    return max(0, raised - max(own, each.used_milli or 0))


def _raised(each: Throttled, factor: float) -> int:
    """Return the quota of a factor, µs, never above it; that of a quota's own factor is the quota, in floats too."""
    return int(each.quota * factor + _FLOATS_ARE_OFF)
