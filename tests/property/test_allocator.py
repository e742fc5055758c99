"""Invariants of every choice of CPUs, on every machine and with any free CPUs."""

from hypothesis import assume, given
from hypothesis import strategies as st

from nri_coloc.core import cpuset
from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.decisions import Room
from nri_coloc.core.reasons import Reason
from nri_coloc.core.topology import Topology
from nri_coloc.core.workload import Numa, Placement, QoSClass, Wish
from nri_coloc.placing import allocator, search
from nri_coloc.placing.search import Field
from nri_coloc.sim import machines
from tests.property.strategies import TOPOLOGIES, WISHES

BOUND = Wish(QoSClass.DEDICATED, numa=Numa.SINGLE)
PACKED = Wish(QoSClass.DEDICATED)
FULL = Wish(QoSClass.DEDICATED, placement=Placement.FULL_CORES)
ONE_EACH = Wish(QoSClass.DEDICATED, placement=Placement.ONE_THREAD_PER_CORE)


@st.composite
def problems(draw: st.DrawFn) -> tuple[Topology, CPUMask, int]:
    """Draw a machine, its free CPUs, and a number that can often be placed."""
    machine = draw(TOPOLOGIES)
    some = machine.usable & draw(st.integers(0, machine.usable))
    free = draw(st.sampled_from((machine.usable, some))) or machine.usable
    return machine, free, draw(st.integers(1, max(1, free.bit_count())))


def taken(machine: Topology, free: CPUMask, count: int, wish: Wish = PACKED) -> CPUMask:
    grant = allocator.allocate(machine, free, count, wish)
    return grant.cpus if grant else 0


def whole_cores(machine: Topology, free: CPUMask) -> CPUMask:
    return cpuset.of(c for core in machine.cores if core & free == core for c in cpuset.members(core))


def of_one_kind(machine: Topology, free: CPUMask, count: int) -> CPUMask:
    """Return the CPUs that the choice is from: one kind of core, if it has enough."""
    return next((free & kind for kind in machine.kinds if (free & kind).bit_count() >= count), free)


@given(problems(), WISHES)
def test_a_grant_is_exact_free_and_repeatable(problem, wish):
    machine, free, count = problem
    grant = allocator.allocate(machine, free, count, wish)
    assert grant == allocator.allocate(machine, free, count, wish)
    if grant is not None:
        assert grant.cpus & free == grant.cpus
        assert grant.cpus.bit_count() == count


@given(problems())
def test_whatever_is_free_in_number_can_be_had_without_a_wish(problem):
    assert taken(*problem).bit_count() == problem[2]


@given(problems())
def test_one_node_serves_where_one_holds_it(problem):
    machine, free, count = problem
    assume(machine.keeps_cores(machine.node_level))
    free = of_one_kind(*problem)
    if any((n.cpus & free).bit_count() >= count for n in machine.nodes):
        assert machine.nodes_of(taken(*problem)).bit_count() == 1


@given(problems())
def test_no_smaller_node_that_serves_as_well_was_passed_over(problem):
    """Tightest fit: a node with fewer free CPUs was passed over only if it lacks whole cores, or a narrow
    group that holds them all where the chosen node has one."""
    machine, free, count = problem
    free = of_one_kind(*problem)
    chosen = taken(*problem)
    homes = [n.cpus & free for n in machine.nodes if n.cpus & chosen]
    assume(len(homes) == 1)
    threads = machine.threads_per_core
    for node in machine.nodes:
        rival = node.cpus & free
        if count >= threads and count <= rival.bit_count() < homes[0].bit_count():
            cores_short = whole_cores(machine, rival).bit_count() < count - count % threads
            assert cores_short or any(chosen & ~group == 0 for level in machine.near[1:] for group in level)


@given(problems())
def test_whole_cores_go_first_where_enough_exist(problem):
    machine, free, count = problem
    threads = machine.threads_per_core
    # where cores differ, "whole" is ambiguous
    assume({core.bit_count() for core in machine.cores} == {threads} and count % threads == 0)
    assume(machine.keeps_cores(machine.node_level) and all(map(machine.keeps_cores, [machine.kinds])))
    free = of_one_kind(*problem)
    chosen = taken(*problem)
    home = [n.cpus & free for n in machine.nodes if (n.cpus & free).bit_count() >= count] or [free]
    if any(whole_cores(machine, part).bit_count() >= count for part in home):
        assert whole_cores(machine, chosen) == chosen


@given(st.sampled_from(("8cpu", "4node", "laptop-no-numa")), st.integers(1, 0xFFFF))
def test_one_cpu_breaks_no_whole_core_while_a_broken_one_serves(name, some):
    machine = machines.topology(machines.MACHINES[name])
    free = machine.usable & some or machine.usable
    whole = whole_cores(machine, free)
    assert bool(taken(machine, free, 1) & whole) is (whole == free)


@given(problems(), st.integers(1, 16), st.integers(0, 4))
def test_a_resize_divides_a_core_only_if_it_must(problem, count, offline):
    machine, free, first = problem
    owned = taken(machine, free, first, FULL)
    rest = free & ~owned & ~cpuset.lowest(free & ~owned, offline)
    assume(owned and count != owned.bit_count())
    grant = allocator.fit(machine, rest, owned, count, FULL)
    if grant is None:
        assert count > owned.bit_count()
    elif count > owned.bit_count() or machine.cores_of(owned, count):
        assert whole_cores(machine, grant.cpus) == grant.cpus


@given(problems())
def test_full_cores_divide_no_core(problem):
    machine, free, count = problem
    chosen = taken(machine, free, count, FULL)
    assert whole_cores(machine, chosen) == chosen
    assert chosen or not machine.cores_of(whole_cores(machine, free), count)


@given(problems())
def test_one_thread_per_core_is_one(problem):
    machine, free, count = problem
    chosen = taken(machine, free, count, ONE_EACH)
    assert all((core & chosen).bit_count() <= 1 for core in machine.cores)


@given(
    TOPOLOGIES,
    st.integers(0, 1 << 400),
    st.integers(-(1 << 70), 1 << 70),
    WISHES,
    st.integers(-5, 1 << 60),
    st.integers(0, 1 << 2000),
)
def test_absurd_questions_have_an_answer_too(machine, free, count, wish, numa_count, numa_ids):
    odd = Wish(wish.qos, numa=Numa.SINGLE, placement=wish.placement, numa_count=numa_count, numa_ids=numa_ids)
    free &= machine.usable
    grant = allocator.allocate(machine, free, count, odd)
    assert grant is None or grant.cpus.bit_count() == count


@given(problems())
def test_kinds_of_cores_are_not_mixed_while_one_has_enough(problem):
    machine, free, count = problem
    chosen = taken(*problem)
    if any((free & kind).bit_count() >= count for kind in machine.kinds):
        assert any(chosen & ~kind == 0 for kind in machine.kinds)


@given(problems(), st.sampled_from((2, 3)))
def test_parts_of_nodes_differ_by_a_core_at_most(problem, number):
    machine, free, count = problem
    by = Wish(QoSClass.DEDICATED, numa=Numa.SINGLE, numa_count=number)
    grant = allocator.allocate(machine, free, count, by)
    if grant is not None and not grant.lost:
        parts = [n for node in machine.nodes if (n := (node.cpus & grant.cpus).bit_count())]
        assert len(parts) == number
        assert max(parts) - min(parts) <= machine.threads_per_core


@given(problems(), st.lists(st.integers(0, 8), min_size=8, max_size=8), st.integers(1, 12))
def test_memory_is_bound_where_there_is_enough_or_not_at_all(problem, left, asked):
    machine, free, count = problem
    rooms = tuple((n.id, m) for n, m in zip(machine.nodes, left, strict=False) if n.memory_bytes)
    grant = allocator.allocate(machine, free, count, BOUND, Room(asked, rooms))
    assert grant is not None
    if grant.mems and machine.tells_memory:
        assert sum(amount for node, amount in rooms if grant.mems >> node & 1) >= asked
        assert machine.nodes_of(grant.cpus) & ~grant.mems == 0
    else:
        assert grant.reason is Reason.MEMORY_UNBOUND or not machine.tells_memory


@given(problems())
def test_spread_equals_one_by_one_from_the_largest(problem):
    machine, free, count = problem
    field = Field.of(machine, free)
    cores = sorted(machine.cores, key=lambda core: cpuset.lowest(core & free, 1))
    rest, chosen = free, 0
    for _ in range(count):
        part = rest
        for level in (*machine.far, *machine.near, cores):
            part = max((g for group in level if (g := group & part)), key=int.bit_count)
        chosen |= part & -part
        rest &= ~chosen
    assert search.spread(field, count) == chosen


@given(problems())
def test_what_is_left_over_is_left_to_the_next(problem):
    machine, free, _ = problem
    rest = free & ~taken(*problem)
    assert taken(machine, rest, rest.bit_count()) == rest
