"""Which cgroups a fast tick looks at: as few as can tell the same; pure.

A QoS cgroup stands for many pods where that is exact. Its usage, less that of the pods in it that are not meant, is
the box's part of it; its pressure counts for online pods only where nothing but such pods live in it, none with
a quota (PSI counts a cgroup's own throttling as stall) and all on CPUs that the box may use. A pod that nobody has
told us of cannot be wronged by it: without a sandbox its cgroup has no task, and sandboxes are told before they run.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.readings import Role

MOST_TOGETHER: Final = 4
"""How many other pods may be subtracted for one figure of a tier; beyond it the members are read round-robin, each with
its own time."""

Paths = tuple[str, ...]


class ContainerFacts(NamedTuple):
    """`path` below the hierarchy's root. `apart`: it runs only on CPUs that somebody owns, so that no reclaimed task
    is there; `limited`: it has a CPU quota; `boxed`: it is of the box, and its pod is not. All that runs in a VM is one
    container in its pod's own cgroup."""

    path: str
    apart: bool = False
    limited: bool = False
    boxed: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether its pod's pressure is its own, and counts."""
        return not (self.apart or self.limited or self.boxed)


class PodFacts(NamedTuple):
    """A pod's cgroup and whose it is: BOX, ONLINE, or SYSTEM for node agents; `containers` matter for the last two.
    `apart`: all of its containers are; never of BOX."""

    path: str
    role: Role
    containers: tuple[ContainerFacts, ...] = ()
    shares_box: bool = True
    apart: bool = False


class TierFacts(NamedTuple):
    """A pod's cgroup ("" if none is its alone) and the one tier of all that runs in it; where that is not so, "", and
    `containers` has the cgroup and the tier of each container that is in one."""

    path: str
    tier: str = ""
    containers: tuple[tuple[str, str], ...] = ()


_Pod = TypeVar("_Pod", PodFacts, TierFacts)


class _Family(NamedTuple, Generic[_Pod]):
    """The pods below one cgroup. `together`: it is a QoS cgroup with nothing but pods' own cgroups in it."""

    parent: str
    pods: list[_Pod]
    together: bool


@dataclass(frozen=True, slots=True)
class Facts:
    """What the choice needs to know. `kubepods`: "" if nobody is known to be below it.

    Without `beside` the rest of the node is the root's usage less that of kubepods: complete, with kernel threads, and
    exact on v1; on v2 the root's counter is made of clock ticks and costs more the more CPUs there are. With it (see
    `cgroup_layout.beside`) each of those is read exactly, but kernel threads and interrupts are in none of them.
    `host_groups`: cgroups outside Kubernetes that belong to the box. `reserved`: CPUs that are neither lent nor those
    of anybody who is apart.
    """

    kubepods: str = ""
    pods: tuple[PodFacts, ...] = ()
    host_groups: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    reserved: CPUMask = 0


class Group(NamedTuple):
    """What one sample is made of, by cgroup paths: usage of `add` less that of `less`, pressure of `stalled`.

    `throttled`: the cgroups whose quotas act on it; `cpus`: for RESERVED, which CPUs; `tier`: for TIER, which one.
    """

    role: Role
    add: tuple[str, ...] = ()
    less: tuple[str, ...] = ()
    stalled: str = ""
    throttled: tuple[str, ...] = ()
    shares_box: bool = True
    cpus: CPUMask = 0
    tier: str = ""

    @property
    def is_nobody(self) -> bool:
        """Whether it is made of no cgroup, and so uses nothing."""
        return not (self.add or self.stalled)


def choose(facts: Facts) -> tuple[Group, ...]:
    """Return the groups to read; the same facts give equal groups, whose files then stay open."""
    families = _families(facts.kubepods, facts.pods)
    return (*_node(facts), *_box(facts, families), *_apart(facts, families), *_online(families))


def choose_tiers(kubepods: str, pods: Sequence[TierFacts]) -> tuple[Group, ...]:
    """Return the groups that tell what the members of each tier use; all pods of the node are `pods`."""
    return tuple(_tiers(kubepods, pods))


def _node(facts: Facts) -> Iterator[Group]:
    if facts.reserved:
        yield Group(Role.RESERVED, cpus=facts.reserved)
    # without a known pod below kubepods, it is no cgroup or an empty one: pods use nothing, the rest is all
    kubepods = (facts.kubepods,) if facts.kubepods else ()
    yield Group(Role.PODS, kubepods)
    if facts.beside:
        yield from (Group(Role.SYSTEM, (path,)) for path in facts.beside)
    else:
        yield Group(Role.SYSTEM, ("",), kubepods)


def _box(facts: Facts, families: Sequence[_Family[PodFacts]]) -> Iterator[Group]:
    yield from (Group(Role.HOST, (path,)) for path in facts.host_groups)
    boxed = [*_summed(families, lambda pod: pod.role is Role.BOX)]
    boxed += (((one.path,), ()) for pod in facts.pods for one in pod.containers if one.boxed)
    for add, less in boxed:
        # use outside of kubepods is in the rest, as host groups are
        yield Group(Role.BOX if _is_below(facts.kubepods, add[0]) else Role.HOST, add, less)


def _apart(facts: Facts, families: Sequence[_Family[PodFacts]]) -> Iterator[Group]:
    """Whole pods, and of others the containers that are."""
    yield from (
        Group(Role.DEDICATED, *of, shares_box=False) for of in _summed(families, lambda pod: pod.apart)
    )
    for pod in facts.pods:
        for container in pod.containers:
            if container.apart and not pod.apart:
                yield Group(Role.DEDICATED, (container.path,), shares_box=False)


def _summed(
    families: Sequence[_Family[PodFacts]], is_meant: Callable[[PodFacts], bool]
) -> Iterator[tuple[Paths, Paths]]:
    """Yield what to add and what to take off for the use of these pods: each by itself, or a QoS cgroup less others.

    Whichever is fewer files, for all of them are read at each tick.
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
    """One pod's groups: the pod as a whole, or its containers where a quota, owned CPUs or the box set them apart."""
    if all(one.is_plain for one in pod.containers):
        yield Group(Role.ONLINE, stalled=pod.path, shares_box=pod.shares_box)
        return
    for container in pod.containers:
        if not (container.apart or container.boxed):
            # the pod's own quota is the sum of its containers', where all have one; a VM is in its pod's cgroup
            held = tuple(dict.fromkeys((container.path, pod.path))) if container.limited else ()
            yield Group(Role.ONLINE, stalled=container.path, throttled=held, shares_box=pod.shares_box)


def _tiers(kubepods: str, pods: Sequence[TierFacts]) -> Iterator[Group]:
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


def _families(kubepods: str, pods: Iterable[_Pod], straight: Iterable[_Pod] = ()) -> list[_Family[_Pod]]:
    """Return the pods by the cgroup that they are in; `straight`: others who are known to live in one.

    In kubepods itself the QoS cgroups lie beside the Guaranteed pods; and whoever asks the runtime by hand may put
    containers straight into a QoS cgroup: a pod with that path.
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


def _is_below(kubepods: str, path: str) -> bool:
    return bool(kubepods) and path.startswith(f"{kubepods}/")
