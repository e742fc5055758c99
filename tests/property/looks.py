"""What the properties of the placement look at: messages as bytes, a machine with less, a container's facts."""

from dataclasses import replace
from typing import Any

from nri_coloc.knobs import adjustment
from nri_coloc.model import cpuset
from nri_coloc.model.decisions import Outcome
from nri_coloc.model.topology import CPU, Topology
from nri_coloc.model.workload import Container
from nri_coloc.policy import admission, record
from tests.unit.policy.kit import EVERYTHING


def rendered(outcome: Outcome) -> list[bytes]:
    """Return every message that an outcome could send, as bytes."""
    state = outcome.state
    messages: list[Any] = [
        adjustment.creation(a.knobs, record.write(a), EVERYTHING)
        for d in outcome.decisions
        if (a := d.subject) and a.id in state.containers
    ]
    named = [(k, admission.orders(state, state.containers[k])) for k in outcome.moves.containers]
    messages += adjustment.updates(named, EVERYTHING)
    return [message.SerializeToString(deterministic=True) for message in messages]


def without_some(machine: Topology, gone: int) -> Topology:
    """Return the machine with some CPUs switched off, never all of them."""
    left = machine.online & ~gone or machine.online
    nodes = {c: n.id for n in machine.nodes for c in cpuset.members(n.cpus)}
    cores = {c: str(core) for core in machine.cores for c in cpuset.members(core)}
    cpus = [CPU(c, nodes[c], nodes[c], "", cores[c]) for c in cpuset.members(left)]
    return Topology.build(cpus, {n.id: n.memory_bytes for n in machine.nodes}, machine.isolated)


def as_before(now: Container, then: Container) -> Container:
    """Return a container without the news of how far it has come; a spec's CPUs are always ours, and no fact."""
    resources = replace(now.resources, cpus=then.resources.cpus)
    return replace(now, created_at=then.created_at, phase=then.phase, resources=resources)
