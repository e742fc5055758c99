"""Find dedicated containers that wait for CPUs of their own, and place them again.

A container waits if it owns fewer CPUs than it asked for, by any cause: none were free when it was created, its CPUs
went offline, were reserved or pinned by the kubelet, or a resize could not be met. So no cause is remembered: after a
restart the record and the request show as much as before it.
"""

from itertools import chain
from typing import Final

from nri_coloc.core import cpuset
from nri_coloc.core.decisions import Moves, Outcome
from nri_coloc.core.reasons import Reason
from nri_coloc.core.settings import Tuning
from nri_coloc.core.state import DEDICATED, SHARE, Assignment, NodeState
from nri_coloc.core.value import replace
from nri_coloc.core.workload import Phase, QoSClass, Wish
from nri_coloc.placing import change, ownership, supply, words

MOST_TRIED: Final = 64
"""Different requests that one event tries without success.

A search takes about 0.1 ms under the mutex, and the authors of pods decide how many containers wait, and for which
CPUs.
"""


def missing(state: NodeState, assignment: Assignment) -> int:
    """Return how many CPUs of its own a running container waits for, 0 for none.

    A container that does not run yet is placed again at its start. An attempt that never starts should own no CPUs.
    """
    if assignment.qos is not QoSClass.DEDICATED or assignment.hands_off or assignment.follows:
        return 0
    if assignment.wish.init or assignment.container.phase is not Phase.RUNNING:
        return 0
    return max(0, ownership.due(state, assignment) - assignment.exclusive.bit_count())


def lack(state: NodeState, assignment: Assignment) -> str:
    """Return in words the CPUs that a container waits for, "" for none."""
    count = missing(state, assignment)
    if not count:
        return ""
    more = "more " if assignment.exclusive else ""
    return f"{count} {more}{'CPU' if count == 1 else 'CPUs'} of its own"


def of(state: NodeState) -> list[Assignment]:
    """Return the containers that wait, the oldest first.

    Runtimes before NRI 0.10 do not report the time of creation: there the order of admission counts.
    """
    found = chain(state.containers.of_pool(SHARE), state.containers.of_pool(DEDICATED))
    return sorted((a for a in found if missing(state, a)), key=_age)


def _age(assignment: Assignment) -> tuple[int, int, str]:
    return assignment.container.created_at, assignment.admitted_in, assignment.id


def placed_again(state: NodeState, tuning: Tuning, most_tried: int = MOST_TRIED) -> Outcome:
    """Place the oldest waiting pod again of which one container can have its CPUs now.

    most_tried: the largest number of different requests that are tried without success.
    """
    in_vain: set[tuple[Wish, int, int]] = set()
    waiting = of(state)
    for pod_id in dict.fromkeys(a.container.pod_id for a in waiting):
        outcome = Outcome(state)
        for one in waiting:
            if one.container.pod_id == pod_id:
                outcome += _placed(outcome.state, one.id, tuning, in_vain)
        if outcome.state is not state:
            return _moved(state, outcome)
        if len(in_vain) >= most_tried:
            break
    return Outcome(state)


def _placed(
    state: NodeState, container_id: str, tuning: Tuning, in_vain: set[tuple[Wish, int, int]]
) -> Outcome:
    """Place one container if its CPUs are free; requests that were tried `in_vain` are not tried again."""
    waiting = state.containers[container_id]
    count = missing(state, waiting)
    asked = (waiting.wish, count, waiting.exclusive)
    if not count or asked in in_vain or not supply.sources(state, waiting.wish, count):
        return Outcome(state)
    found = ownership.resized(state, waiting, tuning.reserved_memory)
    if found is None or not found.is_met:
        in_vain.add(asked)
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
