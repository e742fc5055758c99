"""The closed lists of the audit: every event, and every reason a decision can have.

`docs/audit.md` explains each to an operator; a test compares the two lists.
"""

from enum import StrEnum
from typing import Final


class AuditEvent(StrEnum):
    """What happened."""

    ADMIT = "container.admit"
    UPDATE = "container.update"
    RELEASE = "container.release"
    LATE = "container.late"
    POOL_RESIZE = "pool.resize"
    RECLAIM_SUPPRESS = "reclaim.suppress"
    RECLAIM_GROW = "reclaim.grow"
    RECLAIM_MEMORY = "reclaim.memory"
    RECLAIM_PAUSE = "reclaim.pause"
    RECLAIM_RESUME = "reclaim.resume"
    SCHEDULE_STATE = "schedule.state"
    PRESSURE_VERDICT = "pressure.verdict"
    PRESSURE_THROTTLE = "pressure.throttle"
    PRESSURE_DEGRADE = "pressure.degrade"
    PRESSURE_RECOVER = "pressure.recover"
    PRESSURE_RECLAIM = "pressure.reclaim"
    PRESSURE_DISK = "pressure.disk"
    POD_EVICT = "pod.evict"
    POD_STARVED = "pod.starved"
    POD_LIMIT = "pod.limit"
    PATH_LIMIT = "path.limit"
    ANNOTATION_INVALID = "annotation.invalid"
    ANNOTATION_DENIED = "annotation.denied"
    CONFIG_RELOAD = "config.reload"
    DRIFT_REPAIR = "drift.repair"
    PUSH_FAILED = "push.failed"
    WRITE_FAILED = "write.failed"
    RUNTIME_CONNECT = "runtime.connect"
    RUNTIME_LOST = "runtime.lost"
    RUNTIME_COMPARE = "runtime.compare"
    STATE_FOLDER = "state.folder"
    DAEMON_START = "daemon.start"
    DAEMON_STOP = "daemon.stop"
    HOOK_FAILED = "hook.failed"
    TOPOLOGY_CHANGE = "topology.change"
    ADMIN_CALL = "admin.call"


class Reason(StrEnum):
    """Why it was decided so."""

    # where a dedicated container's CPUs came from
    WHOLE_CORE = "whole_core"
    WHOLE_CORES = "whole_cores"
    WHOLE_NODE = "whole_node"
    THREADS = "threads"
    ACROSS_NODES = "across_nodes"
    MEMORY_UNBOUND = "memory_unbound"
    ORDERED = "ordered"
    NO_FREE_CPUS = "no_free_cpus"
    FOLLOWS_MAIN = "follows_main"
    INIT_CONTAINER = "init_container"
    BELOW_ONE_CPU = "below_one_cpu"
    RESTORED = "restored"
    ADOPTED = "adopted"
    # how many CPUs of its own it has now
    GROWN = "grown"
    SHRUNK = "shrunk"
    RESIZE_UNMET = "resize_unmet"
    # other containers
    POOL_MEMBER = "pool_member"
    POOL_FULL = "pool_full"
    BOX_MEMBER = "box_member"
    NO_CPUSET = "no_cpuset"
    HANDS_OFF = "hands_off"
    PROTECTED = "protected"
    POD_FACTS = "pod_facts"
    # changes that others cause
    CPUS_TAKEN = "cpus_taken"
    CPUS_RETURNED = "cpus_returned"
    CPUS_FREED = "cpus_freed"
    MEMBERS_ASKED = "members_asked"
    FIRST_SIZE = "first_size"
    NO_MEMBERS = "no_members"
    HEADROOM = "headroom"
    TIER_LOAD = "tier_load"
    REBALANCED = "rebalanced"
    QUOTA_BURST = "quota_burst"
    CPU_STALL = "cpu_stall"
    MEMORY_STALL = "memory_stall"
    IO_STALL = "io_stall"
    MEMORY_LOW = "memory_low"
    MEMORY_SHORT = "memory_short"
    CPU_STARVED = "cpu_starved"
    DISK_SPACE = "disk_space"
    DISK_INODES = "disk_inodes"
    CALM = "calm"
    NO_RELIEF = "no_relief"
    UNWATCHED = "unwatched"
    WITHOUT_CPU = "without_cpu"
    SUPPRESSED = "suppressed"
    MAIN_CAME = "main_came"
    MAIN_GONE = "main_gone"
    INHERITED = "inherited"
    RECONFIGURED = "reconfigured"
    # the end
    STOPPED = "stopped"
    REMOVED = "removed"
    VANISHED = "vanished"
    SUPERSEDED = "superseded"
    # the kubelet and the runtime
    KUBELET_UPDATE = "kubelet_update"
    NOTHING_OURS = "nothing_ours"
    PLACED_AT_START = "placed_at_start"
    TOO_LATE = "too_late"
    FOUND_DIFFERENT = "found_different"
    # annotations
    BAD_VALUE = "bad_value"
    NOT_ALLOWED = "not_allowed"
    REFUSED_STRICT = "refused_strict"
    # the daemon's own life
    VALID = "valid"
    INVALID = "invalid"
    CONNECTED = "connected"
    LOST = "lost"
    COMPLETE = "complete"
    MISSING = "missing"
    STARTED = "started"
    SIGNALLED = "signalled"
    TAKEN_OVER = "taken_over"
    REWRITTEN = "rewritten"
    REFUSED = "refused"
    NO_FILE = "no_file"
    RUNTIME_REFUSED = "runtime_refused"
    INTERNAL_ERROR = "internal_error"
    CPUS_CHANGED = "cpus_changed"
    # lending by the clock
    SCHEDULE = "schedule"
    # the admin socket
    OPERATOR = "operator"
    EXPIRED = "expired"
    DECLINED = "declined"
    STRANGER = "stranger"
    # results of eviction orders
    ACCEPTED = "accepted"
    BUDGET = "budget"
    GONE = "gone"
    UNREACHABLE = "unreachable"


_LENDING_EVENTS: Final = frozenset(
    {
        AuditEvent.RECLAIM_SUPPRESS,
        AuditEvent.RECLAIM_GROW,
        AuditEvent.RECLAIM_MEMORY,
        AuditEvent.PRESSURE_VERDICT,
        AuditEvent.PRESSURE_THROTTLE,
        AuditEvent.PRESSURE_DEGRADE,
        AuditEvent.PRESSURE_RECOVER,
        AuditEvent.PRESSURE_RECLAIM,
        AuditEvent.PRESSURE_DISK,
        AuditEvent.POD_STARVED,
    }
)
_LENDING_REASONS: Final = frozenset(
    {Reason.HEADROOM, Reason.TIER_LOAD, Reason.REBALANCED, Reason.QUOTA_BURST, Reason.POD_FACTS}
)
"""A companion may report other facts twice a second: its records must not push out records of placement."""


def is_of_lending(event: AuditEvent, reason: Reason) -> bool:
    """Tell records of measured load from records of placement: load causes them for as long as the node is busy."""
    return event in _LENDING_EVENTS or reason in _LENDING_REASONS
