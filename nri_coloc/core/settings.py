"""Frozen parameters of the policy and of the shell, made from the operator's settings.

Made by `service.configuration`; nothing here is validated again. Units are in the names or beside the field.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.workload import QoSClass


@dataclass(frozen=True, slots=True)
class ClassTuning:
    """Defaults of one class; `None` is "leave it", memory values are written as in annotations.

    `cpu_burst`: percent of the quota; 0 is "leave it". `min_request`: the least CPU request of a pod of this class,
    thousandths of a CPU.
    """

    cpu_shares: int | None = None
    io_weight: int = 100
    oom_score_adj: int | None = None
    memory_high: str | None = None
    memory_low: str | None = None
    memory_min: str | None = None
    allow_namespaces: tuple[str, ...] = ("kube-system",)
    cpu_burst: int = 0
    min_request: int = 0

    @property
    def has_memory(self) -> bool:
        """Whether a memory value is set: those may depend on a container's limit or request."""
        return any(v is not None for v in (self.memory_high, self.memory_low, self.memory_min))


@dataclass(frozen=True, slots=True)
class ClassRule:
    """One selector of the operator: annotation or label as (key, value), and/or a namespace glob."""

    qos: QoSClass
    annotation: tuple[str, str] | None = None
    label: tuple[str, str] | None = None
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class Selector:
    """Pods that carry an annotation and a label as (key, value) and are in a namespace; what is not named holds."""

    annotation: tuple[str, str] | None = None
    label: tuple[str, str] | None = None
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class PoolTuning:
    """One pool of the operator, or bounds for `share` and `reclaim`.

    `qos`: of its members, shared or system. `minimum`, `maximum`: CPUs, 0 for none. `group_by`: "namespace", "pod",
    "label:KEY" or "annotation:KEY", a pool `name/GROUP` for each group. `priority`: higher has CPUs first. `band`:
    target utilisation, low and high, 0–1 (partition mode).
    """

    name: str
    members: tuple[Selector, ...] = ()
    qos: QoSClass = QoSClass.SHARED
    minimum: int = 0
    maximum: int = 0
    group_by: str = ""
    priority: int = 0
    band: tuple[float, float] | None = None

    @property
    def sized(self) -> bool:
        """Whether it has CPUs of its own; otherwise it is a name over another pool's."""
        return bool(self.minimum or self.maximum or self.group_by)


def default_classes() -> dict[QoSClass, ClassTuning]:
    """Return DESIGN 4.2's table."""
    return {
        QoSClass.DEDICATED: ClassTuning(min_request=1000),
        QoSClass.SHARED: ClassTuning(),
        QoSClass.RECLAIMED: ClassTuning(cpu_shares=2, io_weight=10, oom_score_adj=1000),
        QoSClass.SYSTEM: ClassTuning(),
    }


@dataclass(frozen=True, slots=True)
class ForecastTuning:
    """Parameters of the prediction.

    estimator: a name of `forecast.estimators.ESTIMATORS`.
    memory_percentile, memory_half_life_s: memory is not taken back as fast as CPU, so a higher peak over a longer time
        counts. 98 % and 24 h are Koordinator's (koordlet, peak prediction), as are the 95 % and 12 h for CPU.
    sample_s: one peak per pod enters the history in so many seconds.
    workloads: histories kept, twice the kubelet's 110 pods.
    forget_s: a history without a new peak for so long is dropped.
    blind_s: without readings for so long, nothing is advertised.
    """

    estimator: str = "percentile"
    memory_percentile: float = 0.98
    memory_half_life_s: float = 24 * 3600.0
    sample_s: float = 60.0
    workloads: int = 256
    forget_s: float = 7 * 86400.0
    blind_s: float = 86400.0


@dataclass(frozen=True, slots=True)
class AmountTuning:
    """When what a container was lent is worth another container update.

    `dwell_s`: the capacity must have differed for so long; `dead_band`: by this part. 300 s and a tenth are
    Koordinator's (slo-controller, updateTimeThresholdSeconds and resourceDiffThreshold). `memory_room`: bytes
    that stay between a container's use and a lowered memory limit.
    """

    dwell_s: float = 300.0
    dead_band: float = 0.1
    memory_room: int = 64 << 20


@dataclass(frozen=True, slots=True)
class BurstTuning:
    """CPU burst of online pods beyond their quota.

    `quota_percent`: how far a throttled container's quota may be raised, of its own quota; 100 is "not at all" and
    the default, as Koordinator's policy is "none" (its figure for the switched-on case is 300). `threshold`: part of
    the online CPUs in use from which raised quotas go back (Koordinator's sharePoolThresholdPercent, 50); from
    `cooling` of it on nothing is raised. `up`, `down`: one step. `seconds`: how long a container may use its whole
    raise before it has to rest; 0 is for ever.
    """

    quota_percent: int = 100
    threshold: float = 0.5
    cooling: float = 0.9
    up: float = 1.2
    down: float = 0.8
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class HintTuning:
    """Scheduling hints for the tasks of online and reclaimed containers.

    online_slice_us: EEVDF slice of shared containers in µs, 0 is the kernel's own. 100 µs is the least that the kernel
        takes. It cost nothing and took a quarter off p99.9 where it was measured (kernel 6.18, two CPUs).
    offline_policy: scheduling policy of reclaimed containers' tasks, by the kernel's name; "" leaves their own. Beside
        SCHED_BATCH online tasks now and then stay together on one CPU for seconds, beside SCHED_IDLE they do not
        (docs/decisions/0029).
    """

    online_slice_us: int = 100
    offline_policy: str = "SCHED_IDLE"


@dataclass(frozen=True, slots=True)
class ReclaimTuning:
    """How lending behaves; DESIGN 6.

    `enabled`: False lends nothing and leaves `reclaim` the same set as `share`. `paused`: in words why the box has its
    floor for now and nothing is offered, "" while lending goes on. `watermark`: the part of the lendable
    CPUs that online and offline together may use (Katalyst and Koordinator default near 0.65–0.9; ours is higher since
    the box is taken back in milliseconds). `reserve_milli`: never lent. `dead_band_milli`: growth smaller than this is
    not worth a write. `step_milli`: the most by which the box grows at once; `dwell_s`: how long the headroom must
    have borne it. `cut`: a stall leaves this part of the box. `stall`: share of wall time beyond which an
    online group's waiting counts as a stall. `tick_s`: the fast loop; `stale_s`: readings older than this lend the
    floor. `partition`: tiers sized by load in place of the overlap; `partition_dwell_s`: how long a tier must have been
    below its band before it gives CPUs back: each resize moves all its members, and the runtime is told of each.

    `dead_band_milli` is that of 8 CPUs; of more, it widens by the square root, as the noise of a sum does.
    `step_share`: the step is never less than this part of the lendable CPUs (Koordinator: 0.1 a second), `step_s` lies
    between two steps, more where they cost more than `cost_share`. `dwell_max_s`: growth that had to be taken back
    soon doubles the dwell, up to this.
    `average_s`: the time constant over which use is averaged; bursts do not wait for it.
    `whole_core_from`: the part of a core from which it is lent whole (0 rounds up, as Koordinator; 1 rounds down: the
    last core's use is bounded by the box's weight anyway); `yielded_from`: the part of a core that must be left for a
    core more to be lent to tasks that give way at once. `relief_s`: how long a stall takes that core away.
    `stall_window_s`: over what time stalls are averaged, `lasting_window_s`: those behind tasks that give way.
    `quiet_tick_s`: the loop while nothing can be taken back, `idle_tick_s`: while there is no reclaimed pod,
    `rest_tick_s`: while what can be taken back is not used; `tick_max_s`: the slowest it becomes otherwise, when a tick
    costs more than `cost_share` of a CPU.

    Memory: `memory_watermark`: the part of the machine's memory that may be in use; `memory_reserve`: bytes never
    lent. `memory_request_claim`: how much of what an online pod requested and does not use counts as its own: all
    of it, since a request is a promise (Koordinator's policy "usage" counts nothing, Katalyst a tenth).
    `memory_dead_band`: growth below it is not worth a write; `memory_growth`: most that is given at once, after
    `memory_dwell_s` in which it could have been borne (Katalyst: 300 Mi, 5 Gi in 30 s). `memory_step`: most that
    one write of memory.high is below the use, since the write itself reclaims. `eviction_s`: how long it takes until
    an evicted pod's memory is free. `memory_stale_s`: without readings for so long the box goes step by step to
    `memory_floor`.

    `host_groups`: cgroups outside Kubernetes that are members of the box, below the hierarchy's root.
    """

    enabled: bool = True
    paused: str = ""
    partition: bool = False
    partition_dwell_s: float = 10.0
    watermark: float = 0.95
    reserve_milli: int = 0
    dead_band_milli: int = 200
    step_milli: int = 1000
    dwell_s: float = 1.0
    cut: float = 0.5
    stall: float = 0.1
    tick_s: float = 0.02
    stale_s: float = 1.0
    step_share: float = 0.1
    step_s: float = 0.25
    dwell_max_s: float = 8.0
    average_s: float = 0.06
    whole_core_from: float = 0.1
    yielded_from: float = 0.5
    relief_s: float = 0.1
    lasting_window_s: float = 0.5
    stall_window_s: float = 0.05
    quiet_tick_s: float = 0.1
    idle_tick_s: float = 0.5
    rest_tick_s: float = 0.06
    tick_max_s: float = 0.05
    cost_share: float = 0.005
    memory_watermark: float = 0.95
    memory_reserve: int = 0
    memory_step: int = 256 << 20
    memory_dwell_s: float = 30.0
    memory_request_claim: float = 1.0
    memory_dead_band: int = 64 << 20
    memory_growth: int = 4 << 30
    memory_stale_s: float = 60.0
    memory_floor: int = 256 << 20
    eviction_s: float = 20.0
    host_groups: tuple[str, ...] = ()
    percentile: float = 0.95
    margin: float = 0.1
    half_life_s: float = 12 * 3600.0
    cold_start_s: float = 600.0
    forecast: ForecastTuning = ForecastTuning()
    amounts: AmountTuning = AmountTuning()
    burst: BurstTuning = BurstTuning()
    hints: HintTuning = HintTuning()


@dataclass(frozen=True, slots=True)
class Tuning:
    """`reserved` wins over `reserved_count`; the count means so many CPUs, whole lowest cores first.

    `preserve_kubelet`: a kubelet with a static CPU manager is no problem; `kept_by_kubelet`: the CPUs that it has
    pinned and keeps, by pod uid and container name ("" is the whole pod), told by the shell. `dra_driver`: the DRA CPU
    driver gives containers CPUs on this node; `kubelet_default`: the CPUs of containers that the kubelet's own CPU
    manager has not pinned, 0 where it is not active, told by the shell.
    `updates_per_reply`: how many other containers one hook reply may update, where it is not more that have to be; each
    costs the runtime 7 to 20 ms of runc under its global lock.
    """

    reserved: CPUMask = 0
    reserved_count: int = 0
    reserved_memory: int = 0
    preserve_kubelet: bool = False
    kept_by_kubelet: Mapping[str, Mapping[str, CPUMask]] = field(default_factory=dict)
    dra_driver: bool = False
    kubelet_default: CPUMask = 0
    classes: Mapping[QoSClass, ClassTuning] = field(default_factory=default_classes)
    rules: tuple[ClassRule, ...] = ()
    pools: tuple[PoolTuning, ...] = ()
    handlers: Mapping[str, str] = field(default_factory=dict)
    reclaim: ReclaimTuning = field(default_factory=ReclaimTuning)
    updates_per_reply: int = 4
    observe: bool = False
    strict: bool = False


@dataclass(frozen=True, slots=True)
class Settings:
    """The whole configuration as the program uses it; flags have already beaten the file.

    `http` is "ADDR:PORT" or "off"; `audit_ring` counts records kept for `/v1/audit`. `restore_on_exit`: at SIGTERM
    put back what we wrote, in place of leaving the last limits in force.
    """

    tuning: Tuning = field(default_factory=Tuning)
    nri_socket: str = "/var/run/nri/nri.sock"
    cri_socket: str = "/run/containerd/containerd.sock"
    plugin_name: str = "nri-coloc"
    plugin_index: str = "50"
    http: str = "127.0.0.1:9744"
    audit_ring: int = 4096
    log_level: str = "info"
    restore_on_exit: bool = False
