"""How much memory the reclaim box may hold, from what the node has and what the online pods may still take.

Two bounds, in bytes of use, page cache included, as memory.high counts it: one of the whole box, one of its pods alone,
for host groups lie outside of kubepods, whose limit neither bounds them nor is spent by them:

    node:     available + held − claim − growth − reserve − total · (1 − memory_watermark)
      available = free + inactive file + ½ active file + ½ reclaimable slab − low watermarks
      held      = what the box uses and `available` does not count already:
                  use − inactive file − ½ other file − ½ reclaimable slab
    kubepods: limit − working set + the working set of the box's pods − claim − growth

`available` follows the kernel's own MemAvailable (mm/show_mem.c, si_mem_available), which counts page cache, and what
of slab is reclaimable, less the low watermarks or half of it, whichever is less: at least half. Active pages and slab
are counted at that half, because the online pods' working sets hold them too.
`claim` = Σ max(0, expected − working set) over the online pods, where `expected` is `forecast.expect`'s: what they were
promised or will peak at. `growth` = the rate at which they grow · eviction_s: so long it takes until the memory of
an evicted pod is free. The rate is held at its highest and fades by half per eviction_s.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from nri_coloc.core.apportionment import apportion
from nri_coloc.core.lending import Binding
from nri_coloc.core.readings import GroupReading, MemoryReading, NodeReading, Picture
from nri_coloc.core.settings import ReclaimTuning

LEAST_GAP_S: Final = 1.0
"""Between two pictures that tell a rate: an order (pause, reload) makes one right after another, and a few pages within
80 ms would be gigabytes for the time of an eviction. The slow loop's own are a second apart at the least."""


@dataclass(frozen=True, slots=True)
class Growth:
    """How fast the online pods grow: bytes a second, when that was reckoned, and from which working sets, by the
    identity of their cgroups."""

    rate: float = 0.0
    at: float | None = None
    working_sets: Mapping[int, int] = field(default_factory=dict)


class Terms(NamedTuple):
    """The terms of both bounds, bytes; `kubepods_limit`: None where it has none; `box_working_set`: of the box's pods
    in kubepods, no host groups."""

    free: int
    page_cache: int
    kernel_watermark: int
    held_by_box: int
    claimed: int
    growth: int
    reserve: int
    margin: int
    kubepods_limit: int | None
    kubepods_working_set: int
    box_working_set: int

    @property
    def by_node(self) -> int:
        """What the machine has for the box."""
        available = self.free + self.page_cache - self.kernel_watermark
        return available + self.held_by_box - self.claimed - self.growth - self.reserve - self.margin

    @property
    def by_limit(self) -> int | None:
        """What kubepods' limit leaves for the box's pods."""
        if self.kubepods_limit is None:
            return None
        left = self.kubepods_limit - self.kubepods_working_set + self.box_working_set
        return left - self.claimed - self.growth


class Room(NamedTuple):
    """What some members may hold together, ≥ 0; what they use now, and of that what cannot be reclaimed."""

    amount: int
    held: int = 0
    unreclaimable: int = 0


class MemoryHeadroom(NamedTuple):
    """What the box may hold in all, ≥ 0, by which bound, and of it by memory node; `held`: what it uses now.

    `unreclaimable`: of `held`, what cannot be reclaimed. `terms`: every figure of it. `pods`: what kubepods' own
    limit leaves of it for the box's pods; None where that is no bound of theirs alone, for there is none or nobody
    else.
    """

    amount: int
    binding: Binding
    held: int = 0
    unreclaimable: int = 0
    by_node: Mapping[int, int] = {}
    terms: Terms | None = None
    pods: Room | None = None


class Claim(NamedTuple):
    """What the online pods may still take, bytes: up to their expectation, and while somebody is evicted."""

    pods: int = 0
    growth: int = 0


# --- headroom --------------------------------------------------------------------------------------------


def headroom_memory(
    picture: Picture, box: Mapping[str, GroupReading], claim: Claim, tuning: ReclaimTuning
) -> MemoryHeadroom | None:
    """Return what the box may hold; None if the node's or kubepods' memory could not be read.

    `box`: the members' readings by pod or host group; one that could not be read counts as holding nothing, which
    makes the answer smaller. Who is none of the picture's pods is a host group: outside of kubepods, bounded by the
    node alone.
    """
    node = picture.node
    pods = picture.kubepods.memory if picture.kubepods is not None else None
    if not node.memory_total or pods is None:
        return None
    has_others = not box.keys() <= picture.pods.keys()
    members = _Members(
        [group.memory for group in box.values() if group.memory is not None],
        [group.memory for name, group in box.items() if name in picture.pods and group.memory is not None],
    )
    terms = _terms(picture, pods, members, claim, tuning)
    amount, binding, by_limit = terms.by_node, _bound_of_machine(terms.by_node, claim), terms.by_limit
    if by_limit is not None and by_limit < amount and not has_others:
        amount, binding = by_limit, Binding.KUBEPODS_LIMIT
    of_pods = _room(by_limit, members.pods) if by_limit is not None and has_others else None
    amount, held, unreclaimable = _room(amount, members.all)
    return MemoryHeadroom(amount, binding, held, unreclaimable, _by_node(node, amount), terms, of_pods)


class _Members(NamedTuple):
    """Readings of the box's members; `pods`: those of its pods."""

    all: list[MemoryReading]
    pods: list[MemoryReading]


def _room(amount: int, members: list[MemoryReading]) -> Room:
    held, unreclaimable = sum(m.usage for m in members), sum(m.unreclaimable for m in members)
    return Room(max(0, amount), held, unreclaimable)


def _terms(
    picture: Picture, pods: MemoryReading, box: _Members, claim: Claim, tuning: ReclaimTuning
) -> Terms:
    node = picture.node
    return Terms(
        node.memory_free,
        page_cache=node.inactive_file + node.active_file // 2 + node.slab_reclaimable // 2,
        kernel_watermark=node.watermark,
        held_by_box=_held(node, box.all),
        claimed=claim.pods,
        growth=claim.growth,
        reserve=tuning.memory_reserve,
        margin=node.memory_total - int(node.memory_total * tuning.memory_watermark),
        kubepods_limit=pods.limit,
        kubepods_working_set=pods.working_set,
        box_working_set=sum(m.working_set for m in box.pods),
    )


def _held(node: NodeReading, members: list[MemoryReading]) -> int:
    """Return what members use and is not counted as available: of slab they have no more than there is."""
    held = sum(max(0, m.usage - m.inactive_file - max(0, m.file - m.inactive_file) // 2) for m in members)
    return max(0, held - min(node.slab_reclaimable, sum(m.most_slab for m in members)) // 2)


def _bound_of_machine(amount: int, claim: Claim) -> Binding:
    """The online pods' claim is what binds, if without it more than twice as much could be lent."""
    return Binding.ONLINE_CLAIM if claim.pods + claim.growth > max(0, amount) else Binding.FREE_MEMORY


def _by_node(node: NodeReading, amount: int) -> dict[int, int]:
    """Divide by what each memory node has to give above its part of the kernel's watermarks."""
    total = sum(memory.total for memory in node.nodes.values())
    if not total:
        return {}
    spare = {
        number: max(0, memory.free + memory.file // 2 - node.watermark * memory.total // total)
        for number, memory in node.nodes.items()
    }
    return apportion(amount, spare)


# --- the online pods' claim ------------------------------------------------------------------------------


def claim_of(
    growth: Growth, picture: Picture, expected: Mapping[str, int], tuning: ReclaimTuning
) -> tuple[Growth, Claim]:
    """Return what the online pods, of which `expected` tells bytes by pod id, may still take.

    A pod that could not be read claims all it is expected to use. Only pods that are in both pictures, by identity,
    tell a growth: one that has come or gone is no growth of anybody.
    """
    sets: dict[int, int] = {}
    claimed = 0
    for pod_id, bytes_expected in expected.items():
        group = picture.pods.get(pod_id)
        if group is None or group.memory is None:
            claimed += bytes_expected
            continue
        sets[group.key] = group.memory.working_set
        claimed += max(0, bytes_expected - group.memory.working_set)
    # growth until a snapshot that is too near is seen by the next one
    if growth.at is None or not 0.0 <= picture.at - growth.at < LEAST_GAP_S:
        growth = Growth(_rate(growth, sets, picture.at, tuning), picture.at, sets)
    return growth, Claim(claimed, round(growth.rate * tuning.eviction_s))


def _rate(before: Growth, sets: Mapping[int, int], now_s: float, tuning: ReclaimTuning) -> float:
    """Return the present rate, or the highest before it as far as it has not faded."""
    gap_s = 0.0 if before.at is None else now_s - before.at
    if gap_s <= 0.0:
        return before.rate
    grown = sum(held - before.working_sets[key] for key, held in sets.items() if key in before.working_sets)
    faded: float = before.rate * 0.5 ** (gap_s / tuning.eviction_s)
    return max(faded, grown / gap_s)
