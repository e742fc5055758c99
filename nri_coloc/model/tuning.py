"""What the operator's settings become: frozen parameters of the policy and of the shell.

Made by `config`; nothing here is validated again. Units are in the names or beside the field.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from nri_coloc.model.cpuset import CPUMask
from nri_coloc.model.workload import QoSClass


@dataclass(frozen=True, slots=True)
class ClassTuning:
    """Defaults of one class; `None` is "leave it", memory values are written as in annotations."""

    cpu_shares: int | None = None
    io_weight: int = 100
    oom_score_adj: int | None = None
    memory_high: str | None = None
    memory_low: str | None = None
    memory_min: str | None = None
    allow_namespaces: tuple[str, ...] = ("kube-system",)

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


def default_classes() -> dict[QoSClass, ClassTuning]:
    """Return DESIGN 4.2's table."""
    return {
        QoSClass.DEDICATED: ClassTuning(),
        QoSClass.SHARED: ClassTuning(),
        QoSClass.RECLAIMED: ClassTuning(cpu_shares=2, io_weight=10, oom_score_adj=1000),
        QoSClass.SYSTEM: ClassTuning(),
    }


@dataclass(frozen=True, slots=True)
class ReclaimTuning:
    """How lending behaves; DESIGN 6.

    `enabled`: False lends nothing and leaves `reclaim` the same set as `share`. `watermark`: the part of the lendable
    CPUs that online and offline together may use (Katalyst and Koordinator default near 0.65–0.9; ours is higher since
    the box is taken back in milliseconds). `reserve_milli`: never lent. `dead_band_milli`: growth smaller than this is
    not worth a write. `step_milli`: the most by which the box grows at once; `dwell_s`: how long the headroom must
    have borne it. `cut`: a stall leaves this part of the box. `stall`: share of wall time beyond which an
    online group's waiting counts as a stall. `tick_s`: the fast loop; `stale_s`: readings older than this lend the
    floor. `partition`: tiers sized by load in place of the overlap.

    `dead_band_milli` is that of 8 CPUs; of more, it widens by the square root, as the noise of a sum does.
    `step_share`: the step is never less than this part of the lendable CPUs (Koordinator: 0.1 a second), `step_s` lies
    between two steps. `dwell_max_s`: growth that had to be taken back soon doubles the dwell, up to this.
    `average_s`: the time constant over which use is averaged; bursts do not wait for it.
    `whole_core_from`: the part of a core from which it is lent whole (0 rounds up, as Koordinator; 1 rounds down: the
    last core's use is bounded by the box's weight anyway). `stall_window_s`: over what time stalls are averaged.
    `quiet_tick_s`: the loop while nothing can be taken back, `idle_tick_s`: while there is no reclaimed pod,
    `tick_max_s`: while what can be taken back is not used, and the slowest it becomes when a tick costs more than
    `cost_share` of a CPU.
    """

    enabled: bool = True
    partition: bool = False
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
    stall_window_s: float = 0.05
    quiet_tick_s: float = 0.1
    idle_tick_s: float = 0.5
    tick_max_s: float = 0.05
    cost_share: float = 0.005
    memory_watermark: float = 0.95
    memory_reserve: int = 0
    memory_step: int = 256 << 20
    memory_dwell_s: float = 30.0
    eviction_s: float = 20.0
    percentile: float = 0.95
    margin: float = 0.1
    half_life_s: float = 12 * 3600.0
    cold_start_s: float = 600.0


@dataclass(frozen=True, slots=True)
class Tuning:
    """`reserved` wins over `reserved_count`; the count means so many CPUs, whole lowest cores first.

    `preserve_kubelet`: the CPUs that the kubelet's own CPU manager has pinned stay with it; `kept_by_kubelet`: which
    they are now, by pod uid and container name ("" is the whole pod), told by the shell.
    `updates_per_reply`: how many other containers one hook reply may update; each costs the runtime about
    7.5 ms of runc under its global lock.
    """

    reserved: CPUMask = 0
    reserved_count: int = 0
    reserved_memory: int = 0
    preserve_kubelet: bool = False
    kept_by_kubelet: Mapping[str, Mapping[str, CPUMask]] = field(default_factory=dict)
    classes: Mapping[QoSClass, ClassTuning] = field(default_factory=default_classes)
    rules: tuple[ClassRule, ...] = ()
    handlers: Mapping[str, str] = field(default_factory=dict)
    reclaim: ReclaimTuning = field(default_factory=ReclaimTuning)
    updates_per_reply: int = 16
    observe: bool = False
    strict: bool = False


@dataclass(frozen=True, slots=True)
class Settings:
    """The whole configuration as the program uses it; flags have already beaten the file.

    `http` is "ADDR:PORT" or "off"; `audit_ring` counts records kept for `/v1/audit`.
    """

    tuning: Tuning = field(default_factory=Tuning)
    nri_socket: str = "/var/run/nri/nri.sock"
    cri_socket: str = "/run/containerd/containerd.sock"
    plugin_name: str = "nri-coloc"
    plugin_index: str = "50"
    http: str = "127.0.0.1:9744"
    audit_ring: int = 4096
    log_level: str = "info"
