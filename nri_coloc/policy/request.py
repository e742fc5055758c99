"""How many CPUs a container asked for, from what the runtime tells.

NRI carries no requests, only what the kubelet made of them: shares = millicores · 1024 / 1000, rounded down
(pkg/kubelet/cm/helpers_linux.go, MilliCPUToShares), at least 2 and at most 262144.
"""

from dataclasses import dataclass
from typing import Final

from nri_coloc.model.knobs import MAX_SHARES, MIN_SHARES
from nri_coloc.model.workload import DEFAULT_WISH, Container, Resources, Wish
from nri_coloc.policy import record

SHARES_PER_CPU: Final = 1024
DEFAULT_PERIOD_US: Final = 100_000


@dataclass(frozen=True, slots=True)
class Request:
    """`milli`: thousandths of a CPU asked for, 0 if nothing tells; `source` says from what it was read."""

    milli: int
    source: str

    @property
    def whole(self) -> int:
        """CPUs to own: rounded up, at least one."""
        return max(1, -(-self.milli // 1000))

    @property
    def words(self) -> str:
        """The request and its rounding, for the audit."""
        if not self.milli:
            return f"asked for no amount of CPU, so 1 ({self.source})"
        asked = f"asked {self.milli / 1000:g} CPUs"
        return asked if self.milli == self.whole * 1000 else f"{asked}, rounded up to {self.whole}"


def of(resources: Resources) -> Request:
    """Read shares, else quota and period, else nothing; an upper-clamped shares value defers to the quota."""
    shares = resources.shares or 0
    quota = _quota_milli(resources)
    if MIN_SHARES < shares < MAX_SHARES or (shares >= MAX_SHARES and not quota):
        # rounded up to a thousandth: the kubelet rounded down, and 1999.02 must not pass for 1999
        return Request(-(-shares * 1000 // SHARES_PER_CPU), f"cpu shares {shares}")
    if quota:
        return Request(quota, f"quota {resources.quota} of {resources.period or DEFAULT_PERIOD_US} µs")
    return Request(0, "no shares, no quota")


def _quota_milli(resources: Resources) -> int:
    quota, period = resources.quota or 0, resources.period or DEFAULT_PERIOD_US
    return -(-quota * 1000 // period) if quota > 0 else 0


def of_container(container: Container, wish: Wish = DEFAULT_WISH) -> Request:
    """Return what the wish tells, else what the kubelet asked for, also where the spec holds our values by now."""
    if wish.cpu_milli:
        return Request(wish.cpu_milli, "told by an annotation")
    return of(record.before_us(container).resources)
