"""Frozen parameters of the policy and of the daemon, made from the operator's settings.

`service.configuration` makes and validates them; nothing here is validated again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, tzinfo

from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.workload import QoSClass


@dataclass(frozen=True, slots=True)
class ClassTuning:
    """Defaults of one class.

    cpu_shares: cpu.shares of containers without a CPU request, 2–262144, 1024 is one CPU; None leaves the kubelet's.
    io_weight: 1–10000; 100 is the kernel's own and is not written.
    oom_score_adj: −999 to 1000 in the band of the class; None leaves the kubelet's.
    memory_high: as in annotations, an amount or a percentage of the memory limit; None for none.
    memory_low, memory_min: the same, a percentage of the memory request.
    allow_namespaces: names or globs of namespaces whose pods may ask for privileges, such as `preserve`.
    cpu_burst: percent of the quota, 0–100; 0 for none.
    min_request: the least CPU request of a pod of this class, thousandths of a CPU; 0 for none.
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
        """Whether a memory value is set: such a value may depend on a container's limit or request."""
        return not (self.memory_high is self.memory_low is self.memory_min is None)


@dataclass(frozen=True, slots=True)
class Selector:
    """Conditions on a pod: all that are set must match.

    annotation, label: as (key, value); None matches any.
    namespace: a name or glob; "" matches any.
    """

    annotation: tuple[str, str] | None = None
    label: tuple[str, str] | None = None
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class ClassRule(Selector):
    """One rule of the operator: the class of the pods that it matches."""

    qos: QoSClass = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class PoolTuning:
    """One pool of the operator, or bounds for `share` and `reclaim`.

    qos: class of its members, shared or system.
    minimum, maximum: CPUs; 0 for no bound.
    group_by: "namespace", "pod", "label:KEY" or "annotation:KEY" for a pool `name/GROUP` of each group; "" for one
        pool.
    priority: a pool with a higher number gets CPUs first.
    band: target utilisation, low and high, 0–1 (partition mode); None for the default band.
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
        """Whether the pool has CPUs of its own; otherwise it is a name over another pool's CPUs."""
        return bool(self.minimum or self.maximum or self.group_by)

    @property
    def is_grouped_by_authors(self) -> bool:
        """Whether the authors of pods choose its groups, by names, labels or annotations, and so their number."""
        return self.group_by not in ("", "namespace")


def default_classes() -> dict[QoSClass, ClassTuning]:
    """Return the defaults of each class, the table of docs/configuration.md."""
    return {
        QoSClass.DEDICATED: ClassTuning(min_request=1000),
        QoSClass.SHARED: ClassTuning(),
        QoSClass.RECLAIMED: ClassTuning(cpu_shares=2, io_weight=10, oom_score_adj=1000),
        QoSClass.SYSTEM: ClassTuning(),
    }


@dataclass(frozen=True, slots=True)
class ForecastTuning:
    """Parameters of the forecast.

    estimator: a name of `forecast.estimators.ESTIMATORS`. Default "percentile".
    memory_percentile: part of the peaks that the expected use covers, 0–1. It is higher than for CPU, because memory is
        taken back more slowly. Default 98 % (koordlet, peak prediction).
    memory_half_life_s: seconds after which a peak counts half; 24 h, Koordinator's too. CPU has its 95 % and 12 h
        (`ReclaimTuning`).
    sample_s: seconds between two peaks of a pod that enter its history. Default 60.
    workloads: number of histories kept, twice the kubelet's 110 pods. Default 256.
    forget_s: seconds without a new peak after which a history is dropped. Default a week.
    blind_s: seconds without readings after which nothing is advertised. Default a day.
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
    """When a changed loan is worth another update of the container.

    The defaults of `dwell_s` and `dead_band` are those in Koordinator's slo-controller (updateTimeThresholdSeconds,
    resourceDiffThreshold).

    dwell_s: seconds for which the capacity must have differed. Default 300.
    dead_band: smaller differences change nothing, part of the amount. Default a tenth.
    memory_room: bytes that stay between a container's use and a lowered memory limit. Default 64 MiB.
    """

    dwell_s: float = 300.0
    dead_band: float = 0.1
    memory_room: int = 64 << 20


@dataclass(frozen=True, slots=True)
class BurstTuning:
    """How far, and while how much CPU is in use, the quota of a throttled online container is raised.

    quota_percent: the highest quota, percent of the container's own quota. The default 100 raises nothing, as
        Koordinator's policy "none"; Koordinator has 300 when it is switched on.
    threshold: use of the online CPUs, 0 to 1, from which raised quotas are lowered. The default 0.5 is Koordinator's
        sharePoolThresholdPercent.
    cooling: part of `threshold`, 0 to 1, from which no quota is raised any more. Default 0.9.
    up, down: factors by which one step raises or lowers a quota. Defaults 1.2 and 0.8.
    seconds: how long a container may use its highest quota. After that it keeps its own quota until it has used less
        than that for a while. The default 0 sets no limit.
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
    """How lending behaves.

    Lending:
    enabled: False lends nothing, and `reclaim` has the CPUs of `share`.
    paused: why lending is paused, a sentence; "" while it is not. The reclaim pool then has its floor, and the offer is
        0.
    lend: part of the headroom that is lent now, by the schedule or an operator's switch, 0–1. Default 1.
    offer: part of the capacity that is offered to new pods, 0 to `lend`; less while lending is about to fall. Default
        1.
    watermark: part of the lendable CPUs that online and reclaimed pods together may use, 0.01–2. Katalyst's and
        Koordinator's defaults are near 0.65–0.9. Ours is higher, because CPUs are taken back in milliseconds. Default
        0.95.
    reserve_milli: milli-CPU that are never lent. Default 0.
    host_groups: cgroups outside Kubernetes that are reclaim cgroups too, paths below the hierarchy's root.

    Size of the reclaim pool:
    dead_band_milli: milli-CPU of growth that are ignored, for 8 lendable CPUs. With more CPUs it widens with the square
        root, as the noise of a sum does. Default 200.
    step_milli: the most that the pool grows at once, milli-CPU. Default 1000.
    step_share: the step is at least this part of the lendable CPUs (Koordinator: 0.1 a second). Default 0.1.
    step_s: least seconds between two steps; more if a step costs more than `cost_share`. Default 0.25.
    dwell_s: seconds for which the headroom must have allowed the growth. Default 1.
    dwell_max_s: longest dwell. If growth is taken back soon, the dwell doubles up to this. Default 8.
    average_s: time constant of averaged use, seconds; a burst counts at once. Default 0.06.
    whole_core_from: part of a core from which the whole core is lent. 0 rounds up, as Koordinator does; 1 rounds down.
        The minimum weight of reclaimed tasks bounds the last core's use anyway. Default 0.1.
    yielded_from: part of a core that must be left for the extra core, which only tasks that yield at once get. Default
        0.5.
    relief_s: seconds for which a stall takes the extra core away. Default 0.1.

    Stalls:
    stall: part of the time from which waiting of an online group counts as a stall, 0.01–1. Default 0.1.
    cut: part of the reclaim pool that stays after a stall. Default 0.5.
    stall_window_s: seconds over which stalls are averaged. Default 0.05.
    lasting_window_s: the same for stalls behind tasks that yield. Default 0.5.

    Periods of the fast loop, seconds:
    tick_s: the usual period. Default 0.02.
    tick_max_s: the longest usual period, if a tick costs more than `cost_share`. Default 0.05.
    rest_tick_s: while the CPUs that could be taken back are not used. Default 0.06.
    quiet_tick_s: while nothing can be taken back. Default 0.1.
    idle_tick_s: while there is no reclaimed pod. Default 0.5.
    cost_share: part of a CPU that the loop may cost. Default 0.005.
    stale_s: age of readings from which the pool has its floor. Default 1.

    Partition:
    partition: tiers are sized by their load; otherwise the reclaim pool overlaps `share`.
    partition_dwell_s: seconds for which a tier must be below its band before it loses CPUs. Each resize moves all its
        members, and the runtime gets an update for each. Default 10.

    Memory, bytes:
    memory_watermark: part of the machine's memory that may be in use, 0.01–1. Default 0.95.
    memory_reserve: memory that is never lent. Default 0.
    memory_request_claim: part of an online pod's unused memory request that counts as used, 0–1. The default is all of
        it, because a request is a promise (Koordinator's policy "usage": nothing; Katalyst: a tenth).
    memory_dead_band: growth below this is ignored (Katalyst: 300 Mi). Default 64 MiB.
    memory_growth: the most that is lent at once (Katalyst: 5 Gi in 30 s). Default 4 GiB.
    memory_dwell_s: seconds for which the growth must have been possible. Default 30.
    memory_step: the most by which one write sets memory.high below the use, because the write itself reclaims memory.
        Default 256 MiB.
    eviction_s: seconds until the memory of an evicted pod is free. Default 20.
    memory_stale_s: seconds without readings after which memory.high falls step by step to `memory_floor`. Default 60.
    memory_floor: least memory of the reclaim cgroups. Default 256 MiB.

    Forecast of CPU use; memory has its own figures in `ForecastTuning`:
    percentile: part of the peaks that the expected use covers, 0–1. Default 0.95.
    margin: part of the expected use that is added to it. Default 0.1.
    half_life_s: seconds after which a peak counts half. Default 12 h.
    cold_start_s: seconds of history before which a workload is still being learnt. Default 600.
    """

    enabled: bool = True
    paused: str = ""
    lend: float = 1.0
    offer: float = 1.0
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
class RungTuning:
    """One resource's rung of the ladder (`pressure`).

    judges: whether verdicts are made and recorded.
    throttles: whether culprits are throttled.
    up: hurt readings before a verdict and before each step down, one a second; the first is followed by the second one
        after a quarter of a second. After a step up one is enough. Default 2.
    down: calm readings before each step up. Default 5.
    hold_s: least seconds from a step down to the first step up, 30 or more: no pod is throttled and set free more than
        twice a minute. Default 30.
    """

    judges: bool = True
    throttles: bool = False
    up: int = 2
    down: int = 5
    hold_s: float = 30.0


@dataclass(frozen=True, slots=True)
class DiskTuning:
    """Shortages of space and inodes, by which the node is closed for new reclaimed pods.

    closes: whether the file systems are read, and the node is closed while one is short. Default False.
    above: distance of the lines from those at which the kubelet evicts by default, part of a file system, −0.04 to 0.5.
        Default 0.01.
    """

    closes: bool = False
    above: float = 0.01


@dataclass(frozen=True, slots=True)
class PressureTuning:
    """Verdicts on online pods' stalls, and actions on the pods that cause them.

    degrade: whether online containers above their pod's request get a lower quota while their pool is short of CPU. Off
        by default, because it takes CPU from online pods.
    evict: whether reclaimed pods are evicted if nothing milder helps. Off by default, because the work of an evicted
        pod is lost.
    """

    cpu: RungTuning = RungTuning()
    memory: RungTuning = RungTuning()
    io: RungTuning = RungTuning()
    disk: DiskTuning = DiskTuning()
    degrade: bool = False
    evict: bool = False


@dataclass(frozen=True, slots=True)
class Tuning:
    """The settings that the policy uses.

    reserved: reserved CPUs by number. If it is set, `reserved_count` is ignored.
    reserved_count: number of reserved CPUs, whole lowest cores first.
    reserved_memory: bytes for the node itself: not lent, and not granted as protection of pods' memory.
    preserve_kubelet: a kubelet with a static CPU manager is accepted; its CPUs stay as they are.
    kept_by_kubelet: CPUs that the kubelet has pinned and keeps, by pod uid and container name ("" is the whole pod).
        The daemon reads them.
    dra_driver: whether the DRA CPU driver gives containers CPUs on this node.
    kubelet_default: CPUs of containers that the kubelet's CPU manager has not pinned; 0 if it is not active. The daemon
        reads them.
    classes: defaults by class.
    rules: rules that give pods a class; the first rule that matches and is admitted counts.
    pools: pools of the operator.
    handlers: "container", "pod" or "ignore" by runtime handler.
    updates_per_reply: number of other containers that one hook's reply may update, 0–64, unless more must be. Each
        update costs the runtime 7 to 20 ms of runc under its global lock.
    observe: nothing is written; decisions are only reported.
    strict: a bad or forbidden annotation, or a request that cannot be met, makes creation fail.
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
    pressure: PressureTuning = PressureTuning()
    updates_per_reply: int = 4
    observe: bool = False
    strict: bool = False


@dataclass(frozen=True, slots=True)
class WindowTuning:
    """One window of the schedule, by the local clock.

    days: weekdays on which it opens; 0 is Monday.
    opens: minute of the day, 0 to 1439.
    closes: minute of the day, 1 to 1440. If it is not after `opens`, the window closes on the next day.
    lend: percent of the headroom that is lent while it is open, 0 to 100.
    """

    days: frozenset[int]
    opens: int
    closes: int
    lend: int = 100


@dataclass(frozen=True, slots=True)
class ScheduleTuning:
    """Lending by the clock. If windows overlap, the least percentage wins.

    zone: the time zone of the windows. UTC by default: a node's own zone is seldom known to its operators.
    windows: none by default; lending is then always at `outside`.
    outside: percent of the headroom that is lent while no window is open, 0 to 100.
    grace_s: seconds before lending falls in which no new reclaimed pods come, 0 to 86400. Ten minutes by default: short
        jobs end by themselves.
    """

    zone: tzinfo = UTC
    windows: tuple[WindowTuning, ...] = ()
    outside: int = 100
    grace_s: float = 600.0


@dataclass(frozen=True, slots=True)
class KubernetesSettings:
    """The companion, which reports lent amounts to Kubernetes, and the controller.

    report: whether there is a socket for the companion, which reports in the status of the node. Off by default:
        the daemon works without Kubernetes.
    cpu_resource: name of the resource of lent CPU, in milli-CPU.
    memory_resource: name of the resource of lent memory, in bytes.
    companion_uid: the only user whose processes may connect. 65532 by default, which images call nonroot.
    companion_gid: the group that can open the socket.
    evict: whether the controller evicts pods that a node's daemon chose. An operator's own order needs no switch.
        Off by default, because an operator should choose that pods are evicted.
    events: whether the companion writes Kubernetes Events on pods and on the node.
    """

    report: bool = False
    cpu_resource: str = "kubernetes.io/batch-cpu"
    memory_resource: str = "kubernetes.io/batch-memory"
    companion_uid: int = 65532
    companion_gid: int = 65532
    evict: bool = False
    events: bool = True


@dataclass(frozen=True, slots=True)
class Settings:
    """The whole configuration; command-line flags have already replaced values of the file.

    http: "ADDR:PORT" or "off".
    audit_ring: records of placement that are kept for `/v1/audit`, 1–65536, and as many of lending.
    restore_on_exit: at SIGTERM, restore original values instead of leaving the last limits in force.
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
    schedule: ScheduleTuning = ScheduleTuning()
    kubernetes: KubernetesSettings = KubernetesSettings()
