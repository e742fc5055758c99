"""lending/bands.py keeps sums, bounds, order and dwell for all tiers, loads and machines."""

from hypothesis import given
from hypothesis import strategies as st

from nri_coloc.core.settings import ReclaimTuning
from nri_coloc.lending import bands
from nri_coloc.lending.bands import Allocatable, Memory, Tier

TUNING = ReclaimTuning(partition_dwell_s=1.0)
NAMES = ("a", "b", "c")
LOADS = st.floats(0.0, 40.0, allow_nan=False)
BANDS = st.one_of(st.none(), st.sampled_from(((0.3, 0.5), (0.45, 0.6), (0.5, 0.8), (0.01, 1.0))))


@st.composite
def tiers(draw: st.DrawFn) -> tuple[Tier, ...]:
    """Draw up to three online tiers and the lowest, with bounds that a configuration could have."""
    found = []
    for name in (*NAMES[: draw(st.integers(0, 3))], "reclaim"):
        low = draw(st.integers(0, 4))
        high = draw(st.sampled_from((0, 0, low + 1, low + 8)))
        band = None if name == "reclaim" else draw(BANDS)
        found.append(
            Tier(
                name=name,
                priority=draw(st.integers(-2, 2)),
                band=band,
                minimum=low,
                maximum=high,
                asked=draw(st.integers(0, 24)),
            )
        )
    return tuple(found)


LOADED = st.dictionaries(st.sampled_from(NAMES), LOADS)
CPUS = st.integers(0, 48)
MEMORIES = st.builds(Memory, st.dictionaries(st.sampled_from((*NAMES, "reclaim")), st.integers(0, 48)))


def sized(which, loads, cpus, memory=None, now=100.0, step=48):
    return bands.sizes(which, loads, Allocatable(cpus, step), memory or Memory(), TUNING, now)


@given(tiers(), LOADED, CPUS, MEMORIES)
def test_all_pools_together_are_all_cpus(which, loads, cpus, memory):
    _, sizes, _ = sized(which, loads, cpus, memory)
    assert sum(sizes.values()) == cpus
    assert sizes.keys() == {tier.name for tier in which}
    assert min(sizes.values()) >= 0


@given(tiers(), LOADED, CPUS, MEMORIES)
def test_no_online_tier_has_more_than_its_members_asked_for(which, loads, cpus, memory):
    """The exception is the last of them, when the reclaim pool has its maximum."""
    _, sizes, _ = sized(which, loads, cpus, memory)
    lowest = which[-1]
    full = lowest.maximum and sizes["reclaim"] >= lowest.maximum
    online = sorted(which[:-1], key=lambda tier: -tier.priority)
    for tier in online[: -1 if full else None]:
        assert sizes[tier.name] <= max(tier.asked, tier.minimum)
        assert not tier.maximum or sizes[tier.name] <= tier.maximum


@given(tiers(), LOADED, CPUS, MEMORIES)
def test_minimums_hold_while_there_are_cpus_for_all_of_them(which, loads, cpus, memory):
    _, sizes, _ = sized(which, loads, cpus, memory)
    if sum(max(tier.minimum, 1) for tier in which) <= cpus:
        assert all(sizes[tier.name] >= tier.minimum for tier in which)


@given(tiers(), LOADED, CPUS, MEMORIES, st.sampled_from(NAMES), LOADS)
def test_more_load_never_means_fewer_cpus(which, loads, cpus, memory, name, more):
    _, before, _ = sized(which, loads, cpus, memory)
    _, after, _ = sized(which, loads | {name: loads.get(name, 0.0) + more}, cpus, memory)
    if name in loads and name in before and not which[-1].maximum:
        assert after[name] >= before[name]


@given(tiers(), LOADED, CPUS, MEMORIES)
def test_what_a_higher_tier_needs_does_not_depend_on_lower_ones(which, loads, cpus, memory):
    """Apart from minimums, a tier at its upper edge has as many CPUs as if the lower tiers were idle."""
    online = sorted(which[:-1], key=lambda tier: -tier.priority)
    if not online or online[0].band is None or online[0].name not in loads:
        return
    first = online[0]
    need = loads[first.name] / first.band[1]
    _, sizes, _ = sized(which, loads, cpus, memory)
    others = sum(max(tier.minimum, 1) for tier in which) - max(first.minimum, 1)
    assert sizes[first.name] >= min(need - 1e-6, first.most, cpus - others)


@given(tiers(), LOADED, CPUS, MEMORIES)
def test_under_a_steady_load_everything_comes_to_rest(which, loads, cpus, memory):
    now = 100.0
    for _ in range(12):
        memory, sizes, _ = sized(which, loads, cpus, memory, now)
        now += 0.6
    for _ in range(6):
        memory, later, _ = sized(which, loads, cpus, memory, now)
        now += 0.6
        assert later == sizes


@given(tiers(), LOADED, CPUS, MEMORIES)
def test_the_same_question_has_the_same_answer(which, loads, cpus, memory):
    assert sized(which, loads, cpus, memory) == sized(which, loads, cpus, memory)
