"""The memory headroom is computed case by case; the table is meant to be read."""

from dataclasses import dataclass, field, replace

import pytest

from nri_coloc.core.lending import Binding
from nri_coloc.core.readings import GroupReading, MemoryReading, NodeReading, NumaMemory, Picture
from nri_coloc.core.settings import ReclaimTuning
from nri_coloc.memory import headroom
from nri_coloc.memory.headroom import Claim, Growth
from tests.unit.lending.kit import GIB, group, picture

EXACT = ReclaimTuning(memory_watermark=1.0)
MARGIN = 456 << 20
"""Bytes that lending leaves on a small node, and below a small limit: the tables' amounts come on top."""

IDLE = NodeReading(0.0, memory_total=64 * GIB, memory_free=40 * GIB + MARGIN)


@dataclass(frozen=True)
class Case:
    """A row of the table; amounts are GiB.

    limit: kubepods' own limit, without the margin.
    pods: kubepods' working set.
    box: readings of the reclaimed pods.
    hosts: readings of the host groups.
    of_pods: headroom of the reclaimed pods, if kubepods' limit bounds them alone.
    """

    story: str
    amount: float
    binding: Binding = Binding.FREE_MEMORY
    node: NodeReading = IDLE
    pods: float = 10
    limit: float | None = None
    box: dict[str, GroupReading] = field(default_factory=dict)
    hosts: dict[str, GroupReading] = field(default_factory=dict)
    of_pods: float | None = None
    claim: tuple[float, float] = (0, 0)
    tuning: ReclaimTuning = EXACT


def holding(
    anon: float, inactive: float = 0, active: float = 0, slab: int | None = None
) -> dict[str, GroupReading]:
    """Return the reading of one pod, from GiB; `slab`, bytes, is the part of `anon` that the kernel can reclaim."""
    usage = round((anon + inactive + active) * GIB)
    reading = MemoryReading(
        usage,
        anon=round(anon * GIB),
        file=round((inactive + active) * GIB),
        inactive_file=round(inactive * GIB),
        working_set=usage - round(inactive * GIB),
        slab_reclaimable=slab,
    )
    return {"job": GroupReading(9, 0.0, memory=reading)}


CASES = [
    Case("all that is free", 40),
    Case("unused page cache counts whole", 45, node=replace(IDLE, inactive_file=5 * GIB)),
    Case("active page cache counts half", 43, node=replace(IDLE, active_file=6 * GIB)),
    Case("so does reclaimable slab", 42, node=replace(IDLE, slab_reclaimable=4 * GIB)),
    Case("the kernel keeps its watermarks", 39, node=replace(IDLE, watermark=GIB)),
    Case(
        "the machine is not filled above its watermark",
        24 + MARGIN / GIB,
        tuning=replace(EXACT, memory_watermark=0.75),
    ),
    Case("the reserve is never lent", 37, tuning=replace(EXACT, memory_reserve=3 * GIB)),
    Case("memory that reclaimed pods hold stays lent", 43, box=holding(3)),
    Case(
        "its own inactive cache is in the node's",
        42,
        node=replace(IDLE, inactive_file=2 * GIB),
        box=holding(0, 2),
    ),
    Case(
        "its active cache is half in the node's",
        42,
        node=replace(IDLE, active_file=2 * GIB),
        box=holding(0, 0, 2),
    ),
    Case(
        "only its active cache counts half",
        46,
        node=replace(IDLE, inactive_file=2 * GIB, active_file=4 * GIB),
        box=holding(0, 2, 4),
    ),
    Case(
        "its locked cache is not in the node's",
        42,
        box={"job": GroupReading(9, 0.0, memory=MemoryReading(2 * GIB, file=2 * GIB, locked=2 * GIB))},
    ),
    Case(
        "its slab is half in the node's",
        44,
        node=replace(IDLE, slab_reclaimable=4 * GIB),
        box=holding(3, slab=2 * GIB),
    ),
    Case(
        "and no more of it than there is, where the kernel tells no more than the most",
        44,
        node=replace(IDLE, slab_reclaimable=2 * GIB),
        box={"job": GroupReading(9, 0.0, memory=MemoryReading(4 * GIB, working_set=4 * GIB))},
    ),
    Case("what online pods may still take is not lent", 25, claim=(10, 5)),
    Case("a claim beyond the remainder binds", 15, Binding.ONLINE_CLAIM, claim=(20, 5)),
    Case("more claimed than there is: nothing", 0, Binding.ONLINE_CLAIM, claim=(50, 0)),
    Case("nothing free", 0, node=replace(IDLE, memory_free=0)),
    Case("half of it is lent", 20, tuning=replace(EXACT, lend=0.5)),
    Case("a quarter binds", 10, Binding.SCHEDULE, tuning=replace(EXACT, lend=0.25)),
    Case("nothing is lent", 0, Binding.SCHEDULE, tuning=replace(EXACT, lend=0.0)),
    Case("half of a limit is lent", 3, Binding.KUBEPODS_LIMIT, limit=16, tuning=replace(EXACT, lend=0.5)),
    Case("kubepods' own limit bounds", 6, Binding.KUBEPODS_LIMIT, limit=16),
    Case("by the remainder beside its working set", 10, Binding.KUBEPODS_LIMIT, pods=6, limit=16),
    Case("the reclaim cgroups' own part stays lent", 9, Binding.KUBEPODS_LIMIT, limit=16, box=holding(3, 7)),
    Case("less what online pods may still take", 3, Binding.KUBEPODS_LIMIT, limit=16, claim=(2, 1)),
    Case("a wide limit does not bind", 40, limit=60),
    Case("kubepods above its limit: nothing", 0, Binding.KUBEPODS_LIMIT, pods=20, limit=16),
    Case("a member that cannot be read holds nothing", 40, box={"job": GroupReading(9, 0.0)}),
    Case("without a limit a host group counts as a reclaim cgroup", 43, hosts=holding(3)),
    Case("kubepods' own limit does not bound a host group", 43, limit=16, hosts=holding(3), of_pods=6),
    Case("nor does what it holds spend of that", 45, limit=16, box=holding(2), hosts=holding(3), of_pods=8),
    Case("half of both", 21.5, limit=16, hosts=holding(3), of_pods=3, tuning=replace(EXACT, lend=0.5)),
    Case("nothing left to the pods", 43, pods=20, limit=16, hosts=holding(3), of_pods=0),
    Case("online pods' claim bounds both", 37, limit=16, claim=(4, 2), hosts=holding(3), of_pods=0),
    Case("one that cannot be read is one", 40, limit=16, hosts={"yarn": GroupReading(9, 0.0)}, of_pods=6),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.story)
def test_headroom(case):
    limit = None if case.limit is None else round(case.limit * GIB) + MARGIN
    pods = MemoryReading(0, working_set=round(case.pods * GIB), limit=limit)
    taken = Picture(0.0, case.node, GroupReading(1, 0.0, memory=pods), pods=case.box)
    hosts = {f"host/{name}": reading for name, reading in case.hosts.items()}
    claim = Claim(*(round(part * GIB) for part in case.claim))
    found = headroom.headroom_memory(taken, case.box | hosts, claim, case.tuning)
    assert found is not None
    of_pods = None if case.of_pods is None else case.of_pods * GIB
    assert (None if found.pods is None else found.pods.amount) == of_pods
    assert (found.amount, found.binding) == (case.amount * GIB, case.binding)
    assert found.terms is not None
    assert (found.terms.free, found.terms.kubepods_limit) == (case.node.memory_free, limit)


def test_pods_and_host_groups_are_told_apart():
    pods = MemoryReading(0, working_set=10 * GIB, limit=16 * GIB + MARGIN)
    taken = Picture(0.0, IDLE, GroupReading(1, 0.0, memory=pods), pods=holding(3, 1))
    found = headroom.headroom_memory(taken, {**holding(3, 1), "yarn": holding(20, 4)["job"]}, Claim(), EXACT)
    assert found is not None
    assert (found.held, found.unreclaimable) == (28 * GIB, 23 * GIB)
    assert found.pods == (9 * GIB, 4 * GIB, 3 * GIB)


def test_unreclaimable_memory_is_reported_with_the_headroom():
    taken = Picture(0.0, IDLE, group(1, 0.0, memory=0))
    found = headroom.headroom_memory(taken, holding(3, 1, 2), Claim(), EXACT)
    assert found is not None
    assert (found.held, found.unreclaimable) == (6 * GIB, 3 * GIB)


@pytest.mark.parametrize(
    "taken",
    [
        Picture(0.0, IDLE),
        Picture(0.0, IDLE, GroupReading(1, 0.0)),
        Picture(0.0, NodeReading(0.0), group(1, 0.0, memory=0)),
    ],
    ids=["no kubepods", "kubepods' memory unreadable", "no /proc/meminfo"],
)
def test_without_a_reading_there_is_no_headroom(taken):
    assert headroom.headroom_memory(taken, {}, Claim(), EXACT) is None


def test_memory_nodes_share_by_what_each_has_to_give():
    nodes = {
        0: NumaMemory(32 * GIB, 29 * GIB, 4 * GIB),
        1: NumaMemory(32 * GIB, 11 * GIB),
        2: NumaMemory(0, 0),
    }
    taken = Picture(0.0, replace(IDLE, watermark=2 * GIB, nodes=nodes), group(1, 0.0, memory=0))
    found = headroom.headroom_memory(taken, {}, Claim(), EXACT)
    assert found is not None
    assert found.amount == 38 * GIB
    assert found.by_node == {0: round(38 * 0.75 * GIB), 1: round(38 * 0.25 * GIB), 2: 0}


# --- the claim -------------------------------------------------------------------------------------------


def claimed(
    before: dict[str, GroupReading], after: dict[str, GroupReading], gap_s: float = 10.0
) -> tuple[Growth, Claim]:
    growth, _ = headroom.claim_of(Growth(), picture(100.0, before), dict.fromkeys(before, 0), EXACT)
    return headroom.claim_of(growth, picture(100.0 + gap_s, after), dict.fromkeys(after, 0), EXACT)


def of(key: int, memory_bytes: int) -> GroupReading:
    return group(key, 0.0, memory=memory_bytes)


def test_a_pod_claims_what_it_does_not_use_of_its_expectation():
    pods = {"a": of(1, GIB), "b": of(2, 5 * GIB)}
    _, claim = headroom.claim_of(Growth(), picture(0.0, pods), {"a": 4 * GIB, "b": 2 * GIB}, EXACT)
    assert claim == Claim(3 * GIB, 0)


def test_an_unreadable_pod_claims_its_expected_use():
    pods = {"a": GroupReading(1, 0.0)}
    _, claim = headroom.claim_of(Growth(), picture(0.0, pods), {"a": 4 * GIB, "gone": GIB}, EXACT)
    assert claim.pods == 5 * GIB


def test_what_grows_is_foreseen_for_as_long_as_an_eviction_takes():
    growth, claim = claimed({"a": of(1, GIB), "b": of(2, GIB)}, {"a": of(1, 2 * GIB), "b": of(2, GIB // 2)})
    assert growth.rate == GIB / 20
    assert claim.growth == GIB


@pytest.mark.parametrize(
    ("story", "after"),
    [
        ("who shrinks", {"a": of(1, 0)}),
        ("a new container", {"a": of(1, GIB), "b": of(2, 9 * GIB)}),
        ("another container with the same name", {"a": of(7, 9 * GIB)}),
    ],
)
def test_no_growth_is_seen_in(story, after):
    assert claimed({"a": of(1, GIB)}, after)[1].growth == 0


def test_no_pod_grows_beyond_its_limit():
    """It swings by its whole limit within five seconds, a quarter of the time of an eviction."""
    before, after = (
        replace(of(1, held), memory=MemoryReading(0, working_set=held, limit=GIB)) for held in (0, GIB)
    )
    _, claim = claimed({"a": before}, {"a": after}, gap_s=5.0)
    assert claim.growth == GIB


def test_two_pictures_of_one_moment_tell_no_growth():
    assert claimed({"a": of(1, GIB)}, {"a": of(1, 2 * GIB)}, gap_s=0.0)[1].growth == 0


def test_two_snapshots_at_once_hide_no_rate():
    growth, _ = claimed({"a": of(1, GIB)}, {"a": of(1, GIB)})
    soon, claim = headroom.claim_of(growth, picture(110.08, {"a": of(1, GIB + GIB // 64)}), {"a": 0}, EXACT)
    assert (soon, claim.growth) == (growth, 0)
    later, claim = headroom.claim_of(soon, picture(115.0, {"a": of(1, GIB + GIB // 4)}), {"a": 0}, EXACT)
    assert (later.rate, claim.growth) == (GIB / 20, GIB)


def test_a_clock_set_back_begins_anew_and_keeps_the_rate():
    growth, _ = claimed({"a": of(1, GIB)}, {"a": of(1, 2 * GIB)})
    after, _ = headroom.claim_of(growth, picture(50.0, {"a": of(1, 9 * GIB)}), {"a": 0}, EXACT)
    assert (after.rate, after.at) == (growth.rate, 50.0)


def test_growth_halves_in_the_time_of_an_eviction():
    growth, _ = claimed({"a": of(1, GIB)}, {"a": of(1, 2 * GIB)})
    after, claim = headroom.claim_of(growth, picture(130.0, {"a": of(1, 2 * GIB)}), {"a": 0}, EXACT)
    assert after.rate == growth.rate / 2
    assert claim.growth == GIB
