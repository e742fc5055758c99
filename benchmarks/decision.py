"""`decision.*`: the policy's step alone, at several sizes of machine.

`decision.SIZE`: every amount and its release in one row, half full and fragmented. `decision.SIZE.STATE.CPUS` and
`….release`: each alone, on a machine that is idle, half full without holes, or half full after churn.
`decision.grow.SIZE` and `….shrink.SIZE`: an in-place resize of an owner among the fragments, by 1 to 16 CPUs.
`decision.pools.SIZE.member`, `….dedicated`, `….release`: where twelve teams have pools; a member grows its team's.
`decision.repin.10of100` and `….10of1000`: CPUs are taken from a pool of ten, among so many containers.
"""

import random
import time

from benchmarks import figures
from nri_coloc.core.decisions import ContainerCreating, ContainerGone, ContainerUpdating, Event
from nri_coloc.core.settings import PoolTuning, Tuning
from nri_coloc.core.state import NodeState
from nri_coloc.core.topology import CPU, Topology
from nri_coloc.core.workload import Container, Pod, QoSClass, Resources, Wish
from nri_coloc.placing import pools
from nri_coloc.placing.node import step

SIZES = (8, 64, 256, 768)
LARGE = (256, 768)
ASKED = (1, 2, 4, 16, 64)
ROUNDS = 400
SHARERS = 50
TEAMS = 12
AFFECTED = 10
CROWDS = (100, 1000)
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
        rows.update(_resized(size))
        rows.update(_with_pools(size))
    for crowd in CROWDS:
        rows[f"decision.repin.{AFFECTED}of{crowd}"] = _repinned(crowd)
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
    """Return a machine with shared containers only."""
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


def with_pools(size: int) -> tuple[NodeState, Tuning]:
    """Return a machine with a pool for each of twelve teams, whose members ask for a quarter of it, a pool of a fixed
    size, and owners of another quarter between them."""
    plan = (PoolTuning("team", group_by="namespace"), PoolTuning("gold", minimum=size // 16, priority=5))
    tuning = Tuning(pools=plan)
    state = pools.initial(machine(size), tuning)
    for i in range(size // 4):
        state = step(state, _creation(f"d{i}", 1 + i % 2, DEDICATED), tuning).state
        member = _creation(f"m{i}", 1, _member(f"team/t{i % TEAMS}"))
        state = step(state, member, tuning).state
        if i % 3 == 0:
            state = step(state, ContainerGone(f"d{i}"), tuning).state
    return state, tuning


def _member(pool: str) -> Wish:
    return Wish(QoSClass.SHARED, "default", pool=pool)


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


def _timed(state: NodeState, event: Event, tuning: Tuning, samples: list[int]) -> NodeState:
    """Return the state after an event, and note how many nanoseconds it took."""
    began = time.perf_counter_ns()
    outcome = step(state, event, tuning)
    samples.append(time.perf_counter_ns() - began)
    return outcome.state


def _resized(size: int) -> dict[str, figures.Figures]:
    state = step(fragmented(size), _creation("new", 4, DEDICATED), TUNING).state
    grown: list[int] = []
    shrunk: list[int] = []
    for turn in range(ROUNDS):
        more = 4 + 2 ** (turn % 5)
        grew = _timed(state, _update(state, more), TUNING, grown)
        assert grew.owners["new"].bit_count() == more
        shrank = _timed(grew, _update(grew, 4), TUNING, shrunk)
        assert shrank.owners["new"].bit_count() == 4
    return {f"decision.grow.{size}": figures.of(grown), f"decision.shrink.{size}": figures.of(shrunk)}


def _update(state: NodeState, cpus: int) -> ContainerUpdating:
    known = state.containers["new"]
    place = state.pods[known.container.pod_id]
    return ContainerUpdating(place.pod, known.container, known.wish, Resources(shares=cpus * 1024))


def _with_pools(size: int) -> dict[str, figures.Figures]:
    state, tuning = with_pools(size)
    joined: list[int] = []
    admitted: list[int] = []
    released: list[int] = []
    for turn in range(ROUNDS):
        team = f"team/t{turn % TEAMS}"
        with_member = _timed(state, _creation("new", 1 + turn % 4, _member(team)), tuning, joined)
        assert with_member.pools.cpus(team).bit_count() > state.pools.cpus(team).bit_count()
        _timed(with_member, ContainerGone("new"), tuning, released)
        owned = _timed(state, _creation("new", 1 + turn % 4, DEDICATED), tuning, admitted)
        assert "new" in owned.owners
        _timed(owned, ContainerGone("new"), tuning, released)
    rows = {"member": joined, "dedicated": admitted, "release": released}
    return {f"decision.pools.{size}.{name}": figures.of(samples) for name, samples in rows.items()}


def _repinned(crowd: int) -> figures.Figures:
    """Take a CPU from `share`, which has ten containers, and return it; all others live in a pool of their own."""
    tuning = Tuning(pools=(PoolTuning("gold", minimum=128, maximum=128),))
    state = pools.initial(machine(256), tuning)
    for i in range(crowd):
        wish = SHARED if i < AFFECTED else _member("gold")
        state = step(state, _creation(f"s{i:x}", 0, wish), tuning).state
    samples: list[int] = []
    for _ in range(ROUNDS):
        owned = _timed(state, _creation("new", 1, DEDICATED), tuning, samples)
        _timed(owned, ContainerGone("new"), tuning, samples)
    return figures.of(samples)
