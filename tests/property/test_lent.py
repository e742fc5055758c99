"""placing/pools.py keeps its invariants on any machine, for any share, count and former reclaim pool."""

from hypothesis import given
from hypothesis import strategies as st

from nri_coloc.core import cpuset
from nri_coloc.core.topology import Topology
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
