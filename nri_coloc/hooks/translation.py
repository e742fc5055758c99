"""Translate a hook's messages to the policy's events: facts by `nri.codec`, wishes by `pods.annotations`.

A pod that the state has is not decoded again. An unknown pod is taken from the hook itself, because events get lost
around a registration. The only I/O reads the pod's requests (`pod_requests`): when the sandbox starts, at a resize,
and, of CPU, before a low request denies a class or CPUs; if degrading is on, also at a container's resize. The requests
of pods that are older than this process are read from the list, or when a change of the settings needs them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from typing import NamedTuple, Protocol

from nri_coloc.core import cpuset
from nri_coloc.core.decisions import (
    ContainerCreated,
    ContainerCreating,
    ContainerStarting,
    ContainerUpdating,
    PodResized,
    PodStarted,
    Synchronized,
)
from nri_coloc.core.knobs import Original
from nri_coloc.core.settings import Tuning
from nri_coloc.core.state import Assignment, NodeState
from nri_coloc.core.value import replace
from nri_coloc.core.workload import (
    KEPT_BY_KUBELET,
    Container,
    KnownKeys,
    Pod,
    QoSClass,
    Resources,
    Wish,
)
from nri_coloc.hooks import dra_claims, listed_limits
from nri_coloc.nri import codec
from nri_coloc.nri.events import Hook
from nri_coloc.placing import change, claim, driver, ownership, record, request, supply
from nri_coloc.placing.driver import Created
from nri_coloc.placing.update import as_asked, merge
from nri_coloc.pods import annotations, gate, replicas
from nri_coloc.runtime.listing import Listing


class _Now(NamedTuple):
    """The state and the settings of a translation.

    owners: the listed containers that owned CPUs at their creation; a hook lists none.
    """

    state: NodeState
    tuning: Tuning
    owners: Sequence[Created] = ()


class Requests(Protocol):
    """Reads the CPU and the memory request of a pod."""

    def read(self, pod: Pod) -> int | None: ...

    def memory(self, pod: Pod) -> int | None: ...


class Translator:
    """Reads pods and containers, and their wishes.

    memory_bytes: the machine's memory, for percentages of it.
    tuning: settings of the start; their rules name labels and annotations that are read.
    requests: reads the requests of pods.
    journalled: returns the figures that a previous process changed in a container's spec, by its journal.

    Size: one method for each kind of message.
    """

    def __init__(
        self,
        memory_bytes: int,
        tuning: Tuning,
        requests: Requests,
        journalled: Callable[[Container], Original],
    ) -> None:
        self._memory_bytes = memory_bytes
        self._requests = requests
        self._journalled = journalled
        self._reader = codec.Reader(_known_keys(tuning))

    def listing(self) -> Listing:
        """Return an empty list, for the parts of a Synchronize."""
        return Listing(self._reader)

    def read_also(self, tuning: Tuning) -> bool:
        """Read the names of another tuning's rules too, from now on; return whether there are new names or pairs.

        Pods that were read before lack them until the runtime lists them again.
        """
        known = self._reader.known.with_also(_known_keys(tuning))
        if known == self._reader.known:
            return False
        self._reader = codec.Reader(known)
        return True

    def wish(
        self, pod: Pod, container: Container, tuning: Tuning, members_request: int | None = None
    ) -> Wish:
        """Return a container's wish, from its pod's annotations and the kubelet's own values.

        members_request: the CPU requests of the pod's containers, for a pod whose own is unknown.
        """
        kubelets = record.before_us(container)
        found = annotations.resolve(pod, kubelets, tuning, self._memory_bytes, members_request)
        return _unless_the_kubelets(found, pod, container, tuning)

    def _in_pod(
        self,
        now: _Now,
        pod: Pod,
        container: Container,
        wish: Wish | None = None,
        *,
        is_created: bool = False,
        reads: bool = False,
    ) -> tuple[Pod, Container, Wish]:
        """Return a pod, one of its containers, and the container's wish.

        If the pod requests too little CPU for the wish, or another container owns CPUs by it, the request is read again
        first.

        wish: under the pod's known request; None if it must be read from the annotations.
        reads: read the request in any case.
        """
        if wish is None:
            wish = self._wish(now, pod, container, is_created=is_created)
        # an owner beside it may have to leave it a part of the request
        reads = reads or bool(now.state.owners_beside(container))
        # another request may give it another class or more CPUs; an outdated one awaits the kubelet's own
        reads = reads or wish.short or pod.outdated_request is not None
        is_owner = wish.qos is QoSClass.DEDICATED
        if not (reads or (is_owner and supply.falls_short(now.state, container, wish))):
            return pod, container, wish
        read = self._read_again(pod)
        if read is pod:
            return pod, container, wish
        later = now._replace(state=change.with_request(now.state, read))
        return read, container, self._wish(later, read, container, is_created=is_created)

    def _wish(self, now: _Now, pod: Pod, container: Container, *, is_created: bool) -> Wish:
        place = now.state.pods.get(pod.id)
        wish = annotations.resolve_as_pod(place.wish, container) if place is not None else None
        if wish is None:
            wish = self.wish(pod, container, now.tuning, _members_request(now.state, pod, container))
        elif now.tuning.kept_by_kubelet:
            wish = _unless_the_kubelets(wish, pod, container, now.tuning)
        if is_created and not container.claimed:
            return wish
        return dra_claims.judged(wish, container, *now, is_created=is_created)

    def pod_wish(self, pod: Pod, tuning: Tuning) -> Wish:
        """Return a pod's own wish."""
        found = annotations.resolve_pod(pod, tuning)
        if pod.uid in tuning.kept_by_kubelet and found.qos is QoSClass.RECLAIMED:
            # a limit on the pod's cgroup would reach the containers that the kubelet has pinned
            return replace(found, preserve=found.preserve | {KEPT_BY_KUBELET}, plain=False)
        return found

    def pod_of(self, hook: Hook, state: NodeState) -> Pod:
        """Return the pod of a hook, from the state if it is there."""
        place = state.pods.get(hook.pod.id)
        return place.pod if place is not None else self._reader.pod_of(hook.pod)

    def pod_started(self, hook: Hook, tuning: Tuning) -> PodStarted:
        """Translate RunPodSandbox."""
        pod = self._reader.pod_of(hook.pod)
        pod = self._with_memory(replace(pod, cpu_request=self._requests.read(pod)))
        return PodStarted(pod, self.pod_wish(pod, tuning))

    def pod_resized(self, hook: Hook, state: NodeState, tuning: Tuning) -> PodResized | None:
        """Translate UpdatePodSandbox; None if the pod's requests are unchanged."""
        pod = self.pod_of(hook, state)
        told = pod
        if hook.resources is not None:
            # figures that the update does not carry stay, such as a memory limit
            figures = codec.resources_of(hook.resources)
            told = replace(pod, resources=merge(pod.resources or Resources(), figures))
        # the kubelet has written the pod's cgroup by now
        return self._resized(pod, replace(told, outdated_request=None), _Now(state, tuning))

    def lower_request(self, pod: Pod, state: NodeState, tuning: Tuning) -> PodResized | None:
        """Return the resize of a known pod to the requests in its cgroup; None if they are unchanged.

        None too for a higher CPU request. That is left to its hook: the kubelet writes it before it calls the runtime.
        """
        found = self._resized(pod, pod, _Now(state, tuning))
        return found if found is not None and (found.pod.cpu_request or 0) <= (pod.cpu_request or 0) else None

    def _resized(self, known: Pod, told: Pod, now: _Now) -> PodResized | None:
        """Return a pod's resize to the requests in its cgroup; None if unchanged, or if it has our values there."""
        if now.state.boxed(known.id):
            return None
        read = self._with_memory(self._read_again(told))
        is_same = change.requests(known) == change.requests(read)
        return None if is_same else PodResized(read, self._other_classes(now, read))

    def _other_classes(self, now: _Now, pod: Pod, but: str = "") -> dict[str, Wish]:
        """Return the wishes of a pod's containers that its present CPU request gives another class or place."""
        others = [a for a in now.state.of_pod(pod.id) if a.id != but]
        later = now._replace(state=change.with_request(now.state, pod))
        found = self._wishes_of(pod, others, later)
        return {k.id: found[k.id] for k in others if ownership.is_judged_again(k, found[k.id])}

    def _read_again(self, pod: Pod) -> Pod:
        """Return the pod with its present CPU request.

        The same object if that is unchanged or outdated, or cannot be read. A figure that the cgroup had before is no
        longer outdated after the cgroup has had another one.
        """
        found = self._requests.read(pod)
        if found in (None, pod.outdated_request):
            return pod
        if found == pod.cpu_request and pod.outdated_request is None:
            return pod
        return replace(pod, cpu_request=found, outdated_request=None)

    def _with_memory(self, pod: Pod) -> Pod:
        """Return the pod with its present memory request; the same object if that is unchanged or cannot be read."""
        found = self._requests.memory(pod)
        return pod if found in (None, pod.memory_request) else replace(pod, memory_request=found)

    def creating(self, hook: Hook, state: NodeState, tuning: Tuning) -> ContainerCreating:
        """Translate CreateContainer."""
        return ContainerCreating(*self._new(hook, _Now(state, tuning), is_created=True))

    def _new(
        self, hook: Hook, now: _Now, *, is_created: bool
    ) -> tuple[Pod, Container, Wish, dict[str, Wish]]:
        """Return the pod of an unknown container, the container, its wish, and the pod's other new classes."""
        pod, container = self._subject(hook, now.state)
        read, container, wish = self._in_pod(now, pod, container, is_created=is_created)
        judged = {} if read is pod else self._other_classes(now, read, but=container.id)
        return read, container, wish, judged

    def created(self, hook: Hook) -> ContainerCreated | None:
        """Translate PostCreateContainer; None if the specification names no CPUs."""
        assert hook.container is not None  # the session gives one to every hook of a container
        cpus = claim.of_text(hook.container.linux.resources.cpu.cpus)
        return ContainerCreated(hook.pod.id, hook.container.id, cpus) if cpus else None

    def starting(self, hook: Hook, state: NodeState, tuning: Tuning, *, running: bool) -> ContainerStarting:
        """Translate StartContainer or PostStartContainer; a known container has the wish of its assignment."""
        assert hook.container is not None  # the session gives one to every hook of a container
        known = state.containers.get(hook.container.id)
        if known is None:
            pod, container, wish, judged = self._new(hook, _Now(state, tuning), is_created=False)
            return ContainerStarting(pod, container, wish, running, judged)
        pod = self.pod_of(hook, state)
        return ContainerStarting(pod, codec.started(hook.container, known.container), known.wish, running)

    def updating(
        self, hook: Hook, state: NodeState, tuning: Tuning, *, within_pod: bool = False
    ) -> ContainerUpdating:
        """Translate UpdateContainer.

        within_pod: the kernel refuses CPUs for a container that its pod does not have (cgroup v1).
        """
        pod, container = self._subject(hook, state)
        requested = codec.resources_of(hook.resources) if hook.resources is not None else Resources()
        known = state.containers.get(container.id)
        kubelets = record.before_us(container) if known is None else record.facts_of(container, known)
        figures = replace(requested, cpus="", mems="")
        asked = as_asked(kubelets, figures)
        if figures.memory_limit and not state.boxed(pod.id):
            pod = self._with_memory(pod)
        now = _Now(state, tuning)
        # a runtime without UpdatePodSandbox shows only here that the pod's request may have changed
        is_resized = known is not None and known.container.resources.shares != asked.resources.shares
        if known is not None:
            pod = change.raised(pod, asked.resources.cpu_request - known.container.resources.cpu_request)
            now = now._replace(state=change.with_request(state, pod))
        # the cgroup of a reclaimed pod has the daemon's own weight
        reads = is_resized and not state.boxed(pod.id)
        read, _, wish = self._in_pod(now, pod, asked, _unchanged(known, asked), reads=reads)
        lowered = change.lowered(state, read, kubelets if known is None else known.container, asked)
        if lowered is not read:
            later = now._replace(state=change.with_request(state, lowered))
            wish = self._wish(later, lowered, asked, is_created=False)
        wish = _as_resized(wish, known, asked)
        is_same = lowered is self.pod_of(hook, state)
        judged = {} if is_same else self._other_classes(_asking(now, asked), lowered, but=container.id)
        if known is not None and ownership.is_judged_again(known, wish):
            judged[container.id] = wish
        return ContainerUpdating(
            read,
            container,
            wish,
            requested,
            judged,
            lowered=None if lowered is read else lowered,
            within_pod=within_pod,
        )

    def synchronized(
        self, pods: Mapping[str, Pod], containers: Sequence[Container], state: NodeState, tuning: Tuning
    ) -> Synchronized:
        """Translate the runtime's whole list; a container whose pod is not in it gets an empty pod."""
        in_pods: dict[str, list[int]] = {pod_id: [] for pod_id in pods}
        for place, container in enumerate(containers):
            in_pods.setdefault(container.pod_id, []).append(place)
        owners = driver.owners_at_creation(containers) if tuning.dra_driver else ()
        now = _Now(state, tuning, owners)
        listed: dict[int, tuple[Container, Wish]] = {}
        wishes: list[tuple[Pod, Wish]] = []
        for pod_id, places in in_pods.items():  # pod by pod: a pod's annotations are parsed once
            pod = pods.get(pod_id, Pod(pod_id))
            if pod_id in pods:
                pod, wish = self._listed_pod(pod, now)
                wishes.append((pod, wish))
            members = self._listed_members(pod, [containers[place] for place in places], now)
            listed.update(zip(places, members, strict=True))
        return Synchronized(tuple(wishes), tuple(listed[place] for place in range(len(containers))))

    def _listed_pod(self, pod: Pod, now: _Now) -> tuple[Pod, Wish]:
        """Return a listed pod with its wish, its memory request, and its CPU request if that is needed."""
        place = now.state.pods.get(pod.id)
        if place is not None:
            known = place.pod
            pod = replace(pod, cpu_request=known.cpu_request, outdated_request=known.outdated_request)
        wish = self.pod_wish(pod, now.tuning)
        if wish.qos is not QoSClass.RECLAIMED:  # its limit may be ours, also if the journal was lost
            pod = self._with_memory(pod)
        is_known = pod.cpu_request is not None and pod.outdated_request is None
        if not wish.short and (is_known or not supply.needs_request(wish, now.tuning)):
            return pod, wish
        read = self._read_again(pod)
        return (pod, wish) if read is pod else (read, self.pod_wish(read, now.tuning))

    def _listed_members(
        self, pod: Pod, containers: Sequence[Container], now: _Now
    ) -> Iterator[tuple[Container, Wish]]:
        """Yield the listed containers of a pod with their wishes."""
        asked = sum(request.of_container(_kubelets(each, now.state)).milli for each in containers)
        of_pod = pod if pod.cpu_request is not None else replace(pod, cpu_request=asked)
        for each in containers:
            container, wish = self._listed(each, of_pod, now.state, now.tuning)
            yield container, dra_claims.judged(wish, container, *now, is_created=False)

    def _listed(
        self, container: Container, pod: Pod, state: NodeState, tuning: Tuning
    ) -> tuple[Container, Wish]:
        """Return a listed container with its wish, from the kubelet's latest values.

        A record holds the values of the creation. The known assignment and the spec are newer (decision 19).
        """

        def wish_of(one: Container) -> Wish:
            return self.wish(pod, one, tuning)

        known = state.containers.get(container.id)
        if known is not None:
            kubelets = record.facts_of(container, known)
            if known.returned.overlaid(known.knobs).memory_limit is not None:
                # our next push hides a limit of the kubelet's again
                limits = listed_limits.certain(pod, kubelets, container, wish_of), kubelets.certain_limit
                certain = min((each for each in limits if each is not None), default=None)
                container = replace(container, certain_limit=certain)
                kubelets = record.facts_of(container, known)
            return container, _as_resized(wish_of(kubelets), known, kubelets)
        memory = record.read(container.record)
        if memory is None:
            journalled = self._journalled(container)
            found, wish = listed_limits.by_journal(container, journalled, wish_of)
            ours = journalled.ours
        else:
            wish = _as_owned(wish_of(container), container)
            found, wish = listed_limits.by_record(container, wish, wish_of)
            ours = listed_limits.ours(memory, container, wish)
        if "memory_limit" not in ours:
            return found, wish
        certain = listed_limits.certain(pod, record.before_us(found), container, wish_of)
        found = replace(found, certain_limit=certain)
        wish = wish_of(found)
        return found, wish if memory is None else _as_owned(wish, found)

    def with_requests(self, state: NodeState, tuning: Tuning) -> NodeState:
        """Return the state with the CPU requests that another tuning needs and that were not read before."""
        unread = [place.pod for place in state.pods.values() if place.pod.cpu_request is None]
        needed = [pod for pod in unread if supply.needs_request(self.pod_wish(pod, tuning), tuning)]
        return reduce(change.with_request, map(self._read_again, needed), state)

    def wishes_again(self, state: NodeState, tuning: Tuning) -> tuple[dict[str, Wish], dict[str, Wish]]:
        """Return every wish under another tuning: by container id and by pod id."""
        containers: dict[str, Wish] = {}
        pods: dict[str, Wish] = {}
        for pod_id, place in state.pods.items():
            pods[pod_id] = self.pod_wish(place.pod, tuning)
            containers |= self._wishes_of(place.pod, state.of_pod(pod_id), _Now(state, tuning))
        for assignment in state.containers.values():
            if assignment.id not in containers:
                pod = Pod(assignment.container.pod_id)
                containers |= self._wishes_of(pod, state.of_pod(pod.id), _Now(state, tuning))
        return containers, pods

    def _wishes_of(self, pod: Pod, members: Sequence[Assignment], now: _Now) -> dict[str, Wish]:
        """Return the wishes of known containers of a pod, by id."""
        asked, found = _members_request(now.state, pod), dict[str, Wish]()
        for known in members:
            own = known.container
            wish = dra_claims.judged(self.wish(pod, own, now.tuning, asked), own, *now, is_created=False)
            found[known.id] = _as_resized(wish, known, own)
        return found

    def _subject(self, hook: Hook, state: NodeState) -> tuple[Pod, Container]:
        assert hook.container is not None  # the session gives one to every hook of a container
        pod = self.pod_of(hook, state)
        return pod, codec.container_of(hook.container, pod)


def _known_keys(tuning: Tuning) -> KnownKeys:
    return annotations.known_keys(tuning).with_also(KnownKeys(labels=replicas.LABELS))


def _kubelets(container: Container, state: NodeState) -> Container:
    """Return a container with the kubelet's own values; after a restart its record holds them."""
    known = state.containers.get(container.id)
    return container if known is None else record.facts_of(container, known)


def _members_request(state: NodeState, pod: Pod, *changed: Container) -> int | None:
    """Return the sum of a pod's containers' CPU requests, some new or changed; None if the pod's own is known."""
    if pod.cpu_request is not None:
        return None
    ids = {each.id for each in changed}
    others = [a.container for a in state.of_pod(pod.id) if a.id not in ids]
    return sum([request.of_container(each).milli for each in (*changed, *others)])


def _asking(now: _Now, asked: Container) -> _Now:
    """Return the state in which a known container has its new request: less of the pod's is left beside the former."""
    known = now.state.containers.get(asked.id)
    if known is None:
        return now
    crowd = now.state.containers.adding(replace(known, container=asked))
    return now._replace(state=replace(now.state, containers=crowd))


def _unchanged(known: Assignment | None, asked: Container) -> Wish | None:
    """Return the wish of a container whose update changes no value that a wish follows from; None to read it again.

    A class that was denied is judged again, because the pod's request may have changed.
    """
    if known is None or known.wish.short or known.container.certain_limit != asked.certain_limit:
        return None
    before, after = (gate.figures(each, known.qos) for each in (known.container, asked))
    return known.wish if before == after else None


def _as_resized(wish: Wish, known: Assignment | None, asked: Container) -> Wish:
    """Drop an annotation's lower CPU request after the kubelet asked for another amount than at creation."""
    if known is None or not wish.cpu_milli:
        return wish
    is_same = known.container.resources.shares == asked.resources.shares
    return wish if known.wish.cpu_milli and is_same else replace(wish, cpu_milli=0)


def _as_owned(wish: Wish, container: Container) -> Wish:
    """Do the same after a restart, if the container owns as many CPUs, by its spec, as the kubelet asks for."""
    whole = request.of_container(container).whole
    is_resized = 0 < wish.cpu_milli <= (whole - 1) * 1000 and claim.in_spec(container).bit_count() == whole
    return replace(wish, cpu_milli=0) if is_resized else wish


def _unless_the_kubelets(wish: Wish, pod: Pod, container: Container, tuning: Tuning) -> Wish:
    """Leave a container's CPUs alone if the kubelet's own CPU manager has pinned it."""
    if pod.uid not in tuning.kept_by_kubelet:
        return wish
    pinned = tuning.kept_by_kubelet[pod.uid]
    cpus = pinned.get(container.name) or pinned.get("")
    if not cpus:
        return wish
    because = f"the kubelet's CPU manager has pinned it to CPUs {cpuset.render(cpus)}"
    return replace(wish, because=because, preserve=wish.preserve | {"cpu", KEPT_BY_KUBELET}, kept=cpus)
