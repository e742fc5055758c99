"""Read the requests of pods again from time to time: perhaps no hook has reported that one fell.

The kubelet writes a lower request into the pod's cgroup after it has updated the containers, and a runtime without
UpdatePodSandbox reports no change of a pod. Without a look a daemon that restarts in between would leave the CPUs of
the former request to their owner, and its memory protected. So it would where a pod's own resources shrink (pod-level
resources).
"""

from functools import partial
from typing import Final, Protocol

from nri_coloc.core.decisions import Outcome, PodResized
from nri_coloc.core.seams import After, all_of, tell
from nri_coloc.core.settings import Tuning
from nri_coloc.core.state import NodeState
from nri_coloc.core.workload import Pod
from nri_coloc.placing import supply
from nri_coloc.placing.node import Node

EVERY_S: Final = 10.0
"""Seconds between two looks. A look reads one or two small files for each pod whose request counts."""


class Reader(Protocol):
    """Reads the request in a pod's cgroup (`Translator.lower_request`)."""

    def lower_request(self, pod: Pod, state: NodeState, tuning: Tuning) -> PodResized | None: ...


class RequestsAgain:
    """Takes over lower CPU requests and all memory requests; on the housekeeping thread."""

    def __init__(self, node: Node, reader: Reader, after: After) -> None:
        self._node = node
        self._reader = reader
        self._follow = partial(tell, after)
        self._next_at = 0.0

    def look(self, now: float) -> None:
        """Take over the requests that fell, if it is time."""
        if now < self._next_at:
            return
        self._next_at = now + EVERY_S
        state, tuning = self._node.state, self._node.tuning
        for place in state.pods.values():
            pod = place.pod
            counts = supply.needs_request(place.wish, tuning) or supply.has_owner(state, pod.id)
            is_bound = pod.memory_request is not None and supply.has_memory(state, pod.id)
            if (pod.cpu_request and counts) or is_bound:
                self._take_over(pod)

    def _take_over(self, pod: Pod) -> None:
        before = self._node.state
        event = self._reader.lower_request(pod, before, self._node.tuning)
        if event is None:
            return

        def is_newest(_outcome: Outcome) -> bool:
            place = self._node.state.pods.get(pod.id)
            return place is not None and place.pod is pod  # else a hook has been faster

        outcome = self._node.decide_if(event, is_newest)
        if outcome is not None:
            self._follow(all_of(outcome, before))
