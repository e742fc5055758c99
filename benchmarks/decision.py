"""`decision.*`: the policy's step alone, at several sizes of machine.

`decision.SIZE`: every amount and its release in one row, half full and fragmented. `decision.SIZE.STATE.CPUS` and
`….release`: each alone, on a machine that is idle, half full without holes, or half full after churn.
"""

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
LARGE = (256, 768)
ASKED = (1, 2, 4, 16, 64)
ROUNDS = 400
SHARERS = 50
TUNING = Tuning()
DEDICATED = Wish(QoSClass.DEDICATED, "annotation coloc.nri.io/qos-class")
SHARED = Wish(QoSClass.SHARED, "default")


def run() -> dict[str, figures.Figures]:
    """Measure requests of all amounts that fit, and their release."""
    rows = {}
    for size in SIZES:
        admitted, released = _samples(fragmented(size), ASKED)
        rows[f"decision.{size}"] = figures.of([*admitted, *released])
    for size in LARGE:
        for name, filled in STATES.items():
            rows.update(_each(f"decision.{size}.{name}", filled(size)))
    return rows


def _each(name: str, state: NodeState) -> dict[str, figures.Figures]:
    rows, all_released = {}, []
    for asked in ASKED:
        admitted, released = _samples(state, (asked,))
        rows[f"{name}.{asked}"] = figures.of(admitted)
        all_released += released
    return {**rows, f"{name}.release": figures.of(all_released)}


def machine(size: int) -> Topology:
    """Return a two-socket machine with SMT, L3 groups of 16 CPUs and up to eight nodes."""
    nodes = min(8, max(1, size // 32))
    cpus = (CPU(i, i * 2 // size, i * nodes // size, f"l3-{i // 16}", f"core-{i // 2}") for i in range(size))
    return Topology.build(cpus, dict.fromkeys(range(nodes), 64 << 30))


def idle(size: int) -> NodeState:
    """Return a machine with sharers only."""
    state = pools.initial(machine(size), TUNING)
    for i in range(SHARERS):
        state = step(state, _creation(f"s{i}", 0, SHARED), TUNING).state
    return state


def half(size: int) -> NodeState:
    """Return a machine half of whose CPUs are owned, core by core and without holes."""
    state = idle(size)
    for i in range(size // 8):
        state = step(state, _creation(f"d{i}", 4, DEDICATED), TUNING).state
    return state


def fragmented(size: int) -> NodeState:
    """Return a machine half of whose CPUs are owned, after churn that left holes everywhere."""
    draw = random.Random(size)
    state = idle(size)
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


STATES = {"idle": idle, "half": half, "fragmented": fragmented}


def _samples(state: NodeState, amounts: tuple[int, ...]) -> tuple[list[int], list[int]]:
    """Return nanoseconds of each decision, and of each release."""
    admitted, released = [], []
    for asked in amounts:
        event = _creation("new", asked, DEDICATED)
        if asked >= state.pools.share.bit_count():
            continue
        for _ in range(ROUNDS):
            began = time.perf_counter_ns()
            outcome = step(state, event, TUNING)
            admitted.append(time.perf_counter_ns() - began)
            assert outcome.state.owners["new"].bit_count() == asked
            began = time.perf_counter_ns()
            step(outcome.state, ContainerGone("new"), TUNING)
            released.append(time.perf_counter_ns() - began)
    return admitted, released
