"""Decide whether shortages close the node for new reclaimed pods: one rule for the companion and `/v1/capacity`."""

from typing import NamedTuple, Protocol

from nri_coloc.core.lending import Binding
from nri_coloc.pressure.eviction import Pace


class Closing(NamedTuple):
    """The reason why the node takes no new reclaimed pods, as a code and as a sentence."""

    reason: Binding
    because: str


class Evictor(Protocol):
    """The course of evictions."""

    @property
    def pace(self) -> Pace: ...


class Disks(Protocol):
    """The file system that is short, as a sentence; "" for none."""

    @property
    def shortage(self) -> str: ...


class NewPods:
    """Reads immutable values; for every thread."""

    def __init__(self, evictor: Evictor, disks: Disks) -> None:
        self._evictor = evictor
        self._disks = disks

    def closing(self, now_s: float) -> Closing | None:
        """Return why the node is closed now; None while no shortage closes it. `now_s`: monotonic seconds."""
        if self._evictor.pace.is_cooling(now_s):
            return Closing(Binding.COOL_DOWN, "the cool-down after an eviction is not over")
        shortage = self._disks.shortage
        return Closing(Binding.DISK, shortage) if shortage else None
