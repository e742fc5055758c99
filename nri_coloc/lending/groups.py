"""Choose the cgroups that a fast tick reads: as few as give the same figures; pure.

A QoS cgroup is read in place of many pods if the result is exact. The reclaimed pods' usage in it is its usage less
that of its other pods. Its pressure counts for online pods only under three conditions. Nothing but online pods live
in it; none of them has a quota, because PSI counts a cgroup's own throttling as stall; and all run on CPUs that the
reclaim pool may use. A pod that the daemon does not know yet does no harm: without a sandbox its cgroup has no task,
and the runtime reports a sandbox before it runs.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.readings import Role

MOST_TOGETHER: Final = 4
"""The most cgroups that a tier's figure may subtract. With more, its members are read round-robin, one by one."""

MOST_OF_A_POD: Final = 16
"""The most files of one pod's containers that the sums read at each tick, because a pod may have hundreds.

The use of those beyond it counts as use of lendable CPUs by online pods."""

Paths = tuple[str, ...]


class ContainerFacts(NamedTuple):
    """One container's cgroup. All tasks of a VM are one container, in the pod's own cgroup.

    path: below the hierarchy's root.
    apart: it runs only on owned CPUs, where no reclaimed task runs.
    limited: it has a CPU quota.
    boxed: it is reclaimed, and its pod is not.
    """

    path: str
    apart: bool = False
    limited: bool = False
    boxed: bool = False

    @property
    def is_plain(self) -> bool:
        """Return whether its pod's pressure can be read as a whole."""
        return not (self.apart or self.limited or self.boxed)


class PodFacts(NamedTuple):
    """One pod's cgroup.

    path: below the hierarchy's root.
    role: BOX (reclaimed), ONLINE, or SYSTEM for node agents.
    containers: its containers; needed for ONLINE and SYSTEM only.
    shares_box: whether reclaimed tasks may run on its CPUs.
    apart: all of its containers are `apart`; never true for BOX.
    is_whole: whether `containers` are all of its containers: its use less that of some is that of the others.
    """

    path: str
    role: Role
    containers: tuple[ContainerFacts, ...] = ()
    shares_box: bool = True
    apart: bool = False
    is_whole: bool = True


class TierFacts(NamedTuple):
    """One pod's cgroup and its tier.

    path: "" if no cgroup belongs to this pod alone.
    tier: the tier of all tasks in the cgroup, "" if there is more than one.
    containers: in that case the cgroup and the tier of each container that is in a tier.
    """

    path: str
    tier: str = ""
    containers: tuple[tuple[str, str], ...] = ()


_Pod = TypeVar("_Pod", PodFacts, TierFacts)


class _Family(NamedTuple, Generic[_Pod]):
    """The pods below one cgroup. `together`: it is a QoS cgroup that holds only cgroups of pods."""

    parent: str
    pods: list[_Pod]
    together: bool


@dataclass(frozen=True, slots=True)
class Facts:
    """The inputs of the choice.

    kubepods: its path; one for each kubelet whose pods are known, none before the first pod.
    pods: all pods of the node.
    host_groups: cgroups outside Kubernetes that belong to the reclaim cgroups.
    beside: cgroups beside kubepods (`cgroup_layout.beside`).
    reserved: CPUs that are neither lent nor owned.

    Without `beside`, the use of the rest of the node is the root's usage less that of kubepods. That is complete,
    with kernel threads, and exact on v1. On v2 the root's counter is made of clock ticks and costs more with more
    CPUs. With `beside`, each of its cgroups is read exactly, but kernel threads and interrupts are in none of them.
    """

    kubepods: Paths = ()
    pods: tuple[PodFacts, ...] = ()
    host_groups: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    reserved: CPUMask = 0


class Group(NamedTuple):
    """The cgroup paths of one sample: usage of `add` less usage of `less`, and pressure of `stalled`.

    role: the meaning of the sample.
    throttled: the cgroups whose quotas act on it.
    shares_box: whether reclaimed tasks may run on its CPUs.
    cpus: for RESERVED, its CPUs.
    tier: for TIER, the tier's name.
    """

    role: Role
    add: tuple[str, ...] = ()
    less: tuple[str, ...] = ()
    stalled: str = ""
    throttled: tuple[str, ...] = ()
    shares_box: bool = True
    cpus: CPUMask = 0
    tier: str = ""


def choose(facts: Facts) -> tuple[Group, ...]:
    """Return the groups to read. The same facts give equal groups, whose files then stay open."""
    families = _families(facts.kubepods, facts.pods)
    return (*_node(facts), *_box(facts, families), *_apart(facts, families), *_online(families))


def choose_tiers(kubepods: Paths, pods: Sequence[TierFacts]) -> tuple[Group, ...]:
    """Return the groups that measure the use of each tier's members. `pods`: all pods of the node."""
    return tuple(_tiers(kubepods, pods))


def _node(facts: Facts) -> Iterator[Group]:
    if facts.reserved:
        yield Group(Role.RESERVED, cpus=facts.reserved)
    # without a known pod below kubepods, it is no cgroup or an empty one: pods use nothing, the rest is all
    yield Group(Role.PODS, facts.kubepods)
    if facts.beside:
        yield from (Group(Role.SYSTEM, (path,)) for path in facts.beside)
    else:
        yield Group(Role.SYSTEM, ("",), facts.kubepods)


def _box(facts: Facts, families: Sequence[_Family[PodFacts]]) -> Iterator[Group]:
    yield from (Group(Role.HOST, (path,)) for path in facts.host_groups)
    boxed = [*_summed(families, lambda pod: pod.role is Role.BOX)]
    boxed += (each for pod in facts.pods for each in _within(pod, lambda one: one.boxed))
    for add, less in boxed:
        # use outside of kubepods is in the rest, as host groups are
        yield Group(Role.BOX if _is_below(facts.kubepods, add[0]) else Role.HOST, add, less)


def _apart(facts: Facts, families: Sequence[_Family[PodFacts]]) -> Iterator[Group]:
    """Yield whole pods on owned CPUs, and single containers of other pods."""
    yield from (
        Group(Role.DEDICATED, *of, shares_box=False) for of in _summed(families, lambda pod: pod.apart)
    )
    for pod in facts.pods:
        if not pod.apart:
            single = _within(pod, lambda one: one.apart)
            yield from (Group(Role.DEDICATED, *of, shares_box=False) for of in single)


def _within(pod: PodFacts, is_meant: Callable[[ContainerFacts], bool]) -> Iterator[tuple[Paths, Paths]]:
    """Yield the paths to add and to subtract for the use of these containers of a pod, as `_summed` does for pods.

    At most `MOST_OF_A_POD` files: of more containers the first ones are read.
    """
    meant = [one.path for one in pod.containers if is_meant(one)]
    others = tuple(one.path for one in pod.containers if not is_meant(one))
    if pod.is_whole and 1 + len(others) < min(len(meant), MOST_OF_A_POD + 1):
        yield (pod.path,), others
    else:
        yield from (((path,), ()) for path in meant[:MOST_OF_A_POD])


def _summed(
    families: Sequence[_Family[PodFacts]], is_meant: Callable[[PodFacts], bool]
) -> Iterator[tuple[Paths, Paths]]:
    """Yield the paths to add and to subtract for the use of these pods.

    They are each pod alone, or a QoS cgroup less its other pods. The variant with fewer files is chosen, because all
    of them are read at each tick.
    """
    for parent, pods, together in families:
        meant = [pod.path for pod in pods if is_meant(pod)]
        others = tuple(pod.path for pod in pods if not is_meant(pod))
        if together and 1 + len(others) < len(meant):
            yield (parent,), others
        else:
            yield from (((path,), ()) for path in meant)


def _online(families: Sequence[_Family[PodFacts]]) -> Iterator[Group]:
    for parent, pods, together in families:
        if together and len(pods) > 1 and all(map(_is_plainly_online, pods)):
            yield Group(Role.ONLINE, (parent,), stalled=parent)
        else:
            heard = [pod for pod in pods if pod.role is Role.ONLINE and not pod.apart]
            yield from (group for pod in heard for group in _of_pod(pod))


def _is_plainly_online(pod: PodFacts) -> bool:
    return pod.role is Role.ONLINE and pod.shares_box and all(one.is_plain for one in pod.containers)


def _of_pod(pod: PodFacts) -> Iterator[Group]:
    """Yield one pod's groups: the whole pod, or its containers if some have a quota, own CPUs or are reclaimed."""
    if all(one.is_plain for one in pod.containers):
        yield Group(Role.ONLINE, stalled=pod.path, shares_box=pod.shares_box)
        return
    for container in pod.containers:
        if not (container.apart or container.boxed):
            # the pod's own quota is the sum of its containers', where all have one; a VM is in its pod's cgroup
            held = tuple(dict.fromkeys((container.path, pod.path))) if container.limited else ()
            yield Group(Role.ONLINE, stalled=container.path, throttled=held, shares_box=pod.shares_box)


def _tiers(kubepods: Paths, pods: Sequence[TierFacts]) -> Iterator[Group]:
    straight = [
        TierFacts(path.rpartition("/")[0]) for pod in pods if not pod.path for path, _ in pod.containers
    ]
    for parent, here, together in _families(kubepods, pods, straight):
        for tier in dict.fromkeys(pod.tier for pod in here if pod.tier):
            members = tuple(dict.fromkeys(pod.path for pod in here if pod.tier == tier))
            # a sandbox that was created again has the cgroup of the previous one
            others = tuple(dict.fromkeys(pod.path for pod in here if pod.path not in members))
            if together and len(others) < min(len(members) - 1, MOST_TOGETHER):
                yield Group(Role.TIER, (parent,), others, tier=tier)
            else:
                yield from (Group(Role.TIER, (path,), tier=tier) for path in members)
    for pod in pods:
        yield from (Group(Role.TIER, (path,), tier=tier) for path, tier in pod.containers)


def _families(kubepods: Paths, pods: Iterable[_Pod], straight: Iterable[_Pod] = ()) -> list[_Family[_Pod]]:
    """Return the pods by their parent cgroup. `straight`: other cgroups that are known to hold containers directly.

    In kubepods itself the QoS cgroups lie beside the Guaranteed pods. A container that was started by hand may lie
    directly in a QoS cgroup; it appears as a pod with that path.
    """
    found: dict[str, list[_Pod]] = {}
    lived_in = {pod.path for pod in straight}
    for pod in pods:
        lived_in.add(pod.path)
        found.setdefault(pod.path.rpartition("/")[0], []).append(pod)
    return [
        _Family(parent, here, _is_below(kubepods, parent) and parent not in lived_in)
        for parent, here in found.items()
    ]


def _is_below(kubepods: Paths, path: str) -> bool:
    return any(path.startswith(f"{each}/") for each in kubepods)
