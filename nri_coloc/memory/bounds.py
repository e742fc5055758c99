"""The memory bounds of the reclaim cgroups, computed and recorded from each snapshot; `MemoryWorker` writes them.

A member is one reclaim cgroup. While all members have enough, a new target is not worth a write of every member's
files. The target is divided again if:

- it has moved by at least `WORTH_A_WRITE`,
- it has moved by less, and the reclaim cgroups use more than it,
- a member came or went,
- a member has nearly used up its part, and there is room.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from nri_coloc.core import workload
from nri_coloc.core.decisions import Decision
from nri_coloc.core.knobs import NO_KNOBS, Knobs
from nri_coloc.core.lending import Binding, Change, MemoryTarget, Part
from nri_coloc.core.readings import GroupReading, Picture
from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.core.report import SWING_S, Cadence, Extent, Report
from nri_coloc.core.state import RECLAIM, Assignment, NodeState, PodPlace
from nri_coloc.memory import division, headroom
from nri_coloc.memory.division import Member, MemoryControl
from nri_coloc.memory.headroom import Growth, MemoryHeadroom
from nri_coloc.memory.worker import Bounds, MemoryWorker
from nri_coloc.placing.node import Node
from nri_coloc.repair import targets

WORTH_A_WRITE: Final = 16 << 20
"""Bytes; a quarter of the least growth (`memory_dead_band`): the noise of a machine's free memory is less."""

NEARLY_FULL: Final = 0.9
"""Use as a share of memory.high, 0 to 1: a member above it gets another part if there is room."""

STARTING: Final = 64 << 20
"""Bytes that a member is taken to use at least. Memory that nothing requested is divided by use: without this a new
member would get a part that is too small to start in."""

TOLD_MEMBERS: Final = 8

Members = Mapping[str, Member]


class Boxed(NamedTuple):
    """A pod with a reclaim cgroup.

    path: its cgroup.
    request: the memory that it was lent, bytes; 0 if unknown.
    ours: whether the daemon sets its memory limits.
    """

    path: str
    request: int = 0
    ours: bool = True


def boxed_pods(state: NodeState) -> dict[str, Boxed]:
    """Return the pods with a reclaim cgroup, by pod id."""
    return dict(_boxed(state, state.pods))


def _boxed(state: NodeState, pods: Mapping[str, PodPlace]) -> Iterator[tuple[str, Boxed]]:
    for pod_id, place in pods.items():
        path = targets.pod_path(place.pod) if place.boxed else ""
        if path:
            lent = sum(_lent(a) for a in state.of_pod(pod_id))
            yield pod_id, Boxed(path, lent, "memory" not in place.wish.preserve)


def _lent(assignment: Assignment) -> int:
    """Return the bytes that a container was lent: the limit that an annotation vocabulary set, else its own limit."""
    limit = assignment.knobs.memory_limit or 0
    return limit if limit > 0 else workload.known_memory_limit(assignment.container)


class BoxMemory:
    """Belongs to the survey's thread; `headroom` may be read from any."""

    def __init__(self, node: Node, worker: MemoryWorker, report: Report) -> None:
        self.headroom: MemoryHeadroom | None = None
        self._node = node
        self._worker = worker
        self._report = report
        self._growth = Growth()
        self._control = MemoryControl()
        self._goal = MemoryTarget()
        self._parts: dict[str, Part] = {}
        self._begun: dict[str, int] = {}
        self._cadence = Cadence()
        self._high_seen: int | None = None
        self._untold: tuple[Knobs, Extent] | None = None

    @property
    def headroom_bytes(self) -> int:
        """Return the memory that may be lent now, bytes; 0 while it is unknown."""
        return 0 if self.headroom is None else self.headroom.amount

    @property
    def headroom_by_node(self) -> Mapping[int, int]:
        """Return the memory that may be lent now, bytes by memory node; empty while it is unknown."""
        return {} if self.headroom is None else self.headroom.by_node

    def turn(self, picture: Picture, state: NodeState, expected: Mapping[str, int]) -> None:
        """Compute headroom and bounds from a new snapshot; called once per turn of the slow loop.

        expected: bytes by online pod.
        """
        tuning = self._node.tuning.reclaim
        self._growth, claim = headroom.claim_of(self._growth, picture, expected, tuning)
        boxed = boxed_pods(state)
        seen = {pod_id: picture.pods[pod_id] for pod_id in boxed if pod_id in picture.pods}
        seen |= picture.host_groups
        self.headroom = headroom.headroom_memory(picture, seen, claim, tuning) if tuning.enabled else None
        members = {name: _member(boxed.get(name), seen.get(name)) for name in {**boxed, **seen}}
        if self.headroom is not None and self._control.high is None:
            self._resume(boxed, members)
        self._control, goal = division.target(self._control, self.headroom, picture.at, tuning)
        if self._is_worth(goal, members):
            self._divide(goal, members)
        if self._may_tell(picture.at):
            self._tell(members, state)
        if not self._node.tuning.observe:
            self._worker.submit(self._bounds(boxed, picture.host_groups))

    def _resume(self, boxed: Mapping[str, Boxed], members: Members) -> None:
        """Begin with the bounds that the previous process left."""
        paths = {boxed[name].path if name in boxed else name: name for name in members}
        found = {paths[path]: each for path, each in self._worker.found(paths).items()}
        self._control = division.resumed(found, members, self._node.tuning.reclaim)
        if self._control.high is not None:
            self._begun = {"found_bytes": self._control.high, "found_members": len(found)}

    def _is_worth(self, goal: MemoryTarget, members: Members) -> bool:
        now, known = _amounts(goal), _amounts(self._goal)
        if not now or len(now) != len(known):
            return len(now) != len(known)
        if members.keys() != self._parts.keys():
            return True
        spare, spare_of_pods = _spare(goal, members)
        moved = max(abs(one - other) for one, other in zip(now, known, strict=True))
        if moved >= WORTH_A_WRITE or (moved and min(spare, spare_of_pods) < 0):
            return True
        return any(
            member.use > NEARLY_FULL * self._parts[name].high
            and (spare if member.beside else spare_of_pods) >= WORTH_A_WRITE
            for name, member in members.items()
        )

    def _divide(self, goal: MemoryTarget, members: Members) -> None:
        """Divide the target again; the changes until the next record are folded into it."""
        before, known = self._goal, self._parts
        self._goal, self._parts = goal, division.divide(goal, members)
        if self._parts == known:
            return
        former, high = _knobs(before) if known else NO_KNOBS, goal.high or 0
        first, extent = self._untold or (former, Extent(before.high or high, before.high or high))
        self._untold = first, extent.with_value(high)

    def _may_tell(self, at: float) -> bool:
        """Return whether the folded changes are recorded now.

        A new division of the same amount waits as a swing does.
        """
        if self._untold is None:
            return False
        (former, _), high = self._untold, self._goal.high
        change = _direction(self._high_seen, high)
        is_allowed, self._cadence = self._cadence.allows(change, at), self._cadence.moved(change, at)
        self._high_seen = high
        if self._parts and None not in (former.memory_high, high):
            is_same = former.memory_high == high and at - self._cadence.written_at < SWING_S
            if is_same or not is_allowed:
                return False
        self._cadence = self._cadence._replace(written_at=at)
        return True

    def _bounds(self, boxed: Mapping[str, Boxed], host_groups: Iterable[str]) -> dict[str, Bounds]:
        """Return the bounds to write, by cgroup path; pods that preserve their memory are left out."""
        pods = {
            boxed[pod_id].path: Bounds(part, pod_id)
            for pod_id, part in self._parts.items()
            if pod_id in boxed and boxed[pod_id].ours
        }
        return pods | {path: Bounds(self._parts[path]) for path in host_groups if path in self._parts}

    def _tell(self, members: Members, state: NodeState) -> None:
        goal = self._goal
        (former, extent), self._untold = self._untold or (NO_KNOBS, Extent(0, 0)), None
        now = _knobs(goal) if self._parts else NO_KNOBS
        # v1 has no memory.high, so none is written or missing
        absent = self._node.lacking(former.overlaid(now))
        decision = Decision(
            AuditEvent.RECLAIM_MEMORY,
            Reason.HEADROOM if now != former else Reason.MEMBERS_ASKED,
            f"memory limit set: {_CAUSES.get(goal.binding) or _bounding(goal.binding)}",
            pool=RECLAIM,
            before=former.differing(now).without(absent),
            after=now.differing(former).without(absent),
            inputs={
                "binding": goal.binding.value,
                "before_bytes": former.memory_high,
                "after_bytes": now.memory_high,
                "low_bytes": extent.low,
                "high_bytes": extent.high,
                **goal.inputs,
                **self._begun,
                **_divided(self._parts, members, state),
            },
            shows=("after_bytes", "before_bytes", *_SHOWN.get(goal.binding, ()), "members"),
        )
        self._report.decided((decision,), state, state)
        self._begun = {}


_CAUSES: Final = {
    Binding.DEAD_BAND: "the free memory, which grew by less than the dead band",
    Binding.DWELL: "the free memory, which has not grown for long enough",
    Binding.GROWTH_STEP: "the free memory has grown; the limit grows by one step",
}


_SHOWN: Final = {
    Binding.FREE_MEMORY: ("by_node_bytes",),
    Binding.KUBEPODS_LIMIT: ("by_kubepods_limit_bytes",),
    Binding.ONLINE_CLAIM: ("by_node_bytes",),
}
"""The sum that a bound is, by the binding term."""


def _bounding(binding: Binding) -> str:
    return f"{binding.value.replace('_', ' ')} bounds the reclaimed pods"


def _amounts(goal: MemoryTarget) -> tuple[int, ...]:
    """Return all amounts that are divided, bytes; empty while there is no target."""
    if goal.high is None or goal.limit is None:
        return ()
    return goal.high, goal.limit, *(goal.pods or ())


def _direction(before: int | None, after: int | None) -> Change:
    """Return the direction in which memory.high moved; KEEP for a first or a last bound."""
    if before is None or after is None or before == after:
        return Change.KEEP
    return Change.SUPPRESS if after < before else Change.GROW


def _spare(goal: MemoryTarget, members: Members) -> tuple[int, int]:
    """Return the bytes that all members have left, and the bytes that pods have left; negative if they use more."""
    spare = (goal.high or 0) - sum(member.use for member in members.values())
    if goal.pods is None:
        return spare, spare
    of_pods = goal.pods.high - sum(member.use for member in members.values() if not member.beside)
    return spare, min(spare, of_pods)


def _member(boxed: Boxed | None, reading: GroupReading | None) -> Member:
    held = reading.memory if reading is not None else None
    request, beside = (boxed.request if boxed is not None else 0), boxed is None
    if held is None:
        return Member(STARTING, request, beside=beside)
    return Member(max(STARTING, held.usage), request, held.unreclaimable, beside)


def _knobs(goal: MemoryTarget) -> Knobs:
    return Knobs(memory_high=goal.high, memory_limit=goal.limit)


def _divided(parts: Mapping[str, Part], members: Members, state: NodeState) -> dict[str, int]:
    """Return the parts of the largest members and the figures that they follow from, bytes by name."""
    largest = sorted(parts, key=lambda name: (-parts[name].high, name))
    found = {"members": len(parts)}
    for name in largest[:TOLD_MEMBERS]:
        high, limit = parts[name]
        member = members[name]
        own = {
            "high": high,
            "max": limit,
            "use": member.use,
            "request": member.request,
            "unreclaimable": member.unreclaimable,
        }
        found |= {f"{_name(name, state)}.{key}_bytes": amount for key, amount in own.items()}
    return found


def _name(member: str, state: NodeState) -> str:
    place = state.pods.get(member)
    return member if place is None else place.pod.full_name
