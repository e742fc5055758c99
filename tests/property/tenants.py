"""Pods as a tenant may write them, and the figures that the API server and the kubelet make of them.

A tenant chooses resources of containers and of the pod, annotations, labels and variables; not the namespace, not the
cgroups. Sources, in Kubernetes 1.35: defaults in pkg/apis/core/v1/defaults.go, the sum of a pod in
component-helpers/resource, shares and quotas in pkg/kubelet/kuberuntime/kuberuntime_container_linux.go and
pkg/kubelet/cm/helpers_linux.go, the QoS class in pkg/apis/core/v1/helper/qos, scores in pkg/kubelet/qos/policy.go.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Any

from hypothesis import strategies as st

from nri_coloc.core.workload import PREFIX, KubeQoS, Resources
from nri_coloc.pods import keys

GIB = 1 << 30
BEST_EFFORT_SCORE = 1000
GUARANTEED_SCORE = -997


@dataclass(frozen=True, slots=True)
class Figures:
    """Hold requests and limits of a container or of a pod.

    CPU in thousandths, memory in bytes; None is not set.
    """

    cpu: int | None = None
    cpu_limit: int | None = None
    memory: int | None = None
    memory_limit: int | None = None

    @property
    def is_set(self) -> bool:
        return any(value is not None for value in (self.cpu, self.cpu_limit, self.memory, self.memory_limit))

    def defaulted(self) -> "Figures":
        """Return the figures of a container with requests that default to its limits."""
        cpu = self.cpu_limit if self.cpu is None else self.cpu
        memory = self.memory_limit if self.memory is None else self.memory
        return replace(self, cpu=cpu, memory=memory)


class Kind(Enum):
    MAIN = auto()
    INIT = auto()
    SIDECAR = auto()
    """An init container that is restarted always: it runs beside all later ones."""


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    name: str
    figures: Figures = Figures()
    kind: Kind = Kind.MAIN
    variables: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TenantPod:
    """Hold a pod as written; `figures` are pod-level resources. Derived values belong to the admitted pod."""

    containers: tuple[ContainerSpec, ...]
    figures: Figures = Figures()
    annotations: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    namespace: str = "shop"
    name: str = "tenant"

    @property
    def cpu_request(self) -> int:
        """Return the pod's CPU request in thousandths, which the scheduler reserves."""
        return self._request("cpu")

    @property
    def memory_request(self) -> int:
        """Return the pod's memory request in bytes."""
        return self._request("memory")

    @property
    def memory_limit(self) -> int | None:
        """Return the limit of the pod's own resources in bytes; None without one."""
        return self._admitted().memory_limit

    def request_of(self, container: ContainerSpec) -> Figures:
        """Return a container's own figures as admitted."""
        return container.figures.defaulted()

    @property
    def shares(self) -> int:
        """Return the shares that the kubelet writes into the pod's cgroup."""
        return shares_of(0 if self.qos is KubeQoS.BEST_EFFORT else self.cpu_request)

    @property
    def cgroup_limit(self) -> int:
        """Return the memory limit in bytes that the kubelet writes into the cgroup of a Guaranteed pod; else 0."""
        return self.memory_request if self.qos is KubeQoS.GUARANTEED else 0

    @property
    def qos(self) -> KubeQoS:
        every = [each.figures.defaulted() for each in self.containers]
        counted = [self._admitted()] if self.figures.is_set else every
        if not any(each.cpu or each.memory or each.cpu_limit or each.memory_limit for each in counted):
            return KubeQoS.BEST_EFFORT
        limited = all(each.cpu_limit and each.memory_limit for each in counted)
        equal = all((each.cpu, each.memory) == (each.cpu_limit, each.memory_limit) for each in counted)
        return KubeQoS.GUARANTEED if limited and equal else KubeQoS.BURSTABLE

    def cgroup_parent(self, uid: str) -> str:
        level = {KubeQoS.BURSTABLE: "burstable/", KubeQoS.BEST_EFFORT: "besteffort/"}.get(self.qos, "")
        return f"/kubepods/{level}pod{uid}"

    def resources_of(self, container: ContainerSpec) -> Resources:
        """Return the resources of a container that the kubelet passes to the runtime."""
        own, pod = container.figures.defaulted(), self.figures
        cpu_limit, memory_limit = own.cpu_limit or 0, own.memory_limit or 0
        if pod.is_set:
            cpu_limit, memory_limit = cpu_limit or pod.cpu_limit or 0, memory_limit or pod.memory_limit or 0
        return Resources(
            shares=shares_of(cpu_limit if own.cpu is None else own.cpu),
            quota=max(1000, cpu_limit * 100) if cpu_limit else 0,
            period=100_000,
            memory_limit=memory_limit or None,
        )

    def oom_score_adj(self, container: ContainerSpec, capacity: int) -> int:
        """Return the score that the kubelet gives a container on a node with this memory (bytes)."""
        if self.qos is not KubeQoS.BURSTABLE:
            return GUARANTEED_SCORE if self.qos is KubeQoS.GUARANTEED else BEST_EFFORT_SCORE
        mains = [each.figures.defaulted().memory or 0 for each in self.containers if each.kind is Kind.MAIN]
        every = [each.figures.defaulted().memory or 0 for each in self.containers]
        rest = max(0, self.memory_request - sum(every)) // len(every) if self._admitted().memory else 0
        request = (container.figures.defaulted().memory or 0) + rest
        if container.kind is Kind.SIDECAR:
            request = max(request, min(mains, default=0) + rest)
        return min(max(1000 - 1000 * request // capacity, 3), 999)

    def _request(self, name: str) -> int:
        own = getattr(self._admitted(), name)
        return self._aggregated(name) if own is None else int(own)

    def _admitted(self) -> Figures:
        """Return the pod-level figures with the API server's defaults; none if the pod has none."""
        pod = self.figures
        if pod.cpu_limit is None and pod.memory_limit is None:
            return pod
        return replace(
            pod,
            cpu=self._default("cpu", pod.cpu_limit) if pod.cpu is None else pod.cpu,
            memory=self._default("memory", pod.memory_limit) if pod.memory is None else pod.memory,
        )

    def _default(self, name: str, limit: int | None) -> int | None:
        is_asked = any(getattr(each.figures.defaulted(), name) is not None for each in self.containers)
        return self._aggregated(name) if is_asked else limit

    def _aggregated(self, name: str) -> int:
        """Return the request of all containers together.

        It is the sum of the containers that run at one time, or a greater init container.
        """
        beside = greatest = mains = 0
        for each in self.containers:
            own = getattr(each.figures.defaulted(), name) or 0
            if each.kind is Kind.SIDECAR:
                beside += own
                greatest = max(greatest, beside)
            elif each.kind is Kind.INIT:
                greatest = max(greatest, beside + own)
            else:
                mains += own
        return max(mains + beside, greatest)


def shares_of(milli: int) -> int:
    return min(max(milli * 1024 // 1000, 2), 262_144)


# --- strategies -------------------------------------------------------------------------------------------

CPU = st.sampled_from((None, 0, 1, 100, 500, 999, 1000, 1001, 1500, 2000, 3000, 4000, 8000))
MEMORY = st.sampled_from((None, 0, 64 << 20, GIB, 4 * GIB, 16 * GIB))
NAMES = ("app", "log", "extra", "last")
CPULISTS = st.sampled_from(("0-7", "0-3", "0", "4-7", "1,3", "2-5", "0-1023", "x"))


def _limit(draw: st.DrawFn, amounts: st.SearchStrategy[int | None], *least: int | None) -> int | None:
    """Draw a limit that the API server admits: none, or at least as much as these requests."""
    drawn = draw(amounts)
    return max(drawn, *(each or 0 for each in least)) if drawn else None


@st.composite
def containers(draw: st.DrawFn, name: str) -> ContainerSpec:
    cpu, memory = draw(CPU), draw(MEMORY)
    figures = Figures(cpu, _limit(draw, CPU, cpu), memory, _limit(draw, MEMORY, memory))
    variables = draw(st.lists(CPULISTS.map(lambda cpus: f"DRA_CPUSET_{name}={cpus}"), max_size=1))
    return ContainerSpec(name, figures, draw(st.sampled_from(Kind)), tuple(variables))


@st.composite
def pod_figures(draw: st.DrawFn, own: TenantPod) -> Figures:
    """Draw pod-level resources that the API server admits beside the containers'."""
    amounts: list[int | None] = []
    for name, drawn in (("cpu", CPU), ("memory", MEMORY)):
        asked, every = draw(drawn), [each.figures.defaulted() for each in own.containers]
        request = None if asked is None else max(asked, own._aggregated(name))
        limits = (getattr(each, f"{name}_limit") for each in every)
        amounts += [request, _limit(draw, drawn, request, own._aggregated(name), *limits)]
    return Figures(*amounts)


@st.composite
def tenant_pods(draw: st.DrawFn, annotations: st.SearchStrategy[dict[str, str]] | None = None) -> TenantPod:
    """Draw any pod that a tenant may write."""
    number = draw(st.integers(1, len(NAMES)))
    specs = tuple(draw(containers(name)) for name in NAMES[:number])
    # the kubelet starts init containers and sidecars first, in their order
    ordered = tuple(sorted(specs, key=lambda each: each.kind is Kind.MAIN))
    pod = TenantPod(
        ordered, annotations=draw(WORDS if annotations is None else annotations), labels=draw(LABELS)
    )
    return replace(pod, figures=draw(pod_figures(pod))) if draw(st.booleans()) else pod


@st.composite
def resized(draw: st.DrawFn, pod: TenantPod, resources: tuple[str, ...] = ("cpu",)) -> TenantPod:
    """Draw a pod after an in-place resize: the API server keeps its QoS class, and figures that are set.

    Init containers keep their figures, and so does a pod whose class would change.
    """
    # the API server has stored its defaults at creation
    admitted = [replace(each, figures=each.figures.defaulted()) for each in pod.containers]
    pod = after = replace(pod, containers=tuple(admitted), figures=pod._admitted())
    for name in resources:
        specs = tuple(draw(_resized_container(each, name)) for each in after.containers)
        after = replace(after, containers=specs)
        if pod.figures.is_set:
            limits = [getattr(each.figures, f"{name}_limit") for each in specs]
            figures = draw(_resized_figures(after.figures, name, after._aggregated(name), *limits))
            after = replace(after, figures=figures)
    return after if after.qos is pod.qos else pod


@st.composite
def _resized_container(draw: st.DrawFn, container: ContainerSpec, name: str) -> ContainerSpec:
    if container.kind is Kind.INIT or draw(st.booleans()):
        return container
    return replace(container, figures=draw(_resized_figures(container.figures, name, 0)))


@st.composite
def _resized_figures(
    draw: st.DrawFn, figures: Figures, name: str, least: int, *limits: int | None
) -> Figures:
    """Draw new figures of one resource if they are set: equal ones stay equal, a limit covers its request.

    name: "cpu" or "memory".
    least: the smallest request.
    limits: a limit is at least as much as these.
    """
    amounts, smallest = (CPU, 1) if name == "cpu" else (MEMORY, 64 << 20)
    request, limit = getattr(figures, name), getattr(figures, f"{name}_limit")
    is_equal = request == limit
    if request is not None or draw(st.booleans()):
        request = max(draw(amounts) or 0, least)
    if limit is not None:
        limit = max(draw(amounts) or smallest, request or 0, least, *(each or 0 for each in limits))
        request = limit if is_equal else request
    return replace(figures, **{name: request, f"{name}_limit": limit})


def _written(values: st.SearchStrategy[Any]) -> Callable[[str], st.SearchStrategy[tuple[str, str]]]:
    def pair(name: str) -> st.SearchStrategy[tuple[str, str]]:
        return values.map(lambda value: (name, value if isinstance(value, str) else json.dumps(value)))

    return pair


VALUES: Mapping[str, tuple[str, ...]] = {
    "qos-class": ("dedicated", "shared", "reclaimed", "system"),
    "cpu-pool": ("share", "isolated", "gold", "system"),
    "numa": ("none", "single", "exclusive"),
    "numa-count": ("1", "2", "1024"),
    "numa-ids": ("0", "0-1", "1"),
    "cpu-placement": ("packed", "full-cores", "spread", "one-thread-per-core"),
    "memory-limit": ("4096", "1Gi", "50%", "100Gi"),
    "memory-high": ("4096", "1Gi", "50%"),
    "memory-low": ("1Gi", "100%", "100Gi"),
    "memory-min": ("1Gi", "100%", "100Gi"),
    "io-weight": ("1", "100", "10000"),
    "blockio-class": ("fast",),
    "rdt-class": ("fast",),
    "oom-score-adj": ("-1000", "-998", "0", "1000"),
    "cpu-burst": ("0", "100"),
    "priority": ("-1000000000", "1000000000"),
    "avoidance": ("none", "throttle,evict"),
    "preserve": ("cpu", "memory", "cpu,memory"),
    "record": ('{"v":1,"class":"dedicated","pool":"dedicated","exclusive":"0-7"}',),
}
"""Values of our keys that ask for much, and the record that only the plugin writes."""

_KEYS = st.sampled_from(tuple(VALUES))


def _of(table: Mapping[str, tuple[str, ...]]) -> st.SearchStrategy[tuple[str, str]]:
    """Draw a name of a table with one of its values."""
    return st.sampled_from(tuple(table)).flatmap(
        lambda name: st.sampled_from([(name, v) for v in table[name]])
    )


OUR_WORDS = st.one_of(
    _of({PREFIX + key: values for key, values in VALUES.items()}),
    _of({f"{PREFIX}{key}.app": values for key, values in VALUES.items()}),
    st.dictionaries(_KEYS, st.just("dedicated"), max_size=2).map(
        lambda found: (PREFIX + keys.CONTAINERS, json.dumps({"app": found, "log": found}))
    ),
)

_ENHANCED = st.dictionaries(
    st.sampled_from(("numa_binding", "numa_exclusive", "cpuset_pool", "full_pcpus_pairing", "oom_priority")),
    st.sampled_from(("true", "gold", "300", "share")),
    max_size=3,
)
_AMOUNTS = st.fixed_dictionaries(
    {},
    optional={
        "cpu": st.sampled_from(("1", "8", "256", "1m")),
        "kubernetes.io/batch-cpu": st.sampled_from(("8000", "1000000")),
        "kubernetes.io/batch-memory": st.just("64Gi"),
    },
)
_LISTED = st.fixed_dictionaries({}, optional={"requests": _AMOUNTS, "limits": _AMOUNTS})
_BY_CONTAINER = st.dictionaries(st.sampled_from(NAMES), _LISTED, max_size=3)

THEIR_WORDS = st.one_of(
    _of({"katalyst.kubewharf.io/qos_level": ("dedicated_cores", "system_cores", "reclaimed_cores")}),
    _written(_ENHANCED)("katalyst.kubewharf.io/memory_enhancement"),
    _written(_ENHANCED)("katalyst.kubewharf.io/cpu_enhancement"),
    _written(st.fixed_dictionaries({"cpuset": CPULISTS}))("scheduling.koordinator.sh/resource-status"),
    _of({"scheduling.koordinator.sh/resource-spec": ('{"requiredCPUBindPolicy": "FullPCPUs"}',)}),
    _written(st.fixed_dictionaries({"containers": _BY_CONTAINER}))(
        "node.koordinator.sh/extended-resource-spec"
    ),
    _of({"volcano.sh/qos-level": ("HLS", "LC", "BE")}),
    _written(
        st.fixed_dictionaries({"containers": _BY_CONTAINER}, optional={"initContainers": _BY_CONTAINER})
    )("noderesource.dev/resources"),
)

ASKING = _of({PREFIX + keys.QOS_CLASS: ("dedicated",)})
WORDS = st.lists(st.one_of(ASKING, OUR_WORDS, THEIR_WORDS), max_size=6).map(dict)
"""Annotations of every vocabulary, half of them with a word for own CPUs among them."""
ASKING_WORDS = st.tuples(st.one_of(WORDS, st.just({})), ASKING).map(
    lambda found: {**found[0], **dict((found[1],))}
)
"""The same, all of them with such a word."""

GREEDY_WORDS = st.tuples(
    ASKING_WORDS,
    st.fixed_dictionaries(
        {},
        optional={
            PREFIX + key: st.sampled_from(VALUES[key])
            for key in ("memory-min", "memory-low", "memory-limit", "numa")
        },
    ),
).map(lambda found: {**found[0], **found[1]})
"""The same, most of them with words for memory too."""

LABELS = st.lists(
    _of(
        {
            "koordinator.sh/qosClass": ("LSE", "LSR", "SYSTEM", "BE"),
            "koordinator.sh/priority": ("9999",),
            "tier": ("gold", "own", "agent"),
        }
    ),
    max_size=2,
).map(dict)
"""Labels of foreign vocabularies, and one that an operator's rules and pools may select by."""
