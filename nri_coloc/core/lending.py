"""Results of the lending loop, applied by the shell and reported to schedulers.

Amounts are milli-CPU and bytes. A `Binding` says which term of a formula was the binding one; where there is a
`because`, it holds every figure that took part.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple


class Binding(StrEnum):
    """Which term decided a headroom or a capacity."""

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


class Headroom(NamedTuple):
    """The headroom, and the term that bound it.

    `unused_milli`: what online pods leave of their CPUs, however little of it an operator lets the box have.
    """

    cpu_milli: int = 0
    memory_bytes: int = 0
    online_cpu_milli: int = 0
    binding: Binding = Binding.NOT_MEASURED
    unused_milli: int = 0


class Capacity(NamedTuple):
    """The advertised capacity: slower than headroom, predicted, down to zero.

    `borne_milli`, `borne_bytes`: what would be offered if of workloads that are still being learnt only that counted
    which they have shown; None where nobody is, and it is the same.
    """

    cpu_milli: int = 0
    memory_bytes: int = 0
    binding: Binding = Binding.NOT_MEASURED
    because: str = ""
    borne_milli: int | None = None
    borne_bytes: int | None = None

    @property
    def borne(self) -> tuple[int, int]:
        """What is there for who runs already, milli-CPU and bytes: nothing is taken off that is only guessed."""
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
    """memory.high and memory.max of the box as a whole, bytes; None is "no limit of ours".

    `pods`: those of its pods together, where kubepods' own limit bounds them and not all of the box.
    `inputs`: every figure of the decision, by name.
    """

    high: int | None = None
    limit: int | None = None
    binding: Binding = Binding.NOT_MEASURED
    inputs: Mapping[str, int | float | str | None] = field(default_factory=dict)
    pods: Part | None = None
