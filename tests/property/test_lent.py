"""placing/pools.py keeps its invariants on any machine, for any share, count and former reclaim pool."""

from collections.abc import Iterator, Sequence
from itertools import chain, combinations

from hypothesis import given
from hypothesis import strategies as st

from nri_coloc.core import cpuset
from nri_coloc.core.topology import CPU, Topology
from nri_coloc.placing import pools
from tests.property.strategies import TOPOLOGIES

COUNTS = st.integers(-1, 20)


@st.composite
def situations(draw: st.DrawFn) -> tuple[Topology, int, int]:
    """Draw a machine, a non-empty share of it and dedicated CPUs beside that."""
    machine = draw(TOPOLOGIES)
    ids = list(cpuset.members(machine.usable))
    share = draw(st.lists(st.sampled_from(ids), min_size=1, unique=True))
    dedicated = draw(st.lists(st.sampled_from(ids), unique=True))
    return machine, cpuset.of(share), cpuset.of(dedicated) & ~cpuset.of(share)


@given(situations(), COUNTS)
def test_a_box_is_within_share_and_its_bounds(situation, count):
    machine, share, dedicated = situation
    box = pools.choose(machine, share, dedicated, count)
    assert box
    assert box & ~share == 0
    assert box.bit_count() <= max(count, machine.threads_per_core)


@given(situations(), COUNTS)
def test_no_core_is_split_between_box_and_share(situation, count):
    machine, share, dedicated = situation
    box = pools.choose(machine, share, dedicated, count)
    assert not any(core & box and core & share & ~box for core in machine.cores)


@given(situations(), COUNTS, COUNTS)
def test_a_lone_pool_keeps_cpus_through_every_size(situation, one, two):
    machine, share, _ = situation
    few, many = sorted((one, two))
    smaller = pools.choose(machine, share, 0, few)
    larger = pools.choose(machine, share, 0, many)
    assert smaller & ~pools.choose(machine, share, 0, many, smaller) == 0
    assert pools.choose(machine, share, 0, few, larger) & ~larger == 0


@given(situations(), COUNTS)
def test_choosing_again_changes_nothing(situation, count):
    machine, share, dedicated = situation
    box = pools.choose(machine, share, dedicated, count)
    assert pools.choose(machine, share, dedicated, count, box) == box


@st.composite
def hybrids(draw: st.DrawFn) -> Topology:
    """Draw up to six cores of one or two threads, on one node or two."""
    widths = draw(st.lists(st.integers(1, 2), min_size=1, max_size=6))
    of_cores = [core for core, width in enumerate(widths) for _ in range(width)]
    split = draw(st.integers(0, len(widths)))
    return Topology.build(
        [CPU(n, node=int(core >= split), core=str(core)) for n, core in enumerate(of_cores)]
    )


def most_within(count: int, cores: Sequence[int]) -> int:
    """Return the most CPUs, `count` at most, that some of these cores have together."""
    sums = {sum(core.bit_count() for core in some) for some in subsets(cores)}
    return max(each for each in sums if each <= count)


def subsets(cores: Sequence[int]) -> Iterator[tuple[int, ...]]:
    return chain.from_iterable(combinations(cores, n) for n in range(len(cores) + 1))


@given(hybrids(), COUNTS)
def test_as_much_is_lent_as_whole_cores_add_up_to(machine, count):
    box = pools.choose(machine, machine.online, 0, count)
    least = max(count, machine.threads_per_core)
    assert box.bit_count() == most_within(least, machine.cores)


@given(situations(), COUNTS, COUNTS)
def test_no_whole_core_fits_beside_a_grown_box(situation, one, two):
    machine, share, dedicated = situation
    few, many = sorted((one, two))
    former = pools.choose(machine, share, dedicated, few)
    box = pools.choose(machine, share, dedicated, many, former)
    left = max(many, machine.threads_per_core) - box.bit_count()
    apart = [core for core in machine.cores if not core & (box | dedicated | ~share)]
    assert all(core.bit_count() > left for core in apart)
