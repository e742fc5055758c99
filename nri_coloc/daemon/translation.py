"""From a hook's messages to the policy's events: facts by `nri.codec`, wishes by `config.annotations`.

A pod that the state knows is not decoded again; one that it does not know is taken from the hook itself, since
events get lost around a registration. No I/O.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from nri_coloc.config import annotations
from nri_coloc.config.vocabularies import order
from nri_coloc.daemon.listing import Listing
from nri_coloc.model import cpuset
from nri_coloc.model.events import (
    ContainerCreating,
    ContainerStarting,
    ContainerUpdating,
    PodStarted,
    Synchronized,
)
from nri_coloc.model.knobs import Original
from nri_coloc.model.metadata import KnownKeys
from nri_coloc.model.state import NodeState
from nri_coloc.model.tuning import Tuning
from nri_coloc.model.workload import KEPT_BY_DRA, KEPT_BY_KUBELET, Container, Pod, QoSClass, Resources, Wish
from nri_coloc.nri import codec
from nri_coloc.nri.events import Hook
from nri_coloc.policy import claim, record
from nri_coloc.policy.update import merge
from nri_coloc.reclaim import workload


class Translator:
    """Reads pods and containers, and their wishes.

    memory_bytes: the machine's memory, for parts of it.
    tuning: of the start; its rules name labels and annotations that are read.
    journalled: the figures that a previous process changed in a container's spec, by its journal.
    """

    def __init__(
        self, memory_bytes: int, tuning: Tuning, journalled: Callable[[Container], Original]
    ) -> None:
        self._memory_bytes = memory_bytes
        self._journalled = journalled
        self._reader = codec.Reader(_known_keys(tuning))

    def listing(self) -> Listing:
        """Return an empty list, for the parts of a Synchronize."""
        return Listing(self._reader)

    def read_also(self, tuning: Tuning) -> bool:
        """Read from now on the names of another tuning's rules, too; return whether there are more than before.

        Pods that were read before lack it until the runtime lists them again.
        """
        known = self._reader.known.with_also(_known_keys(tuning))
        if known == self._reader.known:
            return False
        self._reader = codec.Reader(known)
        return True

    def wish(self, pod: Pod, container: Container, tuning: Tuning) -> Wish:
        """Read a container's wish from its pod's annotations and the kubelet's own values."""
        found = annotations.resolve(pod, record.before_us(container), tuning, self._memory_bytes)
        return _unless_anothers(found, pod, container, tuning)

    def _wish(self, state: NodeState, pod: Pod, container: Container, tuning: Tuning) -> Wish:
        place = state.pods.get(pod.id)
        as_pod = annotations.resolve_as_pod(place.wish, container) if place is not None else None
        if as_pod is None:
            return self.wish(pod, container, tuning)
        return _unless_anothers(as_pod, pod, container, tuning)

    def pod_wish(self, pod: Pod, tuning: Tuning) -> Wish:
        """Read a pod's own wish."""
        found = annotations.resolve_pod(pod, tuning)
        if pod.uid in tuning.kept_by_kubelet and found.qos is QoSClass.RECLAIMED:
            # a limit on the pod's cgroup would reach the containers that the kubelet has pinned
            return replace(found, mixed=True, plain=False)
        return found

    def pod_of(self, hook: Hook, state: NodeState) -> Pod:
        """Return the pod of a hook, from the state if it is known."""
        place = state.pods.get(hook.pod.id)
        return place.pod if place is not None else self._reader.pod_of(hook.pod)

    def pod_started(self, hook: Hook, tuning: Tuning) -> PodStarted:
        """Translate RunPodSandbox."""
        pod = self._reader.pod_of(hook.pod)
        return PodStarted(pod, self.pod_wish(pod, tuning))

    def creating(self, hook: Hook, state: NodeState, tuning: Tuning) -> ContainerCreating:
        """Translate CreateContainer."""
        pod, container = self._subject(hook, state)
        return ContainerCreating(pod, container, self._wish(state, pod, container, tuning))

    def starting(self, hook: Hook, state: NodeState, tuning: Tuning, *, running: bool) -> ContainerStarting:
        """Translate StartContainer, and PostStartContainer as running."""
        pod, container = self._subject(hook, state)
        return ContainerStarting(pod, container, self._wish(state, pod, container, tuning), running)

    def updating(self, hook: Hook, state: NodeState, tuning: Tuning) -> ContainerUpdating:
        """Translate UpdateContainer."""
        pod, container = self._subject(hook, state)
        requested = codec.resources_of(hook.resources) if hook.resources is not None else Resources()
        known = state.containers.get(container.id)
        kubelets = record.before_us(container) if known is None else record.facts_of(container, known)
        figures = replace(requested, cpus="", mems="")
        asked = replace(kubelets, resources=merge(kubelets.resources, figures), record="")
        return ContainerUpdating(pod, container, self.wish(pod, asked, tuning), requested)

    def synchronized(
        self, pods: Mapping[str, Pod], containers: Sequence[Container], state: NodeState, tuning: Tuning
    ) -> Synchronized:
        """Translate the runtime's whole list; a container whose pod is not in it gets an empty pod."""
        in_pods: dict[str, list[int]] = {pod_id: [] for pod_id in pods}
        for place, container in enumerate(containers):
            in_pods.setdefault(container.pod_id, []).append(place)
        listed: dict[int, tuple[Container, Wish]] = {}
        wishes: list[tuple[Pod, Wish]] = []
        for pod_id, places in in_pods.items():  # pod by pod: a pod's annotations are parsed once
            pod = pods.get(pod_id)
            if pod is not None:
                wishes.append((pod, self.pod_wish(pod, tuning)))
            for place in places:
                listed[place] = self._listed(containers[place], pod or Pod(pod_id), state, tuning)
        return Synchronized(tuple(wishes), tuple(listed[place] for place in range(len(containers))))

    def _listed(
        self, container: Container, pod: Pod, state: NodeState, tuning: Tuning
    ) -> tuple[Container, Wish]:
        """Return a listed container with its wish, as of the kubelet's latest values: a record tells those of the
        day of creation, what we know or the spec shows is newer (decision 19)."""
        known = state.containers.get(container.id)
        if known is not None:
            return container, self.wish(pod, record.facts_of(container, known), tuning)
        if record.read(container.record) is None:
            return self._listed_without_record(container, pod, tuning)
        wish = self.wish(pod, container, tuning)
        resized = record.resized_since(container, wish)
        if resized is None:
            return container, wish
        again = self.wish(pod, resized, tuning)
        # only a part of the limit follows it: of an amount, another one in the spec tells of no resize
        explains = again.annotated.memory_limit == container.resources.memory_limit
        return (resized, again) if explains else (container, wish)

    def _listed_without_record(
        self, container: Container, pod: Pod, tuning: Tuning
    ) -> tuple[Container, Wish]:
        """Do so for one that ran before we came, or whose creation we did not answer, by a former life's journal."""
        found = self._journalled(container)
        if not found.ours:
            return container, self.wish(pod, container, tuning)
        spec = container.resources
        was = {name: getattr(found.values, name) for name in found.ours}
        container = replace(container, resources=replace(spec, **was), journalled=found)
        wish = self.wish(pod, container, tuning)
        limit = record.limit_since(found.values.memory_limit, wish, spec.memory_limit)
        if limit is None:
            return container, wish
        resized = replace(container, resources=replace(container.resources, memory_limit=limit))
        again = self.wish(pod, resized, tuning)
        if again.annotated.memory_limit == spec.memory_limit:
            return resized, again
        kubelets = replace(container, resources=replace(container.resources, memory_limit=spec.memory_limit))
        return kubelets, self.wish(pod, kubelets, tuning)

    def wishes_again(self, state: NodeState, tuning: Tuning) -> tuple[dict[str, Wish], dict[str, Wish]]:
        """Read every wish anew under another tuning: by container id and by pod id."""
        containers: dict[str, Wish] = {}
        pods: dict[str, Wish] = {}
        for pod_id, place in state.pods.items():
            pods[pod_id] = self.pod_wish(place.pod, tuning)
            for assignment in state.of_pod(pod_id):
                containers[assignment.id] = self.wish(place.pod, assignment.container, tuning)
        for assignment in state.containers.values():
            if assignment.id not in containers:
                pod = Pod(assignment.container.pod_id)
                containers[assignment.id] = self.wish(pod, assignment.container, tuning)
        return containers, pods

    def _subject(self, hook: Hook, state: NodeState) -> tuple[Pod, Container]:
        assert hook.container is not None  # the session gives one to every hook of a container
        pod = self.pod_of(hook, state)
        return pod, codec.container_of(hook.container, pod)


def _known_keys(tuning: Tuning) -> KnownKeys:
    return order.known_keys(tuning).with_also(KnownKeys(labels=workload.LABELS))


def _unless_anothers(wish: Wish, pod: Pod, container: Container, tuning: Tuning) -> Wish:
    """Leave a container's CPUs alone if the DRA CPU driver has given it some, or the kubelet's own CPU manager."""
    driven = claim.by_driver(container)
    if driven:
        because = f"the DRA CPU driver has pinned it to CPUs {cpuset.render(driven)}"
        keep = wish.preserve | {"cpu", KEPT_BY_DRA}
        # its CPUs are its own, whatever its pod is; what only a class ordered is not for it
        return replace(wish, qos=QoSClass.DEDICATED, because=because, preserve=keep, knobs=wish.annotated)
    if not tuning.kept_by_kubelet or pod.uid not in tuning.kept_by_kubelet:
        return wish
    pinned = tuning.kept_by_kubelet[pod.uid]
    cpus = pinned.get(container.name) or pinned.get("")
    if not cpus:
        return wish
    because = f"the kubelet's CPU manager has pinned it to CPUs {cpuset.render(cpus)}"
    return replace(wish, because=because, preserve=wish.preserve | {"cpu", KEPT_BY_KUBELET})
