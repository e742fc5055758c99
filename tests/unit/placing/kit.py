"""Machines, pods and containers in a few words, and a node that handles events one by one.

The node also plays the part of the runtime that the policy can see: a container's spec after our answer, and the
record that comes back with it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from nri_coloc.core import cpuset
from nri_coloc.core.decisions import (
    AmountsGranted,
    ContainerCreating,
    ContainerGone,
    ContainerStarting,
    ContainerUpdating,
    CPUsFreed,
    Decision,
    Event,
    Moves,
    Outcome,
    PodRemoved,
    PodResized,
    PodStarted,
    Reconfigured,
    Synchronized,
)
from nri_coloc.core.knobs import Capability, Knobs
from nri_coloc.core.settings import Tuning
from nri_coloc.core.state import Assignment, NodeState
from nri_coloc.core.topology import Topology
from nri_coloc.core.workload import Container, Numa, Phase, Pod, QoSClass, Resources, Wish
from nri_coloc.nri.codec import creation
from nri_coloc.placing import admission, pools, record
from nri_coloc.placing.node import step
from nri_coloc.placing.update import merge
from nri_coloc.service.audit import Record, pod_of
from nri_coloc.service.report import recorded
from nri_coloc.sim import machines

KEY = "coloc.nri.io/qos-class"
DEDICATED = Wish(QoSClass.DEDICATED, f"annotation {KEY}")
SHARED = Wish(QoSClass.SHARED, "Kubernetes QoS Burstable")
RECLAIMED = Wish(QoSClass.RECLAIMED, "Kubernetes QoS BestEffort", knobs=Knobs(shares=2, oom_score_adj=1000))
SYSTEM = Wish(QoSClass.SYSTEM, "namespace kube-system")

EVERYTHING = Capability(
    2,
    frozenset({"memory.high", "memory.low", "memory.min", "io.weight", "io.bfq.weight", "cpu.max.burst"}),
    resctrl=True,
)


@cache
def machine(name: str = "8cpu") -> Topology:
    """Return a named machine; "8cpu" has cores 0-1, 2-3, 4-5, 6-7 on two sockets, a node each."""
    return machines.topology(machines.MACHINES[name])


def asking(milli: int, **values: Any) -> Resources:
    """Return the resources that the kubelet writes for a CPU request, milli-CPU."""
    return Resources(shares=max(2, milli * 1024 // 1000), **values)


def container(name: str, pod_id: str = "web", milli: int = 0, **facts: Any) -> Container:
    """Return a container whose id is its name."""
    return Container(name, pod_id, name, resources=facts.pop("resources", asking(milli)), **facts)


def pod(name: str = "web", **facts: Any) -> Pod:
    """Return a pod whose id is its name."""
    return Pod(name, f"uid-{name}", name, "shop", cgroup_parent=f"/kubepods/pod{name}", **facts)


class Node:
    """A state that each event replaces; every method returns the whole outcome."""

    def __init__(
        self, name: str = "8cpu", tuning: Tuning | None = None, state: NodeState | None = None
    ) -> None:
        self.tuning = tuning or Tuning()
        self.state = state or pools.initial(machine(name), self.tuning)
        self.listed: dict[str, Container] = {}
        self.clock = 0
        self.requests: dict[str, int] = {}

    # ---- events ----

    def happen(self, event: Event) -> Outcome:
        outcome = step(self.state, event, self.tuning)
        self.state = outcome.state
        return outcome

    def pod(self, name: str) -> Pod:
        """Return a pod with the CPU request that its cgroup shows."""
        return pod(name, cpu_request=self.requests.get(name))

    def push(self) -> None:
        """Bring the runtime's specs to the ordered CPUs, as the pusher does in time."""
        for name, listed in self.listed.items():
            cpus = admission.orders(self.state, self[name]).cpus
            if cpus is not None:
                self.listed[name] = replace(listed, resources=replace(listed.resources, cpus=cpus))

    def create(
        self, name: str, milli: int = 0, wish: Wish = DEDICATED, on: str = "web", **facts: Any
    ) -> Outcome:
        asked = container(name, on, milli, **facts)
        outcome = self.happen(ContainerCreating(self.pod(on), asked, wish))
        if name in self.state.containers:
            self.clock += 1
            created = replace(asked, created_at=self.clock)
            self.listed[name] = as_listed(created, self.state.containers[name])
        return outcome

    def attempt(self, container_id: str, name: str, milli: int = 2000, on: str = "web") -> Outcome:
        """Create one attempt of a container; every attempt has an id of its own."""
        asked = replace(container(container_id, on, milli), name=name)
        outcome = self.happen(ContainerCreating(self.pod(on), asked, DEDICATED))
        self.listed = {k: c for k, c in self.listed.items() if k in self.state.containers}
        self.listed[container_id] = as_listed(asked, self.state.containers[container_id])
        return outcome

    def start(
        self, name: str, *, running: bool = False, wish: Wish = DEDICATED, on: str = "web", **facts: Any
    ) -> Outcome:
        if running and name in self.listed:
            self.listed[name] = replace(self.listed[name], phase=Phase.RUNNING)
        started = container(name, on, pid=7, **facts)
        return self.happen(ContainerStarting(self.pod(on), started, wish, running))

    def update(
        self, name: str, requested: Resources, wish: Wish = DEDICATED, on: str = "web", **facts: Any
    ) -> Outcome:
        listed = self.listed.get(name, container(name, on))
        outcome = self.happen(ContainerUpdating(self.pod(listed.pod_id), listed, wish, requested, **facts))
        if name in self.listed:
            spec, ours = merge(listed.resources, requested), outcome.orders_for(name)
            self.listed[name] = replace(listed, resources=_with_ours(spec, ours))
        return outcome

    def grant(self, amounts: dict[str, Knobs], because: str = "loan changed: half of it is there") -> Outcome:
        """Change the granted part of loans, and push it into the runtime's specs."""
        outcome = self.happen(AmountsGranted(amounts, because))
        for decision in outcome.decisions:
            if decision.subject is not None and decision.subject.id in self.listed:
                listed = self.listed[decision.subject.id]
                spec = _with_ours(listed.resources, decision.after)
                self.listed[listed.id] = replace(listed, resources=spec)
        return outcome

    def run(
        self, name: str, milli: int = 0, wish: Wish = DEDICATED, on: str = "web", **facts: Any
    ) -> Outcome:
        """Create a container and let it run; return the outcome of the creation."""
        outcome = self.create(name, milli, wish, on, **facts)
        self.start(name, running=True, wish=wish, on=on, created_at=self.clock)
        return outcome

    def free(self) -> Outcome:
        """Give the pods that wait for CPUs a second chance."""
        return self.happen(CPUsFreed())

    def stop(self, name: str, *, removed: bool = False) -> Outcome:
        self.listed.pop(name, None)
        return self.happen(ContainerGone(name, removed))

    def start_pod(self, name: str = "web", wish: Wish = RECLAIMED) -> Outcome:
        return self.happen(PodStarted(self.pod(name), wish))

    def resize_pod(self, name: str, milli: int, **wishes: Wish) -> Outcome:
        """Let the kubelet write another CPU request into the pod's cgroup; wishes: of containers with another class."""
        self.requests[name] = milli
        return self.happen(PodResized(self.pod(name), wishes))

    def remove_pod(self, name: str = "web") -> Outcome:
        self.listed = {k: c for k, c in self.listed.items() if c.pod_id != name}
        return self.happen(PodRemoved(name))

    def synchronize(self) -> Outcome:
        return self.happen(self.listing())

    def reconfigure(
        self,
        tuning: Tuning | None = None,
        wishes: dict[str, Wish] | None = None,
        pod_wishes: dict[str, Wish] | None = None,
        topology: Topology | None = None,
    ) -> Outcome:
        self.tuning = tuning or self.tuning
        return self.happen(Reconfigured(topology or self.state.topology, wishes or {}, pod_wishes or {}))

    # ---- results ----

    def listing(self) -> Synchronized:
        """Return the runtime's list: its specs with our values, and our records."""
        return Synchronized(
            tuple((place.pod, place.wish) for place in self.state.pods.values()),
            tuple((c, self.state.containers[k].wish) for k, c in self.listed.items()),
        )

    def anew(self) -> "Node":
        """Return the node of a restarted plugin that got the runtime's list."""
        other = Node(tuning=self.tuning, state=pools.initial(self.state.topology, self.tuning))
        other.listed = dict(self.listed)
        other.happen(self.listing())
        return other

    def __getitem__(self, name: str) -> Assignment:
        return self.state.containers[name]

    def cpus(self, name: str) -> str:
        return cpuset.render(self.state.cpus_of(self[name]))

    def pool(self, name: str) -> str:
        return cpuset.render(self.state.pools.cpus(name))

    def owners(self) -> dict[str, str]:
        return {k: cpuset.render(mask) for k, mask in self.state.owners.items()}


def peopled() -> Node:
    """Return a node with a container in every pool.

    An owner has a sidecar, one container has a memory limit, and one is bound to a memory node.
    """
    node = Node("4node")
    node.start_pod("jobs")
    node.create("batch", wish=RECLAIMED, on="jobs", oom_score_adj=900)
    node.create("online", 500, replace(SHARED, knobs=Knobs(memory_limit=512)), on="shop")
    node.create("agent", wish=SYSTEM, on="agents")
    node.create("side", 100)
    node.create("main", 2000)
    node.create("other", 1000, on="other")
    node.create("bound", 2000, replace(DEDICATED, numa=Numa.SINGLE, numa_ids=0b100), on="bound")
    return node


def as_listed(asked: Container, assignment: Assignment) -> Container:
    """Return a created container as the runtime lists it: its spec with our values, and our record."""
    ours = assignment.knobs
    resources = _with_ours(asked.resources, ours)
    score = asked.oom_score_adj if ours.oom_score_adj is None else ours.oom_score_adj
    return replace(asked, resources=resources, oom_score_adj=score, record=record.write(assignment))


def _with_ours(spec: Resources, ours: Knobs) -> Resources:
    return Resources(
        shares=ours.shares or spec.shares,
        quota=ours.quota or spec.quota,
        period=ours.period or spec.period,
        cpus=ours.cpus or spec.cpus,
        mems=ours.mems or spec.mems,
        memory_limit=ours.memory_limit or spec.memory_limit,
    )


def reply(outcome: Outcome, name: str) -> bytes:
    """Return the bytes that answer a creation."""
    assignment = outcome.state.containers[name]
    answer = creation(assignment.knobs, record.write(assignment), EVERYTHING)
    return answer.SerializeToString(deterministic=True)


def audit(outcome: Outcome, before: NodeState | None = None) -> list[Record]:
    """Return the audit's records of an outcome, as the daemon writes them."""
    state = outcome.state
    return [recorded(d, pod_of(d, state, before), state.topology, "d1", None) for d in outcome.decisions]


def record_lines(outcome: Outcome, before: NodeState | None = None) -> list[dict[str, Any]]:
    """Return the lines of the audit for an outcome, with the fields that its sentence is checked by."""
    return [
        {"event": r.event.value, "reason": r.reason.value, "because": r.because, **r.extra}
        for r in audit(outcome, before)
    ]


def figures(outcome: Outcome, at: int = 0) -> Mapping[str, Any]:
    """Return the figures of one of the records of an outcome."""
    found: Mapping[str, Any] = audit(outcome)[at].extra.get("inputs", {})
    return found


def first(outcome: Outcome) -> Decision:
    return outcome.decisions[0]


def said(outcome: Outcome) -> list[tuple[str, str]]:
    """Return the (event, reason) of each decision."""
    return [(d.event.value, d.reason.value) for d in outcome.decisions]


def moved(outcome: Outcome) -> tuple[set[str], set[str]]:
    """Return the pods and the containers that must move."""
    return everyone_in(outcome.moves)


def everyone_in(moves: Moves) -> tuple[set[str], set[str]]:
    return set(moves.pods), set(moves.containers)


def mask(text: str) -> int:
    return cpuset.parse(text)


def texts(masks: Iterable[int]) -> list[str]:
    return [cpuset.render(m) for m in masks]
