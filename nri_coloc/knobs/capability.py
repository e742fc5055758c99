"""What this kernel and this runtime can take: probed by the shell, consulted by the translators."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Capability:
    """`cgroup`: 1 or 2. `files`: control files that a pod's cgroup has here; a file not in it is not written.

    `oom_at_create`: the runtime applies an adjustment's oom_score_adj (NRI ≥ 0.7). `resctrl`: mounted.
    """

    cgroup: int = 1
    files: frozenset[str] = frozenset()
    oom_at_create: bool = True
    resctrl: bool = False

    def unified(self, name: str) -> bool:
        """Whether a value may travel in `unified`: on v2 only (v1 fails the creation), for a file that exists."""
        return self.cgroup == 2 and name in self.files


NOTHING_KNOWN: Final = Capability()
