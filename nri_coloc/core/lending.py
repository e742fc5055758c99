"""Results of the lending loop, applied by the shell and reported to schedulers.

Amounts are milli-CPU and bytes. A `Binding` names the term of a formula that limited the result. A `because` holds
every figure of the decision.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple


class Binding(StrEnum):
    """The term that limited a headroom or a capacity."""

    NOT_MEASURED = "lending_not_measured"
    LEARNING = "learning"
    ONLINE_USE = "online_use"
    STALL = "online_stall"
    DWELL = "dwell"
    GROWTH_STEP = "growth_step"
    DEAD_BAND = "dead_band"
    ALL_LENT = "all_lent"
    STALE = "stale_readings"
    LATE = "late_tick"
    FLOOR = "floor"
    FORECAST = "forecast"
    YESTERDAY = "same_hour_yesterday"
    KUBEPODS_LIMIT = "kubepods_limit"
    FREE_MEMORY = "free_memory"
    ONLINE_CLAIM = "online_claim"
    DISABLED = "lending_disabled"
    PAUSED = "lending_paused"
    TIERS = "tiers"
    SYSTEM_USE = "system_use"
    LENDABLE = "lendable_cpus"
    BOX = "box_cpus"
    POOL_MAXIMUM = "pool_maximum"
    SCHEDULE = "schedule"
    DISK = "disk_short"
    COOL_DOWN = "cool_down"


class Headroom(NamedTuple):
    """The headroom, and the term that bound it.

    unused_milli: milli-CPU that online pods leave unused, before the operator's maximum for the reclaim pool.
    """

    cpu_milli: int = 0
    memory_bytes: int = 0
    online_cpu_milli: int = 0
    binding: Binding = Binding.NOT_MEASURED
    unused_milli: int = 0


class Capacity(NamedTuple):
    """The advertised capacity for reclaimed pods. It follows from expected use, so it changes slowly.

    cpu_milli: milli-CPU, 0 for none.
    memory_bytes: bytes, 0 for none.
    binding: the term that bounds `cpu_milli`.
    because: both amounts as formulas, in words.
    borne_milli, borne_bytes: the same amounts, but a workload without a history counts with its measured use, and not
        with its request. None if every workload has a history; the amounts are then equal.
    """

    cpu_milli: int = 0
    memory_bytes: int = 0
    binding: Binding = Binding.NOT_MEASURED
    because: str = ""
    borne_milli: int | None = None
    borne_bytes: int | None = None

    @property
    def borne(self) -> tuple[int, int]:
        """Capacity for reclaimed pods that already run, milli-CPU and bytes: no deduction that is only a guess."""
        milli, memory = self.borne_milli, self.borne_bytes
        return self.cpu_milli if milli is None else milli, self.memory_bytes if memory is None else memory


class Change(StrEnum):
    """The effect of a tick on the reclaim pool."""

    KEEP = "keep"
    SUPPRESS = "suppress"
    GROW = "grow"


class CPUTarget(NamedTuple):
    """The number of CPUs that the reclaim pool may have now (at least 1), and the term that bound it."""

    cpus: int
    change: Change = Change.KEEP
    binding: Binding = Binding.NOT_MEASURED


class Part(NamedTuple):
    """The memory of some reclaim cgroups, or of one: memory.high and memory.max, bytes."""

    high: int
    limit: int


@dataclass(frozen=True, slots=True)
class MemoryTarget:
    """memory.high and memory.max of all reclaim cgroups together, bytes; None is "no limit of ours".

    pods: the bounds of the reclaimed pods alone, if kubepods' own limit bounds them and not the host groups.
    inputs: every figure of the decision, by name.
    """

    high: int | None = None
    limit: int | None = None
    binding: Binding = Binding.NOT_MEASURED
    inputs: Mapping[str, int | float | str | None] = field(default_factory=dict)
    pods: Part | None = None
