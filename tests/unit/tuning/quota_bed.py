"""A node with one online container whose quota may be raised, on fake files."""

import sys
from collections.abc import Callable
from typing import Any, cast

from nri_coloc.core.decisions import ContainerUpdating
from nri_coloc.core.lending import Binding, Headroom
from nri_coloc.core.readings import GroupReading
from nri_coloc.core.settings import BurstTuning, ReclaimTuning, Tuning
from nri_coloc.core.workload import Resources
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host.bandwidth_files import PodBandwidth, Write, Written
from nri_coloc.host.knob_files import Correction
from nri_coloc.tuning.bandwidths import PodBandwidths
from nri_coloc.tuning.quota_burst_loop import EVERY_S, QuotaBurstLoop
from tests.unit.parts import a_node, a_report, create
from tests.unit.placing import kit

ON = Tuning(reclaim=ReclaimTuning(burst=BurstTuning(quota_percent=300)))
QUOTA = 100_000
APP = "kubepods/podweb/app"
BUSY = KernelInterfaceError("/cpu.max", "write '1' to", "Device or resource busy")


class Files:
    """Fake writer and reader: the bandwidth that was applied by pod, and the counters.

    `meanwhile` is called in the middle of a write.
    """

    def __init__(self) -> None:
        self.applied: list[PodBandwidth] = []
        self.writes = 1
        self.failures: tuple[KernelInterfaceError, ...] = ()
        self.usage_us = 0
        self.held = 0
        self.gone = False
        self.key = 1
        self.meanwhile: Callable[[], None] = lambda: None
        self.left: set[str] = set()
        self.quotas: dict[str, int] = {}
        self.refuses_quotas = False
        self.highest = sys.maxsize  # of a container, until its pod's quota has been shown

    def held_back(self) -> dict[str, int]:
        return {path: self.quotas.get(path, QUOTA) for path in self.left}

    def bandwidth(self, pod: PodBandwidth, now: float) -> Written:
        self.meanwhile()
        self.applied.append(pod)
        done = (
            Write("", Correction("cpu.max.burst", "0", "50000")),
            Write("kubepods/podweb/app", Correction("cpu.max", "max 100000", "200000 100000")),
            Write("kubepods/podweb/app", Correction("cpu.max.burst", "0", "50000")),
        )
        return Written((*done[: self.writes], *self._quotas_of(pod)), self.failures, self._is_waiting(pod))

    def _is_waiting(self, pod: PodBandwidth) -> bool:
        return any((share.quota or 0) > self.highest for share in pod.containers.values())

    def _quotas_of(self, pod: PodBandwidth) -> list[Write]:
        """Store the quotas as cgroup v2 does; return the writes that this took."""
        wanted = {"": QUOTA + pod.extra} | {
            k: min(one.quota, self.highest) for k, one in pod.containers.items() if one.quota
        }
        done = []
        for target, quota in wanted.items():
            before = self.quotas.get(target, QUOTA)
            if quota != before and not self.refuses_quotas:
                self.quotas[target] = quota
                done.append(Write(target, Correction("cpu.max", f"{before} 100000", f"{quota} 100000")))
        return done

    def cpu(self, path: str, at: float) -> GroupReading | None:
        if self.gone:
            return None
        return GroupReading(self.key, at, usage_us=self.usage_us, throttled_periods=self.held)


class Rig:
    def __init__(self, tuning: Tuning = ON, wish=kit.SHARED) -> None:
        self.node = a_node(tuning)
        self.report, self.heard = a_report(self.node)
        self.files = Files()
        self.bandwidths = PodBandwidths(self.node, cast("Any", self.files), self.report)
        self.headroom = Headroom(2000, 0, 1000, Binding.ONLINE_USE, 4000)
        self.bursts = QuotaBurstLoop(
            self.node, self.bandwidths, self.files, lambda: self.headroom, self.report
        )
        self.now = 0.0
        create(self.node, "app", wish, 1000)
        self.limit("app")

    def limit(self, name: str, quota: int = QUOTA) -> None:
        """Let the kubelet set the container's quota, µs."""
        known = self.node.state.containers[name]
        asked = Resources(quota=quota, period=100_000)
        self.node.decide(ContainerUpdating(kit.pod(), known.container, known.wish, asked))

    def pass_by(self, used_milli: int = 1000, held: float = 0.5) -> None:
        """Let one turn pass in which the container was throttled."""
        self.now += EVERY_S
        self.files.usage_us += int(used_milli * EVERY_S * 1000)
        self.files.held += int(held * EVERY_S * 10)
        self.bursts.look(self.now)

    def raised(self) -> int:
        self.pass_by()
        self.pass_by()
        return self.bandwidths.changed["app"].quota or 0

    def resize(self, quota: int) -> None:
        """Let the kubelet set another quota, µs; its hook writes it."""
        self.limit("app", quota)
        self.bandwidths.resized("web")

    def last_written(self) -> list[int | None]:
        return [share.quota for share in self.files.applied[-1].containers.values()]


def switched_off(rig: Rig) -> None:
    rig.node.tuning = Tuning()
    rig.bursts.look(rig.now + 0.1)
