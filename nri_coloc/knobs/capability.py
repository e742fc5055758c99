"""What this kernel and this runtime can take: probed by the shell, consulted by the translators."""

from dataclasses import dataclass
from typing import Final

from nri_coloc.model.knobs import Knobs

_BURST_FILES: Final = frozenset({"cpu.max.burst", "cpu.cfs_burst_us"})
_IO_FILES: Final = frozenset({"io.weight", "io.bfq.weight", "blkio.weight", "blkio.bfq.weight"})


@dataclass(frozen=True, slots=True)
class Capability:
    """`cgroup`: 1 or 2. `files`: control files that a pod's cgroup has here; a file not in it is not written.
    `seen_on_pods`: they were read where pods are, not guessed from another cgroup.

    `oom_at_create`: the runtime applies an adjustment's oom_score_adj (NRI ≥ 0.7). `oom_least`: the lowest that it may
    set; runc cannot create the container otherwise. `resctrl`: mounted.
    """

    cgroup: int = 1
    files: frozenset[str] = frozenset()
    oom_at_create: bool = True
    oom_least: int = 0
    resctrl: bool = False
    seen_on_pods: bool = False

    def unified(self, name: str) -> bool:
        """Whether a value may travel in `unified`: on v2 only (v1 fails the creation), for a file that exists."""
        return self.cgroup == 2 and name in self.files

    def lacking(self, wanted: Knobs) -> Knobs:
        """Return the values that nothing here takes; what is only guessed to be missing is not among them."""
        seen = self.seen_on_pods
        return Knobs(
            burst=wanted.burst if seen and not self.files & _BURST_FILES else None,
            io_weight=wanted.io_weight if seen and not self.files & _IO_FILES else None,
            memory_high=wanted.memory_high if seen and "memory.high" not in self.files else None,
            memory_low=wanted.memory_low if seen and "memory.low" not in self.files else None,
            memory_min=wanted.memory_min if seen and "memory.min" not in self.files else None,
            rdt_class=None if self.resctrl else wanted.rdt_class,
        )

    def oom_by_answer(self, wanted: int | None, former: int | None) -> bool:
        """Whether an oom_score_adj may travel in the answer to a creation; otherwise it is written at start."""
        if wanted is None or not self.oom_at_create:
            return False
        return wanted >= min(self.oom_least, former or 0)


NOTHING_KNOWN: Final = Capability()
