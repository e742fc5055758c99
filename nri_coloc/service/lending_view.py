"""Return how the clock, the switch and the shortages of the node limit lending, for `/v1/state` and the metrics."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nri_coloc.pressure.degrader import Degrader
from nri_coloc.pressure.disks import Disks
from nri_coloc.pressure.evictor import Evictor
from nri_coloc.pressure.loop import Pressure
from nri_coloc.pressure.reclaimer import Reclaimer
from nri_coloc.service import lending_clock
from nri_coloc.service.lending_clock import LendingClock
from nri_coloc.service.metrics import Metrics


class PressureView:
    """The actions against shortages that are in force; for every thread."""

    def __init__(
        self,
        *,
        disks: Disks,
        pressure: Pressure,
        degrader: Degrader,
        reclaimer: Reclaimer,
        evictor: Evictor,
    ) -> None:
        self._disks = disks
        self._pressure = pressure
        self._degrader = degrader
        self._reclaimer = reclaimer
        self._evictor = evictor

    @property
    def throttled(self) -> Mapping[str, Mapping[str, str]]:
        """Return the limits of throttled pods in words, by pod id and knob."""
        return self._pressure.throttled

    @property
    def degraded(self) -> Mapping[str, Mapping[str, str]]:
        """Return the limits of degraded containers in words, by container id and knob."""
        return self._degrader.degraded

    def body(self) -> dict[str, Any]:
        """Return the part of `lending` in `/v1/state` that shortages decide."""
        return {
            "cooling_s": round(self._cooling_s()),
            "memory_taken_back": self._reclaimer.shown,
            "disk_short": self._disks.shortage,
        }

    def measure(self, metrics: Metrics) -> None:
        """Set the metrics of the shortages."""
        metrics.throttled(len(self._pressure.throttled))
        metrics.degraded(len(self.degraded))
        metrics.cooling(self._cooling_s())
        metrics.disks_left(self._disks.left, is_short=bool(self._disks.shortage))

    def _cooling_s(self) -> float:
        """Return the rest of the cool-down after an eviction, seconds; 0 for none."""
        now_s = time.monotonic()
        return max(0.0, self._evictor.pace.ends_s(now_s) - now_s)


class LendingView:
    """Lending as an operator sees it; for every thread.

    pressure: the actions against shortages.
    remarks: returns sentences about settings that an operator probably did not mean.
    """

    def __init__(
        self, clock: LendingClock, pressure: PressureView, remarks: Callable[[], Sequence[str]]
    ) -> None:
        self.pressure = pressure
        self.remarks = remarks
        self._clock = clock

    def body(self) -> dict[str, Any]:
        """Return the value of `lending` in `/v1/state`."""
        return {**lending_clock.shown(self._clock.lending, self._clock.switch), **self.pressure.body()}
