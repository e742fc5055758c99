"""Choose the memory nodes of a bound container: where its CPUs and its memory fit, and which demands are dropped.

The attempts are ordered, and each demands a little less than the wish (docs/placement.md has the order): more nodes,
then nodes that are not whole, then memory that is not bound, and last nodes that were not listed. Several nodes are
of one socket if one has enough. The last attempt always fits: all nodes, by their CPUs alone.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import or_
from typing import Final

from nri_coloc.core import cpuset
from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.decisions import Considered
from nri_coloc.core.value import replace
from nri_coloc.core.workload import Numa, Placement, Wish
from nri_coloc.placing.search import Field

MEMORY: Final = "memory"
"""In `Binding.lost`: no nodes have enough memory, so memory is not bound."""


_UNTOLD: Final = 1 << 62
"""Memory of each node if the kernel reports none: more than any request."""


@dataclass(frozen=True, slots=True)
class Binding:
    """The CPUs to search, and the demands that were dropped.

    parts: each a set of CPUs, and how many to take from it.
    mems: nodes whose memory is needed together; 0: the nodes of the CPUs that the search finds.
    lost: dropped demands of the wish, in the words of its keys.
    """

    parts: tuple[tuple[CPUMask, int], ...]
    mems: CPUMask = 0
    lost: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Node:
    """The free resources of one node.

    socket: number of its socket.
    cpus: free CPUs that the placement can use.
    fit: how many CPUs these are.
    bytes: memory that is not promised yet.
    whole: all CPUs of it that may be owned are free.
    """

    id: int
    socket: int
    cpus: CPUMask
    fit: int
    bytes: int
    whole: bool


@dataclass(frozen=True, slots=True)
class _Need:
    """The demand of a container.

    count: number of CPUs.
    memory: bytes; None: memory does not matter any more, not even whether a node has any.
    """

    count: int
    memory: int | None

    def met_by(self, nodes: Sequence[_Node]) -> bool:
        if sum(n.fit for n in nodes) < self.count:
            return False
        if self.memory is None:
            return True
        return all(n.bytes > 0 for n in nodes) and sum(n.bytes for n in nodes) >= self.memory


def bind(field: Field, considered: Considered) -> Binding:
    """Return the first attempt that fits, for a wish with a binding; the field has the CPUs asked for."""
    ladder = _ladder(field, considered)
    tried = ((choose(nodes, need), lost) for nodes, need, choose, lost in ladder)
    return next(replace(found, lost=lost) for found, lost in tried if found is not None)


Chooser = Callable[[Sequence[_Node], _Need], Binding | None]
Rungs = list[tuple[Sequence[_Node], tuple[str, ...]]]


def _ladder(
    field: Field, considered: Considered
) -> list[tuple[Sequence[_Node], _Need, Chooser, tuple[str, ...]]]:
    """Return every attempt in its order: nodes to choose from, need, way to choose, and demands that it drops."""
    count, bytes_, wish = considered.count, considered.room.bytes, considered.wish
    needs = ((_Need(count, bytes_), ()), (_Need(count, None), (MEMORY,)))
    return [
        (among, need, choose, (*unlisted, *unbound, *broken, *more))
        for listed, unlisted in _lists(_nodes(field, considered), wish)
        for need, unbound in needs
        for among, broken in _wholes(listed, wish)
        for choose, more in _ways(field, wish)
    ]


def _nodes(field: Field, considered: Considered) -> list[_Node]:
    topology, room = field.topology, considered.room
    left = dict(room.left)
    untold = 0 if topology.tells_memory else _UNTOLD
    base = topology.usable if considered.free & topology.usable else topology.aside
    ownable = base & (room.ownable or base)
    found = []
    for node in topology.nodes:
        cpus = node.cpus & field.free
        if cpus:
            socket = next(at for at, package in enumerate(topology.packages) if package & cpus)
            whole = node.cpus & ownable & ~considered.free == 0
            memory = left.get(node.id, node.memory_bytes) or untold
            found.append(
                _Node(id=node.id, socket=socket, cpus=cpus, fit=cpus.bit_count(), bytes=memory, whole=whole)
            )
    return found


def _lists(nodes: Sequence[_Node], wish: Wish) -> Rungs:
    """Return the listed nodes, then all nodes."""
    if not wish.numa_ids:
        return [(nodes, ())]
    return [([n for n in nodes if wish.numa_ids >> n.id & 1], ()), (nodes, ("numa-ids",))]


def _wholes(nodes: Sequence[_Node], wish: Wish) -> Rungs:
    """Return the nodes that are free as a whole if the wish demands these, then all nodes."""
    if wish.numa is not Numa.EXCLUSIVE:
        return [(nodes, ())]
    return [([n for n in nodes if n.whole], ()), (nodes, ("numa exclusive",))]


Ways = list[tuple[Chooser, tuple[str, ...]]]


def _ways(field: Field, wish: Wish) -> Ways:
    """Return the ways to choose: within one socket if that was wished, then on any sockets."""
    numbers = _numbers(field, wish)
    if not wish.one_socket:
        return numbers
    aligned: Ways = [(partial(_of_one_socket, field, choose), lost) for choose, lost in numbers]
    return [*aligned, *((choose, ("one socket", *lost)) for choose, lost in numbers)]


def _numbers(field: Field, wish: Wish) -> Ways:
    """Return the ways to choose by number of nodes: as many as wished, one, the fewest that fit."""
    one = partial(_one, field, wish.placement)
    # whole cores go before equal parts, unless these were wished
    unit = 1 if wish.evenly and wish.placement is not Placement.FULL_CORES else field.threads
    even: Ways = [(partial(_fewest_even, unit), ())] if wish.evenly else []
    fewest: Ways = [*even, (_fewest, ("even parts",) if wish.evenly else ())]
    if wish.numa_count > 1:
        others: Ways = [(one, ()), *fewest]
        less: Ways = [(choose, ("numa-count", *lost)) for choose, lost in others]
        return [(partial(_even, unit, wish.numa_count), ()), *less]
    single = ("one node",) if wish.numa_count == 1 or wish.numa is Numa.SINGLE else ()
    return [(one, ()), *((choose, (*single, *lost)) for choose, lost in fewest)]


def _of_one_socket(field: Field, choose: Chooser, nodes: Sequence[_Node], need: _Need) -> Binding | None:
    """Return a choice that lies in one socket, None if the way finds none.

    Each way prefers one socket, so that no second choice needs to be tried.
    """
    found = choose(nodes, need)
    if found is None or not found.mems:  # one node will be taken
        return found
    cpus = reduce(or_, (part for part, _ in found.parts))
    return found if any(cpus & ~package == 0 for package in field.topology.packages) else None


def _one(field: Field, placement: Placement, nodes: Sequence[_Node], need: _Need) -> Binding | None:
    """Return a binding to one node: all nodes that can hold the request, of which the search chooses one.

    If the search cannot choose among nodes, only the best node is returned.
    """
    holding = [n for n in nodes if need.met_by([n])]
    if not holding:
        return None
    if placement is Placement.SPREAD:
        holding = [max(holding, key=lambda n: (n.fit, -n.id))]
    # nodes that split cores are no level to search
    elif field.topology.node_level not in field.topology.near:
        holding = [min(holding, key=lambda n: (n.fit, n.id))]
    return Binding(((_cpus(holding), need.count),))


def _cpus(nodes: Iterable[_Node]) -> CPUMask:
    return reduce(or_, (n.cpus for n in nodes))


def _ids(nodes: Iterable[_Node]) -> CPUMask:
    return cpuset.of(n.id for n in nodes)


def _even(unit: int, number: int, nodes: Sequence[_Node], need: _Need) -> Binding | None:
    """Return a binding that divides a request evenly over `number` nodes; None if that does not fit.

    unit: CPUs that stay together, the threads of a core or 1; used if the request has one unit for each node.
    """
    if number > min(need.count, len(nodes)):
        return None
    shares = _shares(need.count, number, unit)
    least = _Need(shares[-1], None if need.memory is None else -(-need.memory // number))
    by_socket = _by_socket([n for n in nodes if least.met_by([n])])
    aligned = [(found, group) for group in by_socket if (found := _fitting(group, shares))]
    if aligned:
        chosen, _ = min(aligned, key=lambda pair: sum(n.fit for n in pair[1]))
    else:
        by_socket.sort(key=lambda group: -len(group))
        order = [n for group in by_socket for n in group]
        tried = (_fitting(order[:end], shares) for end in range(number, len(order) + 1))
        chosen = next((found for found in tried if found), [])
    if not chosen:
        return None
    return Binding(tuple((n.cpus, share) for n, share in chosen), _ids(n for n, _ in chosen))


def _fitting(nodes: Sequence[_Node], shares: Sequence[int]) -> list[tuple[_Node, int]]:
    """Return nodes with their parts, the tightest nodes that hold them; [] if not all parts fit.

    The lower nodes have the larger parts if these fit.
    """
    left = sorted(nodes, key=lambda n: (n.fit, n.id))
    found = []
    for share in reversed(shares):
        tightest = next((n for n in left if n.fit >= share), None)
        if tightest is None:
            return []
        left.remove(tightest)
        found.append((tightest, share))
    found.sort(key=lambda pair: pair[0].id)
    by_id = [(n, share) for (n, _), share in zip(found, shares, strict=True)]
    return by_id if all(n.fit >= share for n, share in by_id) else found


def _fewest_even(unit: int, nodes: Sequence[_Node], need: _Need) -> Binding | None:
    """Return a binding that divides a request evenly over the fewest nodes that hold such parts."""
    tried = (_even(unit, number, nodes, need) for number in range(2, len(nodes) + 1))
    return next((found for found in tried if found is not None), None)


def _shares(count: int, number: int, unit: int) -> list[int]:
    """Return the parts, largest first: whole units, and CPUs beyond whole units in one of the smaller parts."""
    if count // unit < number:
        unit = 1
    units, odd = divmod(count, unit)
    shares = [unit * (units // number + (at < units % number)) for at in range(number)]
    shares[units % number] += odd
    return sorted(shares, reverse=True)


def _by_socket(nodes: Sequence[_Node]) -> list[list[_Node]]:
    """Return the nodes of each socket, the fullest first."""
    groups: dict[int, list[_Node]] = {}
    for node in sorted(nodes, key=lambda n: (n.fit, n.id)):
        groups.setdefault(node.socket, []).append(node)
    return [groups[socket] for socket in sorted(groups)]


def _fewest(nodes: Sequence[_Node], need: _Need) -> Binding | None:
    """Return the fewest nodes that hold a request together, of one socket if one has enough."""
    usable = [n for n in nodes if need.memory is None or n.bytes > 0]
    for groups in (_by_socket(usable), [usable]):
        found = [enough for group in groups if (enough := _enough(group, need))]
        if found:
            best = min(found, key=lambda group: (len(group), sum(n.fit for n in group)))
            return Binding(((_cpus(best), need.count),), _ids(best))
    return None


def _enough(group: Sequence[_Node], need: _Need) -> list[_Node]:
    """Return few nodes of a group that together hold the request; an empty list if the whole group does not.

    They are taken by most CPUs, and by most memory; the shorter list of the two is returned.
    """
    if not need.met_by(group):
        return []
    sockets = {
        socket: sum(n.fit for n in group if n.socket == socket) for socket in {n.socket for n in group}
    }
    by_cpus = sorted(group, key=lambda n: (-sockets[n.socket], n.socket, -n.fit, n.id))
    by_memory = sorted(group, key=lambda n: (-sockets[n.socket], n.socket, -n.bytes, n.id))
    return min((_pruned(order, need) for order in (by_cpus, by_memory)), key=len)


def _pruned(order: list[_Node], need: _Need) -> list[_Node]:
    """Return the shortest beginning of the order that holds the request, without nodes that are not needed."""
    taken = next(order[:end] for end in range(1, len(order) + 1) if need.met_by(order[:end]))
    for node in reversed(taken):
        others = [n for n in taken if n is not node]
        if need.met_by(others):
            taken = others
    return taken
