"""`decision.*`: the policy's step alone, at several sizes of machine, half full and fragmented."""

import random
import time

from benchmarks import figures
from nri_coloc.model.events import ContainerCreating, ContainerGone
from nri_coloc.model.state import NodeState
from nri_coloc.model.topology import CPU, Topology
from nri_coloc.model.tuning import Tuning
from nri_coloc.model.workload import Container, Pod, QoSClass, Resources, Wish
from nri_coloc.policy import pools
from nri_coloc.policy.step import step

SIZES = (8, 64, 256, 768)
ASKED = (1, 2, 4, 16, 64)
ROUNDS = 400
SHARERS = 50
TUNING = Tuning()
DEDICATED = Wish(QoSClass.DEDICATED, "annotation coloc.nri.io/qos-class")
SHARED = Wish(QoSClass.SHARED, "default")


def run() -> dict[str, figures.Figures]:
    """Measure one row a size: requests of all amounts that fit, and their release."""
    return {f"decision.{size}": _row(size) for size in SIZES}


def machine(size: int) -> Topology:
    """Return a two-socket machine with SMT, L3 groups of 16 CPUs and up to eight nodes."""
    nodes = min(8, max(1, size // 32))
    cpus = (CPU(i, i * 2 // size, i * nodes // size, f"l3-{i // 16}", f"core-{i // 2}") for i in range(size))
    return Topology.build(cpus, dict.fromkeys(range(nodes), 64 << 30))


def fragmented(size: int) -> NodeState:
    """Return a machine half of whose CPUs are owned, after churn that left holes everywhere."""
    draw = random.Random(size)
    state = pools.initial(machine(size), TUNING)
    for i in range(SHARERS):
        state = step(state, _creation(f"s{i}", 0, SHARED), TUNING).state
    owners = []
    i = 0
    while state.pools.dedicated.bit_count() < size * 3 // 4:
        state = step(state, _creation(f"d{i}", draw.choice((1, 1, 2, 3)), DEDICATED), TUNING).state
        owners.append(f"d{i}")
        i += 1
    draw.shuffle(owners)
    while state.pools.dedicated.bit_count() > size // 2:
        state = step(state, ContainerGone(owners.pop()), TUNING).state
    return state


def _creation(name: str, cpus: int, wish: Wish) -> ContainerCreating:
    container = Container(name, f"pod-{name}", "app", resources=Resources(shares=cpus * 1024 or 512))
    return ContainerCreating(Pod(f"pod-{name}", name=name), container, wish)


def _row(size: int) -> figures.Figures:
    state = fragmented(size)
    samples = []
    for asked in ASKED:
        event = _creation("new", asked, DEDICATED)
        if asked >= state.pools.share.bit_count():
            continue
        for _ in range(ROUNDS):
            began = time.perf_counter_ns()
            outcome = step(state, event, TUNING)
            samples.append(time.perf_counter_ns() - began)
            assert outcome.state.owners["new"].bit_count() == asked
            began = time.perf_counter_ns()
            step(outcome.state, ContainerGone("new"), TUNING)
            samples.append(time.perf_counter_ns() - began)
    return figures.of(samples)
