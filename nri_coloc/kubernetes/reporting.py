"""Decide when a node's report changes, and to which values. Pure: the time is an argument, in
seconds of a monotonic clock, and the caller sends the PATCH.

    least  = max(admitted, min(bound, reported))           floor of one resource (requests.carried)
    target = min(whole node, max(offer, least))
    amount = min(whole node, max(followed target, least))

*Amounts.* A followed target is the reported amount until the target has differed from it by a tenth for 30 s, above or
below. Then a target below it is reported. A target above it is reported after 30 s in which each one was above, and as
the lowest of them. So a target that jumps across the reported amount leaves no wrong report: it lowers the report after
30 s to 60 s. A pod that is bound beyond the reported amount does not raise it: the kubelet rejects that pod once, and
no pod can raise a report by naming its node.

*Open or closed.* A node is short when the offer of a resource is 0 or below `least`. A node that is short, or not
lending, is closed at once: otherwise each pod that ends makes room for a new one, and the amount never falls. It opens
after 60 s in which it lends and each offer is a tenth above `least`.

*Rate.* Each PATCH moves the next regular one by 34 s, and one may be sent ahead of that. A report that keeps pods from
being rejected at a restart of the kubelet may be two ahead. Closing an open node never waits, and opening it is
regular. So ten minutes have at most (600 + 3 · 34) / 34 = 20 PATCHes, or 21 with such a report. With 34 s a
change that has lasted 30 s is sent within 5 s, also if such changes follow each other.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from math import inf
from typing import Any, Final, NamedTuple

from nri_coloc.kubernetes import presets, requests
from nri_coloc.kubernetes.presets import Amounts, Preset, Shown
from nri_coloc.kubernetes.requests import Floor

DWELL_S: Final = 30.0
OPEN_AFTER_S: Final = 60.0
SPACING_S: Final = 34.0
HEARTBEAT_S: Final = 60.0
"""A third of the controller's 3 minutes, so that one lost PATCH closes nothing."""

SILENT_AFTER_S: Final = 60.0
"""Without a message of the daemon the companion closes the node itself, two minutes before the controller."""

SETTLE_S: Final = 10.0
"""For this long after a PATCH the watch may still show the values before it."""


class Lending(StrEnum):
    """The lending state of a node."""

    ON = "on"
    OFF = "off"
    DRAINING = "draining"
    COOLING = "cooling"


class Cause(StrEnum):
    """The cause of a PATCH."""

    FIRST = "first"
    CLOSED = "closed"
    FLOOR = "floor"
    CHANGED = "changed"
    DRIFT = "drift"
    HEARTBEAT = "heartbeat"


class Wanted(NamedTuple):
    """The newest values of daemon and pods.

    offer: advertised capacity.
    floor: sums of the pods' requests.
    node: CPUs and memory of the whole node, the most that can be reported.
    max_pods: number of pods that the node may have; the amount of the gate resource while it is open.
    """

    offer: Amounts
    floor: Floor
    node: Amounts
    max_pods: int
    lending: Lending = Lending.ON


class Report(NamedTuple):
    """The values of one PATCH.

    gate: amount of the gate resource; None for a closed node.
    is_fresh: the daemon was heard, so that `reported-at` is renewed.
    """

    amounts: Amounts
    gate: int | None
    lending: Lending
    is_fresh: bool = True


class Course(NamedTuple):
    """Targets that all differ from the reported amount by a tenth or more.

    since_s: start of the difference.
    rise_s: since when all targets are above the reported amount; None while the target is below it.
    lowest: lowest target since `rise_s`; the present one while it is below the reported amount.
    """

    since_s: float
    rise_s: float | None
    lowest: int


@dataclass(frozen=True, slots=True)
class Reporting:
    """The state of the reporter, for one node object: a node with another UID needs a new one.

    sent: the last report that the API server accepted; None before the first one of this process.
    sent_s: time of it.
    next_s: time from which a regular PATCH is not ahead.
    cpu, memory: running courses; None while the target is within a tenth.
    openable_s: since when a closed node could be open; None if it could not.
    silent_s: since when the daemon is silent; None if it is not.
    """

    sent: Report | None = None
    sent_s: float = -inf
    next_s: float = 0.0
    cpu: Course | None = None
    memory: Course | None = None
    openable_s: float | None = None
    silent_s: float | None = None


class Decision(NamedTuple):
    """The new state, and the report to send now with its cause; None for no PATCH."""

    state: Reporting
    report: Report | None = None
    cause: Cause | None = None


def decide(
    state: Reporting, wanted: Wanted | None, shown: Shown, now_s: float, *, is_replaced: bool = False
) -> Decision:
    """Return the report to send now. `wanted` is None while the daemon is silent; `shown`: the newest node object.

    is_replaced: another companion has reported since; the daemon serves it, and is silent to this one alone.

    If the PATCH fails, the next call returns a report again; the caller backs off. `confirm` follows a success.
    """
    base = state.sent or _found(shown)
    if wanted is None:
        return _silent(state, None if is_replaced else base, now_s)
    state = replace(state, silent_s=None)
    size = requests.Size(wanted.node, wanted.max_pods)
    reported = None if base is None else base.amounts
    wanted = wanted._replace(floor=requests.carried(wanted.floor, size, reported))
    state, amounts = _follow(state, base, wanted, now_s)
    state, is_open = _gate(state, base, wanted, now_s)
    gate = max(wanted.max_pods, wanted.floor.gate) if is_open else None
    report = Report(amounts, gate, wanted.lending)
    cause = _cause(state, base, report, _Seen(shown, wanted.floor), now_s)
    return Decision(state, report, cause) if cause is not None else Decision(state)


def confirm(state: Reporting, report: Report, now_s: float) -> Reporting:
    """Return the state after the API server accepted a report."""
    before = state.sent.amounts if state.sent is not None else None
    return replace(
        state,
        sent=report,
        sent_s=now_s,
        next_s=max(state.next_s, now_s) + SPACING_S,
        cpu=state.cpu if before and before.cpu_milli == report.amounts.cpu_milli else None,
        memory=state.memory if before and before.memory_bytes == report.amounts.memory_bytes else None,
    )


def patch(report: Report, preset: Preset, reported_at: str, node_state: str = "") -> dict[str, Any]:
    """Return the body of a JSON merge patch of `nodes/status`.

    reported_at: the present time, RFC 3339.
    node_state: for its label, which is no cause of a PATCH; "" leaves the label as it is.

    The subresource takes metadata too (pkg/registry/core/node/strategy.go, nodeStatusStrategy). Capacity needs the
    same values as allocatable, because the kubelet computes allocatable from it (pkg/kubelet/nodestatus/setters.go,
    MachineInfo).
    """
    metadata: dict[str, Any] = {"labels": {presets.LENDING: _label(report.lending)}}
    if node_state:
        metadata["labels"][presets.NODE_STATE] = node_state
    if report.is_fresh:
        metadata["annotations"] = {presets.REPORTED_AT: reported_at}
    quantities = presets.written(preset, report.amounts, report.gate)
    return {"metadata": metadata, "status": {"capacity": quantities, "allocatable": dict(quantities)}}


def _label(lending: Lending) -> str:
    """Return the label's value, which has three states: a cooling node lends, and takes no new pod."""
    return Lending.ON.value if lending is Lending.COOLING else lending.value


# --- amounts --------------------------------------------------------------------------------------------


def _follow(state: Reporting, base: Report | None, wanted: Wanted, now_s: float) -> tuple[Reporting, Amounts]:
    """Return the courses with the present offer, and the amounts to report."""
    reported = (None, None) if base is None else base.amounts
    least = _least(base, wanted)
    targets = _within(wanted.offer, least, wanted.node)
    cpu, memory = map(partial(_course, now_s=now_s), (state.cpu, state.memory), reported, targets)
    values = map(partial(_value, now_s=now_s), (cpu, memory), reported, targets)
    amounts = _within(values, least, wanted.node)
    return replace(state, cpu=cpu, memory=memory), amounts


def _least(base: Report | None, wanted: Wanted) -> Amounts:
    """Return the floor of both resources."""
    reported = base.amounts if base is not None else Amounts()
    floor, bound = wanted.floor, wanted.floor.bound
    return Amounts(
        max(floor.admitted.cpu_milli, min(bound.cpu_milli, reported.cpu_milli)),
        max(floor.admitted.memory_bytes, min(bound.memory_bytes, reported.memory_bytes)),
    )


def _within(amounts: Iterable[int], least: Amounts, most: Amounts) -> Amounts:
    return Amounts(*(min(high, max(low, each)) for each, low, high in zip(amounts, least, most, strict=True)))


def _course(course: Course | None, reported: int | None, target: int, now_s: float) -> Course | None:
    if reported is None or target == reported or abs(target - reported) * 10 < reported:
        return None
    since_s = now_s if course is None else course.since_s
    if target < reported:
        return Course(since_s, None, target)
    if course is None or course.rise_s is None:
        return Course(since_s, now_s, target)
    return course._replace(lowest=min(course.lowest, target))


def _value(course: Course | None, reported: int | None, target: int, now_s: float) -> int:
    """Return the amount that follows a target: the reported one until a difference has lasted."""
    if reported is None:
        return target
    if course is None:
        return reported
    since_s = course.since_s if course.rise_s is None else course.rise_s
    return reported if now_s - since_s < DWELL_S else course.lowest


# --- open or closed -------------------------------------------------------------------------------------


def _gate(state: Reporting, base: Report | None, wanted: Wanted, now_s: float) -> tuple[Reporting, bool]:
    """Return whether the node is open."""
    pairs = list(zip(wanted.offer, _least(base, wanted), strict=True))
    if wanted.lending is not Lending.ON or any(not offer or offer < least for offer, least in pairs):
        return replace(state, openable_s=None), False
    if base is not None and base.gate is not None:
        return state, True
    if any(offer * 10 < least * 11 for offer, least in pairs):
        return replace(state, openable_s=None), False
    since_s = now_s if state.openable_s is None else state.openable_s
    return replace(state, openable_s=since_s), now_s - since_s >= OPEN_AFTER_S


def _silent(state: Reporting, base: Report | None, now_s: float) -> Decision:
    """Return the decision without a message of the daemon: amounts stay, an open node closes after a minute."""
    since_s = now_s if state.silent_s is None else state.silent_s
    state = replace(state, silent_s=since_s, cpu=None, memory=None, openable_s=None)
    if base is None or base.gate is None or now_s - since_s < SILENT_AFTER_S:
        return Decision(state)
    return Decision(state, base._replace(gate=None, is_fresh=False), Cause.CLOSED)


# --- when -----------------------------------------------------------------------------------------------


class _Seen(NamedTuple):
    """The node object as it is, beside the floor of its pods."""

    shown: Shown
    floor: Floor


def _cause(state: Reporting, base: Report | None, report: Report, seen: _Seen, now_s: float) -> Cause | None:
    """Return the cause of a PATCH now; None for no PATCH, or for one that must wait."""
    ahead_s = state.next_s - now_s
    if base is None:
        return Cause.FIRST if ahead_s <= SPACING_S else None
    if base.gate is not None and report.gate is None:
        return Cause.CLOSED
    is_old = now_s - state.sent_s >= SETTLE_S
    if ahead_s <= 2 * SPACING_S:
        if _is_below(base.amounts, report, seen.floor):
            return Cause.FLOOR
        if is_old and _harms(report, seen):
            return Cause.DRIFT
    if ahead_s > SPACING_S:
        return None
    if report != base:
        return Cause.CHANGED
    if is_old and seen.shown != Shown(base.amounts, base.gate):
        return Cause.DRIFT
    return Cause.HEARTBEAT if now_s - state.sent_s >= HEARTBEAT_S else None


def _is_below(amounts: Amounts, report: Report, floor: Floor) -> bool:
    """Return whether admitted pods request more than some amounts, as far as a report can carry their requests."""
    needed = (min(pair) for pair in zip(report.amounts, floor.admitted, strict=True))
    return any(amount < need for amount, need in zip(amounts, needed, strict=True))


def _harms(report: Report, seen: _Seen) -> bool:
    """Return whether the node object has running pods rejected at a restart of the kubelet, or opens a closed node.

    The kubelet writes zeros for extended resources on a node that was made again
    (pkg/kubelet/kubelet_node_status.go, reconcileExtendedResource). Other writers may do anything.
    """
    amounts, gate = seen.shown.amounts, seen.shown.gate
    if gate is not None and (report.gate is None or gate < seen.floor.gate):
        return True
    return _is_below(amounts or Amounts(), report, seen.floor)


def _found(shown: Shown) -> Report | None:
    """Return the report that an earlier process left on the node; None if there is none."""
    return None if shown.amounts is None else Report(shown.amounts, shown.gate, Lending.ON)
