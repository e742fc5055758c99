"""Take the turns of `turn_times`: read stalls and uses, judge, climb the ladder, and have limits written and recorded.

In mode `observe` nothing is written: verdicts are recorded, and say so. Limits need this process to take them back. So
they are removed when it ends, and limits of the previous process are removed after the runtime's first list.
"""

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from nri_coloc.core.reasons import Reason
from nri_coloc.core.report import Recorder
from nri_coloc.core.settings import Tuning
from nri_coloc.core.state import NodeState
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.placing.node import Node
from nri_coloc.pressure import judging, ladder, population, words
from nri_coloc.pressure.action import Action, Files, Place
from nri_coloc.pressure.actions import ACTIONS
from nri_coloc.pressure.disk_waits import DiskWaits, Stalls
from nri_coloc.pressure.judging import Judged, Verdict, Watch
from nri_coloc.pressure.ladder import AT_REST, Accused, Floor, Ladder, Step, Turn
from nri_coloc.pressure.population import LatestPopulation, Population
from nri_coloc.pressure.rounds import Reader, Rounds
from nri_coloc.pressure.turn_times import TurnTimes
from nri_coloc.pressure.verdict import Resource

TOLD_AGAIN_S: Final = 60.0
"""Seconds between two records of a verdict that lasts."""

_THROTTLE: Final = "throttle"


class Report(Recorder, Protocol):
    """Records decisions and refused writes."""

    def refused_by_kernel(self, failure: KernelInterfaceError, subject: str, state: NodeState) -> None: ...


class Pressure:
    """Judges and throttles; one thread calls `look`. `throttled` may be read by any thread."""

    def __init__(
        self, node: Node, reader: Reader, files: Files, report: Report, *, disk_stalls: Stalls
    ) -> None:
        self._node = node
        self._rounds = Rounds(reader)
        self.times = TurnTimes(DiskWaits(disk_stalls))
        """The time of the next turn."""
        self._files = files
        self._report = report
        self._watch: Watch = {}
        self._ladder: Ladder = AT_REST
        self._pods = LatestPopulation()
        self._devices: dict[str, tuple[str, ...]] = {}
        self._limited: dict[ladder.Key, Place] = {}
        self._told: dict[tuple[str, Resource, str], float] = {}
        self._former: set[tuple[Resource, str]] | None = None
        self.verdicts: tuple[Verdict, ...] = ()
        """Verdicts of the last turn, for the thread of `look`."""
        self.short_of_cpu: Mapping[str, int] = {}
        """The number of hurt readings in a row, by online pod that waits for CPU without a reclaimed culprit."""
        self.throttled: Mapping[str, Mapping[str, str]] = {}
        """Limits by pod id and knob, for people."""

    def look(self, now: float) -> None:
        """Take one turn; nothing before the runtime's first list."""
        if not self._node.told or not self.times.begin(now):
            return
        state, tuning = self._node.state, self._node.tuning
        pods = self._pods.of(state)
        self._take_over(pods, state)
        if not any(rung.judges for rung in judging.rungs(tuning.pressure).values()):
            self._watch, self.verdicts, self.short_of_cpu = {}, (), {}
            self.times.judged(None, {})
            self._climb(Judged({}, (), dict.fromkeys(Resource, frozenset())), state, tuning, now)
            return
        alarmed = self.times.alarmed(now) & pods.online.keys()
        seen = self._rounds.read(pods, self._watch, now, throttled=self._devices, alarmed=alarmed)
        seen = seen._replace(protected=self._ladder.victims)
        judged = judging.turn(self._watch, seen, tuning.pressure)
        self._watch, self.verdicts, self.short_of_cpu = judged.watch, judged.verdicts, judged.short_of_cpu
        acts = bool(pods.reclaimed) and Resource.IO in _floors(tuning)
        self.times.judged(judged if pods.reclaimed else None, pods.online if acts else {})
        self._climb(judged, state, tuning, now)

    def gave_no_relief(self, pod_id: str, resource: Resource, victim: str) -> bool:
        """Return whether the least limit of a pod gave another pod no relief within the last ten minutes."""
        return (pod_id, resource, victim) in self._ladder.in_vain

    def end(self) -> None:
        """Remove all limits after the last `look`: no process watches them after the daemon's end."""
        state = self._node.state
        for (pod_id, resource), one in self._ladder.throttled.items():
            action = ACTIONS[resource]
            if self._undo(pod_id, action, self._place(state, pod_id), state):
                said = words.of_end(pod_id, action, one.limit, Reason.UNWATCHED, "the daemon ends")
                self._report.decided((said,), state, state)
        self._ladder, self.throttled = AT_REST, {}

    # ---- the ladder ----

    def _climb(self, judged: Judged, state: NodeState, tuning: Tuning, now: float) -> None:
        accused: dict[Resource, list[Accused]] = {}
        for verdict in judged.verdicts:
            accused.setdefault(verdict.resource, []).extend(self._accused(verdict, judged, state))
        gone = {pod_id for pod_id, _ in self._ladder.throttled} - state.pods.keys()
        concerned = {pod_id for pod_id, _ in self._ladder.throttled} - gone
        concerned |= {one.pod_id for some in accused.values() for one in some}
        turn = Turn(
            at=now,
            accused=accused,
            hurt=judged.hurt,
            may=self._may(concerned, state),
            gone=gone,
            idle=self._idle(judged),
        )
        self._ladder, steps = ladder.climb(self._ladder, turn, _floors(tuning))
        self._tell(judged.verdicts, state, tuning, turn)
        for step in steps:
            self._carry_out(step, state, now)
        self._follow(state)
        kept = {pod_id for pod_id, _ in self._ladder.throttled}
        self._devices = {k: devices for k, devices in self._devices.items() if k in kept}
        self.throttled = {
            pod_id: {ACTIONS[resource].knob: ACTIONS[resource].words(one.limit)}
            for (pod_id, resource), one in self._ladder.throttled.items()
        }

    def _may(self, concerned: Iterable[str], state: NodeState) -> set[str]:
        """Return the pods that may be throttled: reclaimed pods whose `avoidance` allows that."""
        reclaimed = self._pods.of(state).reclaimed
        return {k for k in concerned if k in reclaimed and reclaimed[k].allows(_THROTTLE)}

    def _idle(self, judged: Judged) -> set[ladder.Key]:
        """Return the throttled pods whose use is far below their limit, and below that of any culprit."""
        found = set()
        for (pod_id, resource), one in self._ladder.throttled.items():
            newest = judged.newest(pod_id)
            use = None if newest is None else newest.use(resource, frozenset(self._devices.get(pod_id, ())))
            if use is not None and one.is_unused(use, judging.LEAST_RISES[resource]):
                found.add((pod_id, resource))
        return found

    def _accused(self, verdict: Verdict, judged: Judged, state: NodeState) -> Iterable[Accused]:
        """Yield the culprits of a verdict that can be limited, on the devices of all their victims."""
        action = ACTIONS.get(verdict.resource)
        for suspect in verdict.evidence.culprits if action is not None else ():
            pod_id = suspect.pod_id
            devices = tuple(sorted(verdict.devices.union(self._devices.get(pod_id, ()))))
            self._devices[pod_id] = devices
            newest = judged.newest(pod_id)
            if action is not None and newest is not None and action.is_possible(self._place(state, pod_id)):
                yield Accused(pod_id, verdict.victim, newest.fastest(devices))

    def _place(self, state: NodeState, pod_id: str) -> Place:
        return population.place(state, pod_id, self._devices.get(pod_id, ()))

    def _carry_out(self, step: Step, state: NodeState, now: float) -> None:
        action, place = ACTIONS[step.resource], self._place(state, step.pod_id)
        if step.limit is None:
            is_done = self._undo(step.pod_id, action, place, state)
        else:
            is_done = self._act((step.pod_id, step.resource), place, step.limit, state)
        if not is_done:
            self._ladder = ladder.refused(self._ladder, step, now)
            return
        self._record(step, place, state)

    def _follow(self, state: NodeState) -> None:
        """Limit devices and containers of throttled pods that were not there at the last step."""
        self._limited = {key: place for key, place in self._limited.items() if key in self._ladder.throttled}
        for key, one in self._ladder.throttled.items():
            place = self._place(state, key[0])
            if self._limited.get(key) != place and self._act(key, place, one.limit, state):
                self._record(ladder.again(key, one), place, state)

    def _record(self, step: Step, place: Place, state: NodeState) -> None:
        names = _names(state, (step.pod_id, *step.throttle.victims))
        self._report.decided((words.of_step(step, ACTIONS[step.resource], place, names),), state, state)

    def _act(self, key: ladder.Key, place: Place, limit: float, state: NodeState) -> bool:
        """Write a limit; return whether that changed a file."""
        pod_id, resource = key
        applied = ACTIONS[resource].act(self._files, place, limit)
        for failure in applied.failures:
            self._report.refused_by_kernel(failure, pod_id, state)
        if not applied.absent:
            self._limited[key] = place
        return bool(applied.corrected)

    def _undo(self, pod_id: str, action: Action, place: Place, state: NodeState) -> bool:
        """Take a limit back; return whether that worked."""
        failures = action.undo(self._files, place)
        for failure in failures:
            self._report.refused_by_kernel(failure, pod_id, state)
        return not failures

    def _take_over(self, pods: Population, state: NodeState) -> None:
        """Remove the limits that the previous process left. A refused removal is tried again in the next turn."""
        if self._former is None:
            self._former = {
                (resource, path) for resource, action in ACTIONS.items() for path in action.left(self._files)
            }
        self._former = {one for one in self._former if not self._is_taken_over(*one, pods, state)}

    def _is_taken_over(self, resource: Resource, path: str, pods: Population, state: NodeState) -> bool:
        """Remove one such limit; return whether it is gone, or replaced by a limit of this process."""
        action, owner = ACTIONS[resource], pods.owner(path)
        if (owner, resource) in self._ladder.throttled:
            return True
        if not self._undo(owner, action, Place(path, (path,)), state):
            return False
        if owner:
            said = words.of_end(owner, action, 0.0, Reason.UNWATCHED, "the previous process had set it")
            self._report.decided((said,), state, state)
        return True

    def _tell(self, verdicts: Iterable[Verdict], state: NodeState, tuning: Tuning, turn: Turn) -> None:
        """Record each verdict when it begins or has another first culprit, and once a minute while it lasts."""
        self._told = {k: at for k, at in self._told.items() if turn.at - at < TOLD_AGAIN_S}
        for verdict in verdicts:
            key = verdict.victim, verdict.resource, verdict.evidence.culprits[0].pod_id
            if key in self._told:
                continue
            self._told[key] = turn.at
            names = _names(state, (one.pod_id for one in verdict.evidence.culprits))
            qos = self._pods.of(state).online[verdict.victim].qos
            said = words.of_verdict(verdict, qos, names, self._next_action(verdict, tuning, turn))
            self._report.decided((said,), state, state)

    def _next_action(self, verdict: Verdict, tuning: Tuning, turn: Turn) -> str:
        """Return what follows a verdict, in words; if nothing does, why its first culprit is not throttled."""
        resource, culprits = verdict.resource, [one.pod_id for one in verdict.evidence.culprits]
        if resource not in ACTIONS:
            return "none"
        if tuning.observe:
            return "none in mode observe"
        if any((pod_id, resource) in self._ladder.throttled for pod_id in culprits):
            return ACTIONS[resource].name
        charge = culprits[0], verdict.victim
        accused = (one for one in turn.accused[resource] if (one.pod_id, one.victim) == charge)
        floor = _floors(tuning).get(resource)
        why = next((ladder.hindrance(resource, one, turn, floor, self._ladder) for one in accused), None)
        return f"none: {why or 'not possible'}"


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


def _names(state: NodeState, pod_ids: Iterable[str]) -> dict[str, str]:
    found = ((k, state.pods.get(k)) for k in pod_ids)
    return {k: place.pod.full_name for k, place in found if place is not None}
