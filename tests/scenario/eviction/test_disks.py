"""Evictions of the pods that fill a disk."""

from collections.abc import Callable

import pytest

from nri_coloc.core.reasons import Reason
from nri_coloc.core.settings import DiskTuning, PressureTuning, Tuning
from nri_coloc.pressure.eviction import MOST, Given, Pace
from nri_coloc.pressure.evictor import LONGEST_LEAVE_S
from tests.scenario.eviction.bed import NOTHING_TOLD, Bed, told


def fills(bed: Bed, **mib: float) -> Callable[[], None]:
    """Return a second in which pods write so many MiB to the disk, and as much less is left."""
    written = dict.fromkeys(mib, 0.0)

    def second() -> None:
        for name, amount in mib.items():
            if name in bed.known.state.pods:
                written[name] += amount
                bed.disk.left -= amount / 1024 / 100
                bed.wrote(name, int(written[name] * (1 << 20)))

    return second


def test_the_largest_writer_to_a_short_disk_goes(make: Callable[..., Bed]):
    bed = make(small=1, large=1)
    bed.disk.left = 0.105
    second = fills(bed, small=4, large=20)
    bed.seconds(59, second)
    assert bed.cluster.names == []
    bed.seconds(5, second)
    (wish,) = bed.cluster.ordered
    assert (wish.name, wish.reason, wish.inputs["scope"]) == ("large", Reason.DISK_SPACE, "node")
    assert wish.inputs["written_bytes"] == 20 * 60 << 20
    assert (wish.inputs["lost"] >> 20, wish.inputs["disk"]) == (24 * 60, "8:0")
    assert bed.is_cooling
    bed.seconds(30, second)
    assert bed.cluster.names == ["large"]


def test_the_next_writer_goes_if_the_disk_still_fills(make: Callable[..., Bed]):
    bed = make(small=1, large=1)
    bed.disk.left = 0.105
    bed.seconds(180, fills(bed, small=4, large=20))
    assert bed.cluster.names == ["large", "small"]


def filled_while_the_pace_is_used_up(bed: Bed) -> Bed:
    """Let a pod fill the disk, while other evictions use up the pace for half a minute more."""
    bed.disk.left = 0.105
    orders = tuple(Given(f"other-{n}", bed.now + 35, awaits=False) for n in range(MOST))
    bed.evictor = bed.daemon(Pace(orders))
    bed.seconds(65, fills(bed, small=15, large=20))
    assert bed.cluster.names == []
    return bed


def test_a_filled_disk_waits_for_the_pace(make: Callable[..., Bed]):
    bed = filled_while_the_pace_is_used_up(make(small=1, large=1))
    bed.seconds(35)
    assert bed.cluster.names == ["large"], "a full disk fills no further"


def test_a_disk_that_is_free_again_evicts_none(make: Callable[..., Bed]):
    bed = filled_while_the_pace_is_used_up(make(small=1, large=1))
    bed.disk.left = 0.5
    bed.seconds(15)
    bed.disk.left = 0.105
    bed.seconds(300)
    assert bed.cluster.names == []


def test_a_disk_that_has_recovered_evicts_no_writer(make: Callable[..., Bed]):
    bed = filled_while_the_pace_is_used_up(make(small=1, large=1))
    bed.disk.left = 0.106
    bed.seconds(300)
    assert bed.cluster.names == [], "it is short for another reason"


def test_a_disk_that_recovers_in_part_evicts(make: Callable[..., Bed]):
    bed = filled_while_the_pace_is_used_up(make(small=1, large=1))
    bed.disk.left = 0.09
    bed.seconds(35)
    assert bed.cluster.names == ["large"]


def test_a_budget_sends_the_next_writer(make: Callable[..., Bed]):
    bed = make(small=1, large=1)
    bed.cluster.budgets = {"large"}
    bed.disk.left = 0.105
    bed.seconds(65, fills(bed, small=15, large=20))
    bed.seconds(10)
    assert bed.cluster.names == ["large", "small"]


@pytest.mark.parametrize(
    ("left", "large"),
    [(0.5, 20.0), (0.105, 0.0), (0.105, 0.5)],
    ids=["enough is left", "it fills no further", "by other writers"],
)
def test_a_disk_that_pods_do_not_fill_evicts_none(make: Callable[..., Bed], left: float, large: float):
    bed = make(small=1, large=1)
    bed.disk.left = left
    bed.seconds(300, fills(bed, small=0.0, large=large))
    assert bed.cluster.ordered == []


def leaves_always(bed: Bed, name: str) -> None:
    """Let the API server delete a pod that stays for its long grace period."""
    told(bed, **{name: NOTHING_TOLD._replace(killed_at=bed.now + LONGEST_LEAVE_S)})


def test_a_leaving_bystander_delays_no_disk_eviction(make: Callable[..., Bed]):
    bed = make(bystander=1, large=1)
    bed.disk.left = 0.105
    leaves_always(bed, "bystander")
    bed.seconds(65, fills(bed, bystander=1, large=20))
    assert bed.cluster.names == ["large"]


def test_a_leaving_writer_sends_no_other(make: Callable[..., Bed]):
    bed = make(large=1, leaver=1)
    bed.disk.left = 0.105
    leaves_always(bed, "leaver")
    bed.seconds(130, fills(bed, large=20, leaver=15))
    assert bed.cluster.names == []


def test_a_leaving_disk_order_sends_no_other(make: Callable[..., Bed]):
    bed = make(small=1, large=1)
    bed.disk.left, bed.cluster.grace_s = 0.105, 300.0
    writes = fills(bed, small=4, large=20)
    bed.seconds(65, writes)
    bed.seconds(200, fills(bed, small=4))
    assert bed.cluster.names == ["large"], "it writes no more, and its space is not free yet"


def test_a_few_lost_bytes_evict_no_writer(make: Callable[..., Bed]):
    bed = make(writer=1)
    bed.disk.left = 0.105
    writes = fills(bed, writer=20)

    def second() -> None:
        left = bed.disk.left
        writes()
        bed.disk.left = left - 1e-9

    bed.seconds(300, second)
    assert bed.cluster.ordered == []


def test_an_unknown_disk_evicts_no_pod(make: Callable[..., Bed]):
    bed = make(large=1)
    bed.disk.left, bed.disk.number = 0.105, ""
    bed.seconds(180, fills(bed, large=20))
    assert bed.cluster.ordered == []


def test_a_short_disk_evicts_no_pod_by_default(make: Callable[..., Bed]):
    bed = make(Tuning(pressure=PressureTuning(disk=DiskTuning(closes=True))), large=1)
    bed.disk.left = 0.105
    bed.seconds(180, fills(bed, large=20))
    assert bed.cluster.ordered == []
