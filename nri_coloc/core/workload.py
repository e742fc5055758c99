"""Pods and containers as the runtime reports them, and the wish of each from its annotations.

Facts (`Pod`, `Container`, `Resources`, `Texts`) come from the wire. `pods` makes a `Wish` of a pod's annotations and
the operator's rules. Forbidden and unreadable values are left out of it and named in `findings`. The policy reads
wishes, never annotations.

A pod's author decides how much metadata there is: Kubernetes allows 256 KiB of annotations a pod. Of its labels and
annotations only names that are read are kept, up to a bound, in little memory.

Neither NRI nor CRI carries the memory request, so it is known only as far as it is certain. A sidecar (restartable init
container) that requests nothing inherits the oom_score_adj of its pod's main container (pkg/kubelet/qos/policy.go). So
the requests that the scores of one pod tell must not be added up.
"""

from collections.abc import Iterable, Iterator, KeysView, Mapping
from dataclasses import field
from enum import StrEnum
from mmap import PAGESIZE
from typing import Final

from nri_coloc.core import kubepods
from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.knobs import (
    KERNELS_PERIOD,
    MAX_SHARES,
    MIN_SHARES,
    NO_KNOBS,
    UNLIMITED_BYTES,
    Knobs,
    Original,
)
from nri_coloc.core.value import value

PREFIX: Final = "coloc.nri.io/"
"""The prefix of all our annotations."""

MAX_BYTES: Final = 64 * 1024
"""The most bytes of all known names and values of one pod, as UTF-8. Beyond it no annotation counts, except those that
the operator's rules select (docs/annotations.md).

Labels count up to the same bound of their own: the API server bounds each value to 63 characters.
"""


@value
class KnownKeys:
    """Names of annotations and labels that a vocabulary or a rule of the operator reads.

    Every annotation that begins with `PREFIX` is read, too.

    pairs: names and values of annotations that the operator's rules select. These count beyond the bound as well.
    """

    annotations: frozenset[str] = frozenset()
    labels: frozenset[str] = frozenset()
    pairs: frozenset[tuple[str, str]] = frozenset()

    def with_also(self, other: "KnownKeys") -> "KnownKeys":
        """Return the names and pairs of both."""
        return KnownKeys(
            annotations=self.annotations | other.annotations,
            labels=self.labels | other.labels,
            pairs=self.pairs | other.pairs,
        )


class Texts(Mapping[str, str]):
    """Texts by name, which never change. They are kept as UTF-8: Python's own text takes four bytes for each character
    as soon as one of them is an emoji."""

    __slots__ = ("_encoded",)

    def __init__(self, encoded: Mapping[str, bytes]) -> None:
        self._encoded = dict(encoded)

    def __getitem__(self, name: str) -> str:
        return self._encoded[name].decode(errors="replace")

    def __iter__(self) -> Iterator[str]:
        return iter(self._encoded)

    def __len__(self) -> int:
        return len(self._encoded)

    def keys(self) -> KeysView[str]:
        """Return the names as the dict's own view, because sets meet it ten times faster than a Mapping's."""
        return self._encoded.keys()

    def __contains__(self, name: object) -> bool:
        return name in self._encoded

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Texts):
            return self._encoded == other._encoded
        return super().__eq__(other)

    __hash__ = None  # type: ignore[assignment]  # as a dict, and as every Mapping that compares by content

    def __repr__(self) -> str:
        return repr(dict(self))


class QoSClass(StrEnum):
    """The four classes (docs/annotations.md)."""

    DEDICATED = "dedicated"
    SHARED = "shared"
    RECLAIMED = "reclaimed"
    SYSTEM = "system"


class KubeQoS(StrEnum):
    """Kubernetes' own classes, as far as the pod's cgroup parent tells them."""

    GUARANTEED = "Guaranteed"
    BURSTABLE = "Burstable"
    BEST_EFFORT = "BestEffort"
    UNKNOWN = "unknown"


_CLASSES: Final = {"besteffort": KubeQoS.BEST_EFFORT, "burstable": KubeQoS.BURSTABLE}
"""By the names that the kubelet gives their cgroups; Guaranteed pods lie in kubepods itself."""


class Numa(StrEnum):
    """NUMA binding of a dedicated container."""

    NONE = "none"
    SINGLE = "single"
    EXCLUSIVE = "exclusive"


class Placement(StrEnum):
    """Which CPUs a dedicated container gets."""

    PACKED = "packed"
    FULL_CORES = "full-cores"
    SPREAD = "spread"
    ONE_THREAD_PER_CORE = "one-thread-per-core"


class Tolerance(StrEnum):
    """How much waiting an online pod bears before reclaimed pods are throttled for it."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"


ISOLATED: Final = "isolated"
"""In a dedicated container's `Wish.pool`: CPUs that the kernel keeps its scheduler from (isolcpus=)."""


class Phase(StrEnum):
    """How far a container's life has come; only `RUNNING` and `STARTING` have a cgroup of their own."""

    CREATED = "created"
    STARTING = "starting"
    RUNNING = "running"


SHARES_PER_CPU: Final = 1024


def milli_of(shares: int | None) -> int:
    """Return the CPU request behind shares, thousandths of a CPU; 0 for none, 256000 at most.

    The kubelet writes floor(request · 1024 / 1000), within 2 to 262144 (pkg/kubelet/cm/helpers_linux.go,
    MilliCPUToShares); rounding up gives every request from 3 thousandths on back exactly. A quota is a limit and says
    nothing of a request.
    """
    known = min(shares or 0, MAX_SHARES)
    return -(-known * 1000 // SHARES_PER_CPU) if known > MIN_SHARES else 0


def shares_of_request(milli: int) -> int:
    """Return the shares that the kubelet writes for a CPU request, thousandths of a CPU (`milli_of`)."""
    return min(max(milli * SHARES_PER_CPU // 1000, MIN_SHARES), MAX_SHARES)


@value
class Resources:
    """Values of the runtime's spec or of an update; `None` is absent, and in an update 0 or "" is "keep".

    shares: as cgroup v1 counts them, 1024 = one CPU.
    quota, period: µs.
    cpus, mems: cpulists.
    memory_limit: bytes.
    """

    shares: int | None = None
    quota: int | None = None
    period: int | None = None
    cpus: str = ""
    mems: str = ""
    memory_limit: int | None = None

    def knobs(self, oom_score_adj: int | None = None) -> Knobs:
        """Return the values that are really said: zero and empty say nothing."""
        return Knobs(
            oom_score_adj=oom_score_adj,
            cpus=self.cpus or None,
            mems=self.mems or None,
            shares=self.shares or None,
            quota=self.quota or None,
            period=self.period or None,
            memory_limit=self.memory_limit or None,
        )

    @property
    def cpu_request(self) -> int:
        """Return the CPU request behind the shares, thousandths of a CPU; 0 for none."""
        return milli_of(self.shares)

    @property
    def cpu_quota(self) -> int:
        """Return the CFS quota in µs, 0 for none."""
        return max(0, self.quota or 0)

    @property
    def cpu_period(self) -> int:
        """Return the CFS period in µs, the kernel's default if it is not set."""
        return self.period or KERNELS_PERIOD


@value
class Pod:
    """A pod sandbox, with those labels and annotations that are read (`KnownKeys`).

    cgroup_parent: the pod's cgroup in the driver's own notation.
    overhead_bytes: memory that its runtime class takes beside its containers.
    excess_bytes: the size of its known labels and annotations where that is over the bound; then those that
        the operator's rules select are kept, and no other annotation.
    claims_record: it carries the annotation that only the plugin may write, on containers.
    cpu_request: thousandths of a CPU by the pod's own cgroup, None where not known.
    outdated_request: the figure that its cgroup had before a container's request was lowered; until the kubelet has
        written the new one it counts no more. None if there was no such resize, or the new one has been read.
    memory_request: bytes by the own cgroup of a Guaranteed pod, None where not known.
    kube_qos: Kubernetes' class by the pod's place below kubepods (cgroupfs and systemd drivers).
    owns_cgroup: its cgroup parent belongs to this pod alone, as the kubelet makes them. The cgroup of a QoS class does
        not, and a manual call of the runtime may name any cgroup ("/kubepods/besteffort", "system.slice").
    """

    id: str
    uid: str = ""
    name: str = ""
    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    cgroup_parent: str = ""
    handler: str = ""
    resources: Resources | None = None
    overhead_bytes: int = 0
    excess_bytes: int = 0
    claims_record: bool = False
    cpu_request: int | None = None
    outdated_request: int | None = None
    memory_request: int | None = None
    kube_qos: KubeQoS = field(init=False, compare=False)
    owns_cgroup: bool = field(init=False, compare=False)

    def __post_init__(self) -> None:
        last = self.cgroup_parent.rstrip("/").rpartition("/")[2]
        object.__setattr__(self, "owns_cgroup", last.startswith("pod") or "-pod" in last)
        name = kubepods.class_below(self.cgroup_parent)
        found = KubeQoS.UNKNOWN if name is None else _CLASSES.get(name, KubeQoS.GUARANTEED)
        object.__setattr__(self, "kube_qos", found)

    @property
    def full_name(self) -> str:
        """Return its name for people: "NAMESPACE/POD"."""
        return f"{self.namespace}/{self.name}"


@value
class Container:
    """A container.

    created_at: nanoseconds since 1970, 0 if the runtime does not report it.
    record: the text of our own annotation, handed back by the runtime.
    claimed: the CPUs that its environment says the DRA CPU driver gave it, 0 for none. A tenant may write it too
        (`placing.driver`).
    claims: the first variable that says so, as written and cut.
    journalled: for a container without a record, the figures that the previous process changed in its spec;
        `resources` has the values before.
    lowest_limit: the least memory limit that the kubelet gave it before the present one, bytes; 0 if it had no other.
    certain_limit: bytes that the kubelet's memory limit cannot be below, if the limit in `resources` is only inferred
        because the specification shows the daemon's; None if it is known.
    """

    id: str
    pod_id: str
    name: str = ""
    phase: Phase = Phase.CREATED
    pid: int = 0
    cgroups_path: str = ""
    created_at: int = 0
    record: str = ""
    oom_score_adj: int | None = None
    resources: Resources = Resources()
    claimed: CPUMask = 0
    claims: str = ""
    journalled: Original | None = None
    lowest_limit: int = 0
    certain_limit: int | None = None


class FindingKind(StrEnum):
    """The kind of problem of an annotation; the values are audit events."""

    INVALID = "annotation.invalid"
    DENIED = "annotation.denied"


@value
class Finding:
    """One annotation that does not count: the key and value as given, what is allowed, what holds instead."""

    kind: FindingKind
    key: str
    value: str
    allowed: str
    used: str


@value
class Wish:
    """The wish of one container, without the values that its pod may not order.

    because: the source of the class.
    knobs: values that an annotation or the operator's class settings order.
    annotated: the subset of `knobs` that an annotation ordered. An update from the kubelet may not undo these.
    mixed: on a pod's own wish, an annotation gives a container, which need not exist, another class than the pod's.
    plain: on a pod's own wish, no annotation that we read and no setting that depends on the container took part. Then
        all its containers have the same wish.
    evenly: with a binding to several nodes, parts that are equal to the CPU (not to the core).
    one_socket: with a binding to several nodes, nodes of one socket are preferred to the wished number of nodes.
    cpus_ordered: CPUs that a scheduler has chosen for the pod.
    cpu_milli: the stated CPU request, thousandths of a CPU; 0 if only the kubelet's values show it.
    init: whether it is stated to be an init container.
    origins: (our key, their key, their value) of values from other vocabularies.
    pool: a pool of the operator's, with its group, or "" for the pool of the class.
    pool_because: the reason for the pool.
    burst_because: the source of the CPU burst.
    short: a class was denied for the pod's CPU request, so that another request may give another class.
    kept: the CPUs to which the kubelet's own CPU manager has pinned the container, 0 if it has not.
    """

    qos: QoSClass
    because: str = ""
    pool: str = ""
    numa: Numa = Numa.NONE
    numa_count: int = 0
    numa_ids: CPUMask = 0
    evenly: bool = False
    one_socket: bool = False
    placement: Placement = Placement.PACKED
    cpus_ordered: CPUMask = 0
    cpu_milli: int = 0
    init: bool = False
    knobs: Knobs = NO_KNOBS
    annotated: Knobs = NO_KNOBS
    cpu_burst_percent: int | None = None
    burst_because: str = ""
    priority: int = 0
    avoidance: frozenset[str] | None = None
    tolerance: Tolerance = Tolerance.NORMAL
    preserve: frozenset[str] = frozenset()
    handler: str = "container"
    mixed: bool = False
    plain: bool = field(default=False, compare=False)
    short: bool = field(default=False, compare=False)
    origins: tuple[tuple[str, str, str], ...] = ()
    pool_because: str = ""
    findings: tuple[Finding, ...] = ()
    kept: CPUMask = 0

    @property
    def is_hands_off(self) -> bool:
        """Whether another agent chooses its CPUs: its runtime handler is ignored, or `preserve` lists cpu."""
        return self.handler == "ignore" or "cpu" in self.preserve


KEPT_BY_DRA: Final = "dra"
"""In a wish's `preserve`, beside "cpu": not an annotation but the DRA CPU driver has given it its CPUs."""

KEPT_BY_KUBELET: Final = "kubelet"
"""In a wish's `preserve`: the kubelet's own CPU manager has pinned the container ("cpu" is there, too), or one of the
pod's containers.
"""

RECORD_KEY: Final = f"{PREFIX}record"
"""The annotation that we give to each container and get back after restarts (docs/testing.md, invariant 3)."""

RECORD_LENGTH: Final = 4096
"""Characters of a record: the longest that is written is a 768-CPU list and fourteen numbers."""

DEFAULT_WISH: Final = Wish(QoSClass.SHARED)


def known_memory_limit(container: Container) -> int:
    """Return the memory limit in bytes, 0 for none."""
    limit = container.resources.memory_limit or 0
    return limit if 0 < limit < UNLIMITED_BYTES else 0


def lowest_memory_limit(container: Container) -> int:
    """Return the least memory limit that a container may have had since its creation, bytes; 0 if it had none."""
    certain = container.certain_limit
    had = (
        known_memory_limit(container),
        container.lowest_limit,
        None if certain is None else max(1, certain),
    )
    return min(filter(None, had), default=0)


def certain_memory(pod: Pod, container: Container, node_bytes: int) -> int:
    """Return bytes that the container's memory request cannot be below; 0 where nothing is certain.

    Guaranteed: requests equal limits. Burstable: the kubelet writes
    oom_score_adj = 1000 - floor(1000 * request / capacity), so request >= (1000 - oom_score_adj) * capacity
    / 1000 (pkg/kubelet/qos/policy.go). It raises 1000 to 999, and writes -997 for critical pods with any request:
    a score outside of 3 to 998 shows no request.

    An in-place resize leaves the score as it was. No request is above its limit: if a limit falls below the amount
    that the score shows, the score is of a former request, and no later limit makes it valid again. An inferred limit
    proves no more than the request of its Guaranteed pod, if that is unknown no more than `certain_limit`. A pod that
    carries our record key hides which values of its containers' specs are ours, so nothing is certain of it.
    """
    qos, score, limit = pod.kube_qos, container.oom_score_adj, known_memory_limit(container)
    if pod.claims_record:  # its annotations lack the key where they are over the bound
        return 0
    if qos is KubeQoS.GUARANTEED:
        if (certain := container.certain_limit) is None:
            return limit
        return min(limit, certain) if pod.memory_request is None else _at_most(limit, pod.memory_request)
    if qos is not KubeQoS.BURSTABLE or score is None or not 3 <= score <= 998:
        return 0
    told = max(0, node_bytes) * (1000 - score) // 1000
    return 0 if 0 < lowest_memory_limit(container) < told else told


def certain_memory_of_pod(pod: Pod, containers: Iterable[Container], node_bytes: int) -> int:
    """Return bytes that the pod's memory request cannot be below; 0 where nothing is certain.

    Burstable: the largest request of one container. Guaranteed: the limits of all, a retried container's once, at most
    the pod's request: with pod-level resources the kubelet writes the pod's limit into each container without one of
    its own. An unknown request is at most the limit in the sandbox, unless one container has more since a resize.
    """
    by_name: dict[str, int] = {}
    for each in containers:
        by_name[each.name] = max(by_name.get(each.name, 0), certain_memory(pod, each, node_bytes))
    largest = max(by_name.values(), default=0)
    if pod.kube_qos is not KubeQoS.GUARANTEED:
        return largest
    total = sum(by_name.values())
    if pod.memory_request is not None:
        return _at_most(total, pod.memory_request)
    of_pod = (pod.resources.memory_limit or 0) if pod.resources is not None else 0
    return max(largest, min(total, of_pod)) if of_pod > 0 else total


def _at_most(amount: int, request: int) -> int:
    """Return an amount of bytes, at most the request that the limit of a pod's cgroup shows."""
    # the kernel rounds limits and protections down to whole pages (mm/page_counter.c, page_counter_memparse)
    return amount if amount - request < PAGESIZE else request


def memory_bound_of_pod(pod: Pod, containers: Iterable[Container], node_bytes: int, told: int | None) -> int:
    """Return the most bytes that the pod's memory protections may have together.

    told: the pod's memory request by the companion; None if it reported none. It lowers the bound to any amount, and
        raises it up to the amount that the kubelet's values prove.
    """
    known = list(containers)
    certain_bytes = certain_memory_of_pod(pod, known, node_bytes)
    if told is None:
        return certain_bytes
    return min(told, max(certain_bytes, _proven_memory(pod, known, node_bytes)))


def _proven_memory(pod: Pod, containers: Iterable[Container], node_bytes: int) -> int:
    """Return the sum of the requests that different OOM scores of a Burstable pod prove; 0 for another pod.

    The score of a sidecar is at most the lowest score of the main containers. So of the containers with one score, at
    least one requests the amount that the score tells; the others may be sidecars that inherited it.
    """
    if pod.kube_qos is not KubeQoS.BURSTABLE:
        return 0
    by_name: dict[str, int] = {}
    for each in containers:
        by_name[each.name] = max(by_name.get(each.name, 0), certain_memory(pod, each, node_bytes))
    return sum(set(by_name.values()))
