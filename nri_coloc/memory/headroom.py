"""Compute how much memory the reclaim cgroups may hold, from the node's memory and the online pods' claims.

There are two bounds, in bytes of use, page cache included, as memory.high counts it. One is for all reclaim cgroups,
the other for the reclaimed pods alone: host groups lie outside of kubepods, so that its limit does not count them.

    node:     available + held − claim − growth − reserve − margin
      available = free + inactive file + ½ active file + ½ reclaimable slab − low watermarks
      held      = use of the reclaim cgroups that `available` does not contain already:
                  use − inactive file − ½ other file that no process locks − ½ reclaimable slab
    kubepods: limit − working set + the working set of the reclaimed pods − claim − growth − margin

`margin` (`core.memory_margin`) keeps lent memory from causing an eviction, by the daemon or by the kubelet. Both bounds
are multiplied by `lend`, the part that the schedule lends. If it falls, page cache is taken back by steps; anonymous
memory stays (`division`).

`available` follows the kernel's own MemAvailable (mm/show_mem.c, si_mem_available). That counts page cache and
reclaimable slab, less the low watermarks or half of it, whichever is less: at least half. Active pages and slab count
at that half, because the online pods' working sets hold them too. `claim` = Σ max(0, expected − working set) over the
online pods, where `expected` is promised or peak memory (`forecast.expectations`). `growth` = their rate of growth ·
eviction_s, the time until the memory of an evicted pod is free. The rate is held at its highest and fades by half per
eviction_s. A pod counts with the rate at which it would reach its own limit in that time, at most: else a small pod
that swings would claim many times its limit.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Final, NamedTuple

from nri_coloc.core import memory_margin
from nri_coloc.core.apportionment import apportion
from nri_coloc.core.lending import Binding
from nri_coloc.core.readings import GroupReading, MemoryReading, NodeReading, Picture
from nri_coloc.core.settings import ReclaimTuning

LEAST_GAP_S: Final = 1.0
"""Seconds between two snapshots that give a rate.

An order (pause, reload) takes a snapshot right after another one. A few pages within 80 ms would become gigabytes
over the time of an eviction. The slow loop's own snapshots are at least a second apart.
"""


@dataclass(frozen=True, slots=True)
class Growth:
    """The online pods' growth of memory.

    rate: bytes a second.
    at: time of its computation.
    working_sets: working sets then, bytes, by the identity of the cgroup.
    """

    rate: float = 0.0
    at: float | None = None
    working_sets: Mapping[int, int] = field(default_factory=dict)


class Terms(NamedTuple):
    """The terms of both bounds, bytes.

    margin: what lending leaves on the node.
    kubepods_limit: None for no limit.
    kubepods_margin: what lending leaves below that limit; 0 without one.
    box_working_set: of the reclaimed pods in kubepods, without host groups.
    """

    free: int
    page_cache: int
    kernel_watermark: int
    held_by_box: int
    claimed: int
    growth: int
    reserve: int
    margin: int
    kubepods_limit: int | None
    kubepods_margin: int
    kubepods_working_set: int
    box_working_set: int

    @property
    def by_node(self) -> int:
        """Return the bytes that the machine leaves for the reclaim cgroups."""
        available = self.free + self.page_cache - self.kernel_watermark
        return available + self.held_by_box - self.claimed - self.growth - self.reserve - self.margin

    @property
    def by_limit(self) -> int | None:
        """Return the bytes that kubepods' limit leaves for the reclaimed pods; None without a limit."""
        if self.kubepods_limit is None:
            return None
        left = self.kubepods_limit - self.kubepods_working_set + self.box_working_set
        return left - self.claimed - self.growth - self.kubepods_margin


class Room(NamedTuple):
    """Some members' memory, bytes.

    amount: the most that they may hold together, ≥ 0.
    held: their present use.
    unreclaimable: the part of it that cannot be reclaimed.
    """

    amount: int
    held: int = 0
    unreclaimable: int = 0


class MemoryHeadroom(NamedTuple):
    """The memory that the reclaim cgroups may hold, bytes.

    amount: all of it, ≥ 0.
    binding: the bound that decided.
    held: present use.
    unreclaimable: the part of `held` that cannot be reclaimed.
    by_node: `amount` divided by memory node.
    terms: every figure of the formula.
    pods: the amount that kubepods' own limit leaves for the reclaimed pods. None if there is no such limit, or if
        there
        are no host groups: then the limit bounds all reclaim cgroups.
    """

    amount: int
    binding: Binding
    held: int = 0
    unreclaimable: int = 0
    by_node: Mapping[int, int] = {}
    terms: Terms | None = None
    pods: Room | None = None


class Claim(NamedTuple):
    """The memory that the online pods may still take, bytes.

    pods: up to their expectation.
    growth: during an eviction.
    """

    pods: int = 0
    growth: int = 0


# --- headroom --------------------------------------------------------------------------------------------


def headroom_memory(
    picture: Picture, box: Mapping[str, GroupReading], claim: Claim, tuning: ReclaimTuning
) -> MemoryHeadroom | None:
    """Return the memory that the reclaim cgroups may hold, bytes.

    None if the memory of the node or of kubepods could not be read. `box`: the members' readings by pod or host
    group. A member that could not be read counts as holding nothing, which makes the result smaller. A member that is
    not among the snapshot's pods is a host group: outside of kubepods, bounded by the node alone.
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
    if tuning.lend < 0.5:  # as for the claim: without it more than twice as much could be lent
        binding = Binding.SCHEDULE
    amount, by_limit = int(amount * tuning.lend), None if by_limit is None else int(by_limit * tuning.lend)
    of_pods = _room(by_limit, members.pods) if by_limit is not None and has_others else None
    amount, held, unreclaimable = _room(amount, members.all)
    return MemoryHeadroom(
        amount=amount,
        binding=binding,
        held=held,
        unreclaimable=unreclaimable,
        by_node=_by_node(node, amount),
        terms=terms,
        pods=of_pods,
    )


class _Members(NamedTuple):
    """Readings of the reclaim cgroups. `pods`: readings of the pods among them."""

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
        margin=memory_margin.left_on_node(node.memory_total, tuning),
        kubepods_limit=pods.limit,
        kubepods_margin=0 if pods.limit is None else memory_margin.left_below(pods.limit, tuning),
        kubepods_working_set=pods.working_set,
        box_working_set=sum(m.working_set for m in box.pods),
    )


def _held(node: NodeReading, members: list[MemoryReading]) -> int:
    """Return the members' use that is not counted as available, bytes. Their slab is bounded by the node's slab."""
    held = sum(max(0, m.usage - m.inactive_file - max(0, m.cache - m.inactive_file) // 2) for m in members)
    return max(0, held - min(node.slab_reclaimable, sum(m.most_slab for m in members)) // 2)


def _bound_of_machine(amount: int, claim: Claim) -> Binding:
    """Return the binding term: the claim, if without it more than twice as much could be lent."""
    return Binding.ONLINE_CLAIM if claim.pods + claim.growth > max(0, amount) else Binding.FREE_MEMORY


def _by_node(node: NodeReading, amount: int) -> dict[int, int]:
    """Return the amount divided by the memory that each node has above its part of the kernel's watermarks."""
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
    """Return the growth, and the bytes that the online pods may still take. `expected`: bytes by pod id.

    A pod that could not be read claims all its expected use. Only pods in both snapshots, by identity, count as
    growth: a pod that came or went does not.
    """
    sets: dict[int, int] = {}
    limits: dict[int, int] = {}
    claimed = 0
    for pod_id, bytes_expected in expected.items():
        group = picture.pods.get(pod_id)
        if group is None or group.memory is None:
            claimed += bytes_expected
            continue
        sets[group.key] = group.memory.working_set
        if group.memory.limit is not None:
            limits[group.key] = group.memory.limit
        claimed += max(0, bytes_expected - group.memory.working_set)
    # growth until a snapshot that is too near is seen by the next one
    if growth.at is None or not 0.0 <= picture.at - growth.at < LEAST_GAP_S:
        growth = Growth(_rate(growth, sets, limits, picture.at, tuning), picture.at, sets)
    return growth, Claim(claimed, round(growth.rate * tuning.eviction_s))


def _rate(
    before: Growth, sets: Mapping[int, int], limits: Mapping[int, int], now_s: float, tuning: ReclaimTuning
) -> float:
    """Return the present rate, or the highest earlier rate as far as it has not faded.

    sets, limits: working sets and memory limits by the identity of the cgroup, bytes.
    """
    gap_s = 0.0 if before.at is None else now_s - before.at
    if gap_s <= 0.0:
        return before.rate
    part = gap_s / tuning.eviction_s
    grown = sum(
        min(held - before.working_sets[key], limits.get(key, inf) * part)
        for key, held in sets.items()
        if key in before.working_sets
    )
    faded: float = before.rate * 0.5**part
    return max(faded, grown / gap_s)
