"""Raise quotas of throttled online containers while the node has unused CPU (quota burst).

Four node states, as in Koordinator's CPU burst, by the online pods' use of the CPUs that they share with the reclaim
pool:

idle: throttled containers are raised.
cooling: no container is raised.
overload: all raised containers are lowered.
unknown (no readings): no container is raised.

Each container has a factor of its own quota, from 1 to the configured maximum.

The improvement on Koordinator is a bound on the sum: all raised containers' possible use beyond their present use
never exceeds the present headroom. Koordinator's raises have no such bound, so that many at once can overload a node
that was idle. A raise that exceeds the bound is reduced at once, in proportion with all others, in any state. Quotas
are written to files only; the runtime's spec keeps the kubelet's quota (an in-place resize compares them).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from nri_coloc.core import report
from nri_coloc.core.apportionment import apportion
from nri_coloc.core.decisions import Figure
from nri_coloc.core.settings import BurstTuning

_RESTED_BELOW: Final = 0.6
"""Below this part of its own quota a container saves up for the next burst (Koordinator: 60 %)."""

_LONGEST_GAP_S: Final = 10.0
"""Seconds between two ticks that count at most: a late tick or a clock that jumps gives no extra savings."""


_FLOATS_ARE_OFF: Final = 1e-4
"""µs, above the rounding error of any quota that a machine can use up.

The least fraction that a percentage gives is 0.01.
"""


class NodeState(StrEnum):
    """How much CPU the online pods leave unused."""

    IDLE = "idle"
    COOLING = "cooling"
    OVERLOAD = "overload"
    UNKNOWN = "unknown"


class Throttled(NamedTuple):
    """One online container with a quota.

    quota, period: its own, µs, as the kubelet set them.
    used_milli: its recent use, milli-CPU; None is unknown.
    held_back: part of its periods in which its quota held it back, 0 to 1; None is unknown.
    pod_id: its pod.
    """

    quota: int
    period: int = 100_000
    used_milli: int | None = None
    held_back: float | None = None
    pod_id: str = ""


@dataclass(frozen=True, slots=True)
class Raise:
    """The state of one container.

    factor: factor of its quota.
    saved_s: seconds of a whole raise that it has saved.
    """

    factor: float = 1.0
    saved_s: float = 0.0


@dataclass(frozen=True, slots=True)
class QuotaBurst:
    """All raises by container id, and the time of their last computation."""

    raises: Mapping[str, Raise]
    at: float | None = None


NO_BURST: Final = QuotaBurst({})


class Ground(NamedTuple):
    """The inputs that all quotas of one tick have in common; milli-CPU.

    state: the node's state.
    online: use of online pods; None if unknown.
    cpus: CPUs that they share with the reclaim pool.
    unused: the bound for all raises together.
    """

    state: NodeState
    online: int | None
    cpus: int
    unused: int


def node_state(online_milli: int | None, cpus_milli: int, tuning: BurstTuning) -> NodeState:
    """Return the state for the online pods' use of the CPUs that they share with the reclaim pool; None is unknown."""
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
    """Return the state to remember and every container's quota, µs; from its own quota to the configured maximum.

    Containers without a quota must not be given. If the quota burst is switched off (`quota_percent` 100), the result
    is their own quotas, so that raised quotas are restored.
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
    """Return the reason of one container's quota, µs, with the figures to look at first."""
    if tuning.quota_percent <= 100:
        text = "quota restored: quota-burst is switched off"
    else:
        text = f"quota set to {quota / each.quota:.2f} of its own: {_load(ground)}, {_need(each)}"
    return report.sentence(text, inputs(each, ground, tuning), _SHOWN)


_SHOWN: Final = ("own_quota", "used_milli", "held_back", "online_milli", "cpus_milli", "unused_milli")
"""The figures of a quota that its sentence ends with."""


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
    held = each.held_back
    if held is None:
        return "its throttling is unknown"
    return f"its quota throttles it {held:.0%} of the time"


def _load(ground: Ground) -> str:
    if ground.state is NodeState.UNKNOWN:
        return "online use is unknown"
    return f"node {ground.state}"


# --- one container ---------------------------------------------------------------------------------------


def _stepped(
    known: Raise | None, each: Throttled, state: NodeState, gap_s: float, tuning: BurstTuning
) -> Raise:
    """Return the factor for the container's throttling and the node's state, before the common bound."""
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
    """Return the seconds for which the quota may still be raised to its maximum.

    Use above the container's own quota spends them, use well below it saves them: a token bucket as in Koordinator.
    Koordinator's buckets begin with a random part, here each begins with a quarter.
    """
    if tuning.seconds <= 0.0 or each.used_milli is None or most <= 1.0:
        return old.saved_s
    part = each.used_milli * each.period / (each.quota * 1000)
    if _RESTED_BELOW <= part < 1.0:
        return old.saved_s
    # part - 1 of a whole raise of most - 1 was used: this part of the gap is spent, or saved if it is negative
    return min(max(old.saved_s - (part - 1.0) / (most - 1.0) * gap_s, 0.0), tuning.seconds)


# --- all of them -----------------------------------------------------------------------------------------


def _borne(wanted: Mapping[str, tuple[Throttled, float]], headroom_milli: int) -> dict[str, int]:
    """Return quotas whose raises together stay within the headroom, reduced in proportion if they exceed it.

    Headroom is computed from present use, so that it contains the part of a raise that is in use. The unused part of
    a raise is bounded here.
    """
    unused = {key: _unused_milli(each, factor) for key, (each, factor) in wanted.items()}
    granted = apportion(min(max(headroom_milli, 0), sum(unused.values())), unused)
    quotas = {}
    for key, (each, factor) in wanted.items():
        cut = -(-(unused[key] - granted[key]) * each.period // 1000)
        quotas[key] = max(each.quota, _raised(each, factor) - cut)
    return quotas


def _unused_milli(each: Throttled, factor: float) -> int:
    """Return the possible use of a raised container beyond its present use and own quota, milli-CPU.

    Unknown use counts as 0.
    """
    own = each.quota * 1000 // each.period
    raised = -(-_raised(each, factor) * 1000 // each.period)
    return max(0, raised - max(own, each.used_milli or 0))


def _raised(each: Throttled, factor: float) -> int:
    """Return the quota for a factor, µs, never above it.

    The factor of a given quota returns that quota, in floats too.
    """
    return int(each.quota * factor + _FLOATS_ARE_OFF)
