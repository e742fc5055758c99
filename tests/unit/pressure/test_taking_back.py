"""pressure.taking_back: the regime by available memory, and the takes of a turn."""

import pytest

from nri_coloc.core.memory_margin import Bounds
from nri_coloc.core.readings import MemoryLeft
from nri_coloc.pressure import taking_back
from nri_coloc.pressure.taking_back import Need, Regime, Source, Take
from nri_coloc.pressure.verdict import Resource

MIB = 1 << 20
KNOWN = Bounds(200 * MIB, 400 * MIB)


def need(available: int | None, before: Regime = Regime.NONE) -> Need:
    left = None if available is None else MemoryLeft(8192 * MIB, available * MIB)
    return taking_back.need(before, "node", left, KNOWN)


SWAP = 1 << 40


def takes(regime: Regime, swap: int, **pods: Source) -> list[Take]:
    """Return the takes while 350 MiB are missing."""
    return list(taking_back.takes(Need("node", regime, 350 * MIB), pods, swap))


@pytest.mark.parametrize(
    ("before", "available", "regime"),
    [
        (Regime.NONE, 400, Regime.NONE),
        (Regime.NONE, 399, Regime.COLD),
        (Regime.COLD, 200, Regime.COLD),
        (Regime.COLD, 199, Regime.URGENT),
        (Regime.URGENT, 399, Regime.URGENT),
        (Regime.URGENT, 400, Regime.NONE),
        (Regime.URGENT, None, Regime.NONE),
    ],
)
def test_the_regime_follows_available_memory(before: Regime, available: int | None, regime: Regime):
    assert need(available, before).regime is regime


def test_the_missing_amount_ends_at_enough():
    assert need(150).missing == 250 * MIB
    assert need(None).missing == 0


def test_a_cold_step_is_a_hundredth():
    (take,) = takes(Regime.COLD, SWAP, batch=Source(1000 * MIB, cache=500 * MIB, stall=0.0))
    assert take == Take("batch", 10 * MIB // 131072 * 131072, only_cache=True)


def test_a_stall_makes_the_step_smaller():
    (take,) = takes(Regime.COLD, SWAP, batch=Source(1000 * MIB, cache=500 * MIB, stall=0.05))
    assert take.amount == 5 * MIB


@pytest.mark.parametrize("stall", [0.1, 1.0, None])
def test_a_stalled_or_unknown_pod_gives_nothing(stall: float | None):
    assert takes(Regime.COLD, SWAP, batch=Source(1000 * MIB, cache=500 * MIB, stall=stall)) == []


def test_swap_follows_page_cache():
    (take,) = takes(Regime.COLD, SWAP, batch=Source(1000 * MIB, cache=5 * MIB, stall=0.0))
    assert not take.only_cache
    assert takes(Regime.COLD, 0, batch=Source(1000 * MIB, cache=5 * MIB, stall=0.0)) == []


def test_urgent_takes_from_the_largest_first():
    found = takes(Regime.URGENT, SWAP, small=Source(100 * MIB), large=Source(316 * MIB))
    assert found == [Take("large", 300 * MIB), Take("small", 50 * MIB)]


def test_urgent_takes_what_swap_can_hold():
    (take,) = takes(Regime.URGENT, 20 * MIB, batch=Source(1000 * MIB, cache=30 * MIB))
    assert take.amount == 50 * MIB


def test_protected_memory_is_kept():
    (take,) = takes(Regime.URGENT, SWAP, batch=Source(300 * MIB, cache=300 * MIB, kept=200 * MIB))
    assert take.amount == 100 * MIB


def test_urgent_takes_the_excess_over_loans_first():
    within = Source(2000 * MIB, lent=2048 * MIB)
    over = Source(400 * MIB, lent=100 * MIB)
    found = takes(Regime.URGENT, SWAP, within=within, over=over)
    assert found == [Take("over", 300 * MIB), Take("within", 50 * MIB)]


def test_urgent_takes_page_cache_within_loans_next():
    over = Source(900 * MIB, cache=250 * MIB, lent=800 * MIB)
    within = Source(500 * MIB, cache=500 * MIB, lent=500 * MIB)
    found = takes(Regime.URGENT, 0, within=within, over=over)
    assert found == [Take("over", 250 * MIB), Take("within", 100 * MIB)]


@pytest.mark.parametrize(
    ("regime", "hurt", "pauses"),
    [
        (Regime.COLD, {Resource.IO}, True),
        (Regime.COLD, {Resource.MEMORY, Resource.CPU}, False),
        (Regime.COLD, set(), False),
        (Regime.URGENT, {Resource.IO}, False),
    ],
)
def test_cold_alone_pauses_for_io(regime: Regime, hurt: set[Resource], *, pauses: bool):
    assert taking_back.pauses(regime, hurt) is pauses
