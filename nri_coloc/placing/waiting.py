"""Find dedicated containers that wait for CPUs of their own, and place them again.

The oldest pod comes first. Different requests that are tried without success are bounded. The first half of the bound
is for the oldest pods. The second half begins at another pod in each turn, so that no number of hopeless requests holds
back younger pods for good.

A container waits if it owns fewer CPUs than it asked for, by any cause: none were free when it was created, its CPUs
went offline, were reserved or pinned by the kubelet, or a resize could not be met. So no cause is remembered: after a
restart the record and the request show as much as before it.
"""

from itertools import chain
from typing import Final, NamedTuple

from nri_coloc.core import cpuset
from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.decisions import Moves, Outcome
from nri_coloc.core.reasons import Reason
from nri_coloc.core.settings import Tuning
from nri_coloc.core.state import DEDICATED, SHARE, Assignment, NodeState
from nri_coloc.core.texts import counted
from nri_coloc.core.value import replace
from nri_coloc.core.workload import Phase, QoSClass, Wish
from nri_coloc.placing import change, ownership, supply, words

MOST_TRIED: Final = 64
"""Different requests that one event tries without success.

A search takes about 0.1 ms under the mutex, and the authors of pods decide how many containers wait, and for which
CPUs.
"""

MOST_OF_A_POD: Final = 8
"""Of these, the most of one pod: with many containers each search takes longer."""


class Waiting(NamedTuple):
    """A container that waits, and the number of CPUs that it lacks."""

    assignment: Assignment
    cpus: int

    @property
    def request(self) -> "Request":
        """Return the facts that a search follows from."""
        return self.assignment.wish, self.cpus, self.assignment.exclusive


Request = tuple[Wish, int, CPUMask]


def missing(state: NodeState, assignment: Assignment) -> int:
    """Return how many CPUs of its own a running container waits for, 0 for none.

    A container that does not run yet is placed again at its start. An attempt that never starts should own no CPUs.
    """
    return _missing(state, assignment, None) if _may_wait(assignment) else 0


def _may_wait(assignment: Assignment) -> bool:
    if assignment.qos is not QoSClass.DEDICATED or assignment.hands_off or assignment.follows:
        return False
    return not assignment.wish.init and assignment.container.phase is Phase.RUNNING


def _missing(state: NodeState, assignment: Assignment, known: supply.Beside | None) -> int:
    return max(0, ownership.due(state, assignment, known) - assignment.exclusive.bit_count())


def lacks(state: NodeState) -> dict[str, str]:
    """Return in words the CPUs that containers wait for, by id."""
    return {one.id: _lack(one, count) for one, count in _all(state)}


def _lack(assignment: Assignment, count: int) -> str:
    more = "more " if assignment.exclusive else ""
    return f"{counted(count, f'{more}CPU')} of its own"


def of(state: NodeState) -> list[Assignment]:
    """Return the containers that wait, the oldest first.

    Runtimes before NRI 0.10 do not report the time of creation: there the order of admission counts.
    """
    return [one.assignment for one in _all(state)]


def _all(state: NodeState) -> list[Waiting]:
    """Return the containers that wait, the oldest first. The containers of a pod are looked through once."""
    pods: dict[str, supply.Beside] = {}
    found: list[Waiting] = []
    for one in chain(state.containers.of_pool(SHARE), state.containers.of_pool(DEDICATED)):
        if not _may_wait(one):
            continue
        pod_id = one.container.pod_id
        if pod_id not in pods:
            pods[pod_id] = supply.beside(state, pod_id)
        count = _missing(state, one, pods[pod_id])
        if count:
            found.append(Waiting(one, count))
    return sorted(found, key=lambda one: _age(one.assignment))


def _age(assignment: Assignment) -> tuple[int, int, str]:
    return assignment.container.created_at, assignment.admitted_in, assignment.id


def placed_again(state: NodeState, tuning: Tuning, most_tried: int = MOST_TRIED, turn: int = 0) -> Outcome:
    """Place the oldest waiting pod again of which one container can have its CPUs now.

    most_tried: the largest number of different requests that are tried without success.
    turn: the number of earlier turns without success.
    """
    in_vain: set[Request] = set()
    pods = [*_by_pod(state).values()]
    begins = turn % len(pods) if pods else 0
    found = _first_placed(state, pods, tuning, in_vain, most_tried // 2)
    if found.state is state:
        found = _first_placed(state, [*pods[begins:], *pods[:begins]], tuning, in_vain, most_tried)
    return found if found.state is state else _moved(state, found)


def _first_placed(
    state: NodeState, pods: list[list[Waiting]], tuning: Tuning, in_vain: set[Request], bound: int
) -> Outcome:
    """Place the first pod that can be placed; stop after so many requests that were tried `in_vain`."""
    for members in pods:
        outcome, most = Outcome(state), min(bound, len(in_vain) + MOST_OF_A_POD)
        for one in members:
            if len(in_vain) >= most:
                break
            outcome += _placed(outcome.state, _still(one, state, outcome.state), tuning, in_vain)
        if outcome.state is not state:
            return outcome
    return Outcome(state)


def _still(one: Waiting, before: NodeState, state: NodeState) -> Waiting:
    """Return a container as it waits after other containers of its pod were placed."""
    if state is before:
        return one
    known = state.containers[one.assignment.id]
    return Waiting(known, missing(state, known))


def turns(state: NodeState, most_tried: int = MOST_TRIED) -> int:
    """Return the number of turns after which each waiting pod was tried: one unless very many requests differ."""
    pods = _by_pod(state)
    requests = {one.request for members in pods.values() for one in members}
    return 1 if len(requests) < most_tried // 2 else len(pods)


def _by_pod(state: NodeState) -> dict[str, list[Waiting]]:
    """Return the containers that wait by pod, the pod with the oldest container first."""
    found: dict[str, list[Waiting]] = {}
    for one in _all(state):
        found.setdefault(one.assignment.container.pod_id, []).append(one)
    return found


def _placed(state: NodeState, one: Waiting, tuning: Tuning, in_vain: set[Request]) -> Outcome:
    """Place one container if its CPUs are free; requests that were tried `in_vain` are not tried again."""
    waiting, count = one
    if not count or one.request in in_vain or not supply.sources(state, waiting.wish, count):
        return Outcome(state)
    found = ownership.resized(state, waiting, tuning.reserved_memory)
    if found is None or not found.is_met:
        in_vain.add(one.request)
        return Outcome(state)
    after, joined = ownership.adopt(state, found.assignment)
    said = ownership.said(state, after, found, "CPUs are free now")
    findings = words.of_findings(found.findings, found.assignment)
    return Outcome(after, (said._replace(reason=Reason.CPUS_FREED), *findings, *joined))


def _moved(before: NodeState, outcome: Outcome) -> Outcome:
    """Return the outcome with its moves: the new owners wait until all other containers have left their CPUs."""
    after = outcome.state
    owners = [d.subject for d in outcome.decisions if d.reason is Reason.CPUS_FREED and d.subject is not None]
    moves = change.moved(before, after)
    pod_id = owners[0].container.pod_id
    own = {a.id for a in after.of_pod(pod_id) if a.exclusive or a.follows}
    others = Moves(
        tuple(k for k in moves.pods if k != pod_id), tuple(k for k in moves.containers if k not in own)
    )
    where = ", ".join(f"{a.container.name} owns CPUs {cpuset.render(a.exclusive)}" for a in owners)
    place = after.pods[pod_id].pod
    cause = f"pool resized: in {place.namespace}/{place.name} {where}"
    resized = change.pool_decisions(before, after, Reason.CPUS_TAKEN, cause)
    return replace(outcome, decisions=(*outcome.decisions, *resized), moves=moves, waits_for=others)
