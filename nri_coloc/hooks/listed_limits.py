"""Find the kubelet's memory limit of a listed container whose specification shows the daemon's.

An in-place resize while the daemon is away leaves the kubelet's new limit in the specification; a resize before that
leaves a part of it, as `memory-limit` orders. Nothing says which. The limit that is likely counts for the values that
the daemon writes, and only the certain part of it counts as a memory request (`Container.certain_limit`).
"""

from collections.abc import Callable

from nri_coloc.core.knobs import Original
from nri_coloc.core.value import replace
from nri_coloc.core.workload import Container, KubeQoS, Pod, Wish, known_memory_limit
from nri_coloc.placing import record
from nri_coloc.placing.record import Record

WishOf = Callable[[Container], Wish]


def ours(memory: Record, container: Container, wish: Wish) -> frozenset[str]:
    """Return the names of our values that a specification may hold, by a container's record and its wish.

    A limit that is ordered and is the kubelet's too is not ours at creation. It may be ours since: an update ordered it
    in place of the kubelet's next one.
    """
    names = frozenset(record.ours_in(memory, container.resources))
    ordered = wish.annotated.memory_limit
    return names | {"memory_limit"} if ordered and ordered == container.resources.memory_limit else names


def by_record(container: Container, wish: Wish, wish_of: WishOf) -> tuple[Container, Wish]:
    """Return a container with a record and its wish, both by the kubelet's likely limit.

    wish: by the limit at its creation.
    """
    resized = record.resized_since(container, wish)
    if resized is None:
        return container, wish
    again = wish_of(resized)
    # only a percentage follows the limit: another amount in the spec shows no resize
    explains = again.annotated.memory_limit == container.resources.memory_limit
    return (resized, again) if explains else (container, wish)


def by_journal(container: Container, found: Original, wish_of: WishOf) -> tuple[Container, Wish]:
    """Return the same for a container without a record, by the journal of a previous process.

    It started while no daemon of ours ran, or its creation was not answered.
    """
    if not found.ours:
        return container, wish_of(container)
    spec = container.resources
    was = {name: getattr(found.values, name) for name in found.ours}
    container = replace(container, resources=replace(spec, **was), journalled=found)
    wish = wish_of(container)
    limit = record.limit_since(found.values.memory_limit, wish, spec.memory_limit)
    if limit is None:
        return container, wish
    resized = replace(container, resources=replace(container.resources, memory_limit=limit))
    again = wish_of(resized)
    if again.annotated.memory_limit == spec.memory_limit:
        return resized, again
    kubelets = replace(container, resources=replace(container.resources, memory_limit=spec.memory_limit))
    return kubelets, wish_of(kubelets)


def certain(pod: Pod, container: Container, shown: Container, wish_of: WishOf) -> int | None:
    """Return bytes that the kubelet's limit, which ours hides, cannot be below; None if nothing follows from it.

    If ours is a percentage of the kubelet's, the kubelet's is at least the lower one of the limit in the specification
    and the likely one. Any other limit of ours says nothing of the kubelet's.

    container: with the kubelet's likely values.
    shown: with the values in the specification.
    """
    limit = known_memory_limit(container)
    if not limit or pod.kube_qos not in (KubeQoS.GUARANTEED, KubeQoS.BURSTABLE):
        return None
    own = replace(container, record="", journalled=None)
    larger = replace(own, resources=replace(own.resources, memory_limit=2 * limit))
    is_part = wish_of(own).annotated.memory_limit != wish_of(larger).annotated.memory_limit
    return min(limit, known_memory_limit(shown)) if is_part else 0
