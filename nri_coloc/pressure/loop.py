"""Take one turn a second: read stalls and uses, judge, climb the ladder, and have limits written and recorded.

Reads are bounded. In a calm turn `LOOKS` online and `LOOKS` reclaimed pods are read, round-robin, beside the pods that
are throttled; while an online pod is hurt all reclaimed pods are read, so that the culprit is known in the same turn.
Without a reclaimed pod only a few online pods are read, for their baselines.

In mode `observe` nothing is written: verdicts are recorded, and say so. Limits need this process to take them back. So
they are removed when it ends, and limits of the previous process are removed after the runtime's first list.
"""

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from nri_coloc.core.decisions import Decision
from nri_coloc.core.readings import StallReading
from nri_coloc.core.reasons import Reason
from nri_coloc.core.settings import Tuning
from nri_coloc.core.state import Assignment, NodeState, PodPlace
from nri_coloc.core.workload import QoSClass, Tolerance
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host import cgroup_layout
from nri_coloc.pressure import judging, ladder, words
from nri_coloc.pressure.action import Action, Files, Place
from nri_coloc.pressure.actions import ACTIONS
from nri_coloc.pressure.judging import Judged, Seen, Verdict, Watch
from nri_coloc.pressure.ladder import AT_REST, Accused, Floor, Ladder, Step, Turn
from nri_coloc.pressure.rates import SHORTEST_S
from nri_coloc.pressure.verdict import Resource

LOOKS: Final = 8
"""Online pods, and as many reclaimed pods, that a calm turn reads."""

LOOKS_ALONE: Final = 4
"""Online pods that a turn reads while there is no reclaimed pod."""

TOLD_AGAIN_S: Final = 60.0
"""Seconds between two records of a verdict that lasts."""

_ONLINE: Final = (QoSClass.DEDICATED, QoSClass.SHARED)
_LEAST_FIRST: Final = (Tolerance.LOW, Tolerance.NORMAL, Tolerance.HIGH)
_THROTTLE: Final = "throttle"


class Node(Protocol):
    """The state, the settings, and whether the runtime has sent its list."""

    @property
    def state(self) -> NodeState: ...
    @property
    def tuning(self) -> Tuning: ...
    @property
    def told(self) -> bool: ...


class Reader(Protocol):
    """Reads counters of pods; returns None if a pod is gone."""

    def stalls(self, path: str, at: float, held_back: Iterable[str]) -> StallReading | None: ...
    def uses(self, path: str, at: float) -> StallReading | None: ...
    def stolen_us(self) -> int | None: ...


class Report(Protocol):
    """Records decisions and refused writes."""

    def decided(self, decisions: Iterable[Decision], state: NodeState, previous: NodeState) -> None: ...
    def refused_by_kernel(self, failure: KernelInterfaceError, subject: str, state: NodeState) -> None: ...


class Pressure:
    """Judges and throttles; one thread calls `look`. `throttled` may be read by any thread."""

    def __init__(self, node: Node, reader: Reader, files: Files, report: Report) -> None:
        self._node = node
        self._reader = reader
        self._files = files
        self._report = report
        self._watch: Watch = {}
        self._ladder: Ladder = AT_REST
        self._devices: dict[str, tuple[str, ...]] = {}
        self._refused: dict[tuple[str, Resource], Place] = {}
        self._told: dict[tuple[str, Resource], float] = {}
        self._turned_at = float("-inf")
        self._stolen: tuple[float, int] | None = None
        self._next = 0
        self._knows_former = False
        self.throttled: Mapping[str, Mapping[str, str]] = {}
        """Limits by pod id and knob, for people."""

    def look(self, now: float) -> None:
        """Take one turn; nothing before the runtime's first list."""
        if not self._node.told or now - self._turned_at < SHORTEST_S:
            return
        self._turned_at = now
        state, tuning = self._node.state, self._node.tuning
        self._take_over(state)
        if not any(rung.judges for rung in judging.rungs(tuning.pressure).values()):
            self._watch = {}
            self._climb(Judged({}, (), dict.fromkeys(Resource, frozenset())), state, tuning, now)
            return
        judged = judging.turn(self._watch, self._seen(state, now), tuning.pressure)
        self._watch = judged.watch
        self._climb(judged, state, tuning, now)

    def end(self) -> None:
        """Remove all limits after the last `look`: no process watches them after the daemon's end."""
        state = self._node.state
        for (pod_id, resource), one in self._ladder.throttled.items():
            action = ACTIONS[resource]
            if self._undo(pod_id, action, self._place(state, pod_id), state):
                said = words.of_end(pod_id, action, one.limit, Reason.UNWATCHED, "the daemon ends")
                self._report.decided((said,), state, state)
        self._ladder, self.throttled = AT_REST, {}

    # ---- reading ----

    def _seen(self, state: NodeState, now: float) -> Seen:
        online = {k: place for k, place in state.pods.items() if _is_online(state, k, place)}
        reclaimed = {k: place for k, place in state.pods.items() if _is_reclaimed(state, k, place)}
        self._next += 1
        suffering = self._suffering(online)
        found: dict[str, StallReading | None] = dict.fromkeys(online)
        tolerances: dict[str, Tolerance] = {}
        for pod_id in self._chosen(online, LOOKS if reclaimed else LOOKS_ALONE, suffering):
            path = _path(online[pod_id])
            found[pod_id] = self._reader.stalls(path, now, (path, *_with_quota(state.of_pod(pod_id))))
            tolerances[pod_id] = _tolerance(state.of_pod(pod_id))
        uses: dict[str, StallReading | None] = dict.fromkeys(reclaimed)
        for pod_id in reclaimed if suffering else self._chosen(reclaimed, LOOKS, self._devices):
            uses[pod_id] = self._reader.uses(_path(reclaimed[pod_id]), now)
        return Seen(found, uses, tolerances, self._stolen_share(state, now))

    def _suffering(self, online: Iterable[str]) -> list[str]:
        """Return the online pods that were hurt at their last reading."""
        return [k for k in online if any(one.feeling.streak for one in self._felt(k))]

    def _felt(self, pod_id: str) -> Iterable[judging.Felt]:
        watched = self._watch.get(pod_id)
        return () if watched is None else watched.felt.values()

    def _chosen(self, pods: Mapping[str, PodPlace], count: int, always: Iterable[str]) -> list[str]:
        """Return the pods of this turn: those that are read always, and the next ones in order."""
        ids = [*pods]
        first = self._next * count % len(ids) if len(ids) > count else 0
        turned = (ids[first:] + ids[:first])[:count]
        return [*dict.fromkeys((*(k for k in always if k in pods), *turned))]

    def _stolen_share(self, state: NodeState, now: float) -> float | None:
        """Return the share of all CPUs' time that the hypervisor took since the last turn; None if unknown."""
        stolen = self._reader.stolen_us()
        before, self._stolen = self._stolen, None if stolen is None else (now, stolen)
        if stolen is None or before is None or now <= before[0] or stolen < before[1]:
            return None
        cpus = state.topology.machine.bit_count()
        return min(1.0, (stolen - before[1]) / 1e6 / (now - before[0]) / max(1, cpus))

    # ---- the ladder ----

    def _climb(self, judged: Judged, state: NodeState, tuning: Tuning, now: float) -> None:
        accused: dict[Resource, list[Accused]] = {}
        for verdict in judged.verdicts:
            accused.setdefault(verdict.resource, []).extend(self._accused(verdict, state))
        gone = {pod_id for pod_id, _ in self._ladder.throttled} - state.pods.keys()
        concerned = {pod_id for pod_id, _ in self._ladder.throttled} - gone
        concerned |= {one.pod_id for some in accused.values() for one in some}
        may = {k for k in concerned if _may(state, k, state.pods[k])}
        turn = Turn(now, accused, judged.hurt, may, gone)
        self._ladder, steps = ladder.climb(self._ladder, turn, _floors(tuning))
        self._tell(judged.verdicts, state, tuning, now)
        self._try_again(state)
        for step in steps:
            self._carry_out(step, state, now)
        kept = {pod_id for pod_id, _ in self._ladder.throttled}
        self._devices = {k: devices for k, devices in self._devices.items() if k in kept}
        self.throttled = {
            pod_id: {ACTIONS[resource].knob: ACTIONS[resource].words(one.limit)}
            for (pod_id, resource), one in self._ladder.throttled.items()
        }

    def _accused(self, verdict: Verdict, state: NodeState) -> Iterable[Accused]:
        """Yield the culprits of a verdict that can be limited. A throttled pod keeps its devices."""
        action = ACTIONS.get(verdict.resource)
        for suspect in verdict.evidence.culprits if action is not None else ():
            pod_id = suspect.pod_id
            devices = self._devices.setdefault(pod_id, tuple(sorted(verdict.devices)))
            newest = self._watch[pod_id].rates[0]
            if action is not None and newest is not None and action.is_possible(self._place(state, pod_id)):
                yield Accused(pod_id, verdict.victim, newest.fastest(devices))

    def _place(self, state: NodeState, pod_id: str) -> Place:
        place = state.pods.get(pod_id)
        if place is None:
            return Place("")
        containers = (_container_path(one) for one in state.of_pod(pod_id))
        return Place(_path(place), tuple(filter(None, containers)), self._devices.get(pod_id, ()))

    def _carry_out(self, step: Step, state: NodeState, now: float) -> None:
        action, place = ACTIONS[step.resource], self._place(state, step.pod_id)
        if step.limit is None:
            is_done = self._undo(step.pod_id, action, place, state)
        else:
            applied = action.act(self._files, place, step.limit)
            is_done = bool(applied.corrected)
            for failure in applied.failures:
                self._report.refused_by_kernel(failure, step.pod_id, state)
            if step.before is None and not is_done:
                self._ladder = ladder.refused(self._ladder, (step.pod_id, step.resource), now)
        if is_done:
            said = words.of_step(step, action, place, _names(state))
            self._report.decided((said,), state, state)

    def _undo(self, pod_id: str, action: Action, place: Place, state: NodeState) -> bool:
        """Take a limit back; return whether that worked. A refused one is tried again in the next turn."""
        failures = action.undo(self._files, place)
        for failure in failures:
            self._report.refused_by_kernel(failure, pod_id, state)
        if failures:
            self._refused[pod_id, action.resource] = place
        return not failures

    def _try_again(self, state: NodeState) -> None:
        refused, self._refused = self._refused, {}
        for (pod_id, resource), place in refused.items():
            if pod_id in state.pods and (pod_id, resource) not in self._ladder.throttled:
                self._undo(pod_id, ACTIONS[resource], place, state)

    def _take_over(self, state: NodeState) -> None:
        """After the runtime's first list, remove the limits that the previous process left."""
        if self._knows_former:
            return
        self._knows_former = True
        for action in ACTIONS.values():
            for path in action.left(self._files):
                owner = _owner(state, path)
                failures = action.undo(self._files, Place(path, (path,)))
                for failure in failures:
                    self._report.refused_by_kernel(failure, owner, state)
                if owner and not failures:
                    why = "the previous process had set it"
                    said = words.of_end(owner, action, 0.0, Reason.UNWATCHED, why)
                    self._report.decided((said,), state, state)

    def _tell(self, verdicts: Iterable[Verdict], state: NodeState, tuning: Tuning, now: float) -> None:
        """Record each verdict when it begins, and once a minute while it lasts."""
        names, decisions = _names(state), []
        self._told = {k: at for k, at in self._told.items() if now - at < TOLD_AGAIN_S}
        for verdict in verdicts:
            key = verdict.victim, verdict.resource
            if key in self._told:
                continue
            self._told[key] = now
            qos = _class(state, verdict.victim)
            decisions.append(words.of_verdict(verdict, qos, names, self._next_action(verdict, tuning)))
        if decisions:
            self._report.decided(decisions, state, state)

    def _next_action(self, verdict: Verdict, tuning: Tuning) -> str:
        """Return what follows a verdict, in words."""
        if verdict.resource not in ACTIONS:
            return "none"
        if tuning.observe:
            return "none in mode observe"
        keys = {(one.pod_id, verdict.resource) for one in verdict.evidence.culprits}
        return ACTIONS[verdict.resource].name if keys & self._ladder.throttled.keys() else "none allowed"


def _floors(tuning: Tuning) -> dict[Resource, Floor]:
    """Return the resources for which pods are throttled."""
    if tuning.observe:
        return {}
    rungs = judging.rungs(tuning.pressure)
    return {
        resource: Floor(action.least, rungs[resource])
        for resource, action in ACTIONS.items()
        if rungs[resource].judges and rungs[resource].throttles
    }


def _may(state: NodeState, pod_id: str, place: PodPlace) -> bool:
    """Return whether a pod may be throttled: a reclaimed pod whose `avoidance` allows that."""
    if not _is_reclaimed(state, pod_id, place):
        return False
    wished = {one.wish.avoidance for one in state.of_pod(pod_id)} | {place.wish.avoidance}
    return all(avoidance is None or _THROTTLE in avoidance for avoidance in wished)


def _is_reclaimed(state: NodeState, pod_id: str, place: PodPlace) -> bool:
    """Return whether a pod counts as reclaimed: it is in the reclaim cgroups, or all its containers are reclaimed.

    An annotation may give a class to a container that does not exist: that keeps a pod out of the reclaim cgroups, but
    it spares no pod. A container that the kubelet has pinned to CPUs spares its pod, as the limit would reach it.
    """
    if not place.boxed:
        members = state.of_pod(pod_id)
        if not members or any(one.qos is not QoSClass.RECLAIMED or one.wish.kept for one in members):
            return False
    return bool(_path(place))


def _is_online(state: NodeState, pod_id: str, place: PodPlace) -> bool:
    return not place.boxed and bool(_path(place)) and any(one.qos in _ONLINE for one in state.of_pod(pod_id))


def _class(state: NodeState, pod_id: str) -> QoSClass:
    return next((one.qos for one in state.of_pod(pod_id) if one.qos in _ONLINE), QoSClass.SHARED)


def _path(place: PodPlace) -> str:
    """Return the cgroup that belongs to a pod alone, "" if it has none."""
    try:
        return cgroup_layout.pod_path(place.pod.cgroup_parent) if place.pod.owns_cgroup else ""
    except ValueError:
        return ""


def _container_path(assignment: Assignment) -> str:
    try:
        return cgroup_layout.container_path(assignment.container.cgroups_path)
    except ValueError:
        return ""


def _with_quota(containers: Iterable[Assignment]) -> Iterable[str]:
    """Yield the cgroups of containers that a quota may hold back."""
    for one in containers:
        path = _container_path(one)
        if path and (one.container.resources.quota or 0) > 0:
            yield path


def _tolerance(containers: Iterable[Assignment]) -> Tolerance:
    """Return the least tolerance of a pod's containers."""
    wished = {one.wish.tolerance for one in containers}
    return next((one for one in _LEAST_FIRST if one in wished), Tolerance.NORMAL)


def _owner(state: NodeState, path: str) -> str:
    """Return the id of the pod that a cgroup belongs to, "" if it is unknown."""
    for pod_id, place in state.pods.items():
        own = _path(place)
        if own and (path == own or path.startswith(f"{own}/")):
            return pod_id
    return ""


def _names(state: NodeState) -> dict[str, str]:
    return {k: f"{place.pod.namespace}/{place.pod.name}" for k, place in state.pods.items()}
