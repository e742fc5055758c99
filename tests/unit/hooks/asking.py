"""A pod that asks for CPUs of its own, and the hooks of its containers."""

from typing import Any

from nri_coloc._pb import told_pb2
from nri_coloc.core.decisions import PodResized
from nri_coloc.core.settings import Tuning
from nri_coloc.core.state import Assignment, NodeState
from nri_coloc.nri.calls import HookKind
from nri_coloc.nri.events import Hook
from tests.unit.hooks.hook_messages import TUNING, hook, synchronized
from tests.unit.parts import Requests, a_node, a_translator


class Asking:
    """A pod that asks for CPUs of its own, on a node whose pod cgroups hold these requests."""

    def __init__(self, requests: Requests, *, qos: str = "dedicated", tuning: Tuning = TUNING) -> None:
        self.requests, self.tuning = requests, tuning
        self.translator, self.node = a_translator(tuning, requests), a_node(tuning)
        self.run = hook(HookKind.RUN_POD_SANDBOX, qos)
        self.run.pod.linux.cgroup_parent = "/kubepods/burstable/podu"

    def started(self) -> "Asking":
        self.node.decide(self.translator.pod_started(self.run, self.tuning))
        return self

    def container(self, name: str, shares: int) -> Hook:
        told = hook(HookKind.CREATE_CONTAINER)
        assert told.container is not None
        told.container.id, told.container.name = name, name
        told.container.linux.resources.cpu.shares.value = shares
        return told._replace(pod=self.run.pod)

    def create(self, name: str = "c", shares: int = 2048) -> Assignment:
        event = self.translator.creating(self.container(name, shares), self.node.state, self.tuning)
        return self.node.decide(event).state.containers[name]

    def update(self, name: str, shares: int, memory_limit: int = 0) -> Assignment:
        wanted = told_pb2.LinuxResources()
        wanted.cpu.shares.value = shares
        if memory_limit:
            wanted.memory.limit.value = memory_limit
        told = self.container(name, shares)._replace(resources=wanted)
        event = self.translator.updating(told, self.node.state, self.tuning)
        return self.node.decide(event).state.containers[name]

    def resize_pod(self, told: int | None = None) -> PodResized | None:
        resources = None
        if told is not None:
            resources = told_pb2.LinuxResources()
            resources.cpu.shares.value = told
        event = self.translator.pod_resized(self.run._replace(resources=resources), self.node.state, TUNING)
        if event is not None:
            self.node.decide(event)
        return event

    def listed(self, *containers: Any, state: NodeState | None = None) -> Any:
        """List the pod with these containers; return the event."""
        known = self.node.state if state is None else state
        return synchronized(self.translator, [self.run.pod], containers, known, self.tuning)

    @property
    def owned(self) -> int:
        """Return how many CPUs the pod's containers own."""
        return sum(each.exclusive.bit_count() for each in self.node.state.of_pod("p"))

    @property
    def request(self) -> int | None:
        return self.node.state.pods["p"].pod.cpu_request
