"""What was said already of annotations that do not count: of each once, however many containers of the pod read it.

The words are what is compared, without what holds instead: that may differ by container, and follows the settings.
A container's own key has its name in it, so it is said for that container. Kept with the pod's place, the words go
with the pod; a daemon that begins anew says them once again.
"""

from dataclasses import replace
from typing import Final

from nri_coloc.model.state import NodeState, PodPlace
from nri_coloc.model.workload import Finding
from nri_coloc.policy import change

MOST: Final = 64
"""Of one pod: it is its author who decides how much there is to be said. Beyond it the oldest may be said again."""


def of(state: NodeState, pod_id: str, findings: tuple[Finding, ...]) -> tuple[NodeState, tuple[Finding, ...]]:
    """Return what of a container's findings its pod was not told yet, and the state in which it was."""
    place = state.pods.get(pod_id)
    if not findings or place is None:
        return state, findings
    new = tuple(finding for finding in findings if _words(finding) not in place.told)
    if not new:
        return state, ()
    told = (*place.told, *map(_words, new))[-MOST:]
    return change.with_pod(state, replace(place, told=told)), new


def forgotten(state: NodeState) -> NodeState:
    """Return the state without words that hold for no container any more: should they hold again, they are news."""
    if not any(place.told for place in state.pods.values()):
        return state
    return change.with_all_pods(state, {k: _still(state, k, place) for k, place in state.pods.items()})


def _still(state: NodeState, pod_id: str, place: PodPlace) -> PodPlace:
    holding = {_words(finding) for member in state.of_pod(pod_id) for finding in member.wish.findings}
    return replace(place, told=tuple(words for words in place.told if words in holding))


def _words(finding: Finding) -> Finding:
    return replace(finding, used="")
