"""A node of pods whose readings move a second at a time: `Bench` turns loads and stalls into counters."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from nri_coloc.core.readings import IOReading, StallReading
from nri_coloc.core.settings import PressureTuning
from nri_coloc.core.workload import Tolerance
from nri_coloc.pressure.judging import Judged, Seen, Verdict, Watch, turn
from nri_coloc.pressure.verdict import Resource

DISK = "8:0"
MIB = 1 << 20


@dataclass
class Doing:
    """The load of one pod in one second: shares of the time, milli-CPU, bytes and operations a second."""

    cpu: float = 0.0
    cpu_stall: float = 0.0
    throttled: float = 0.0
    memory_stall: float = 0.0
    io_stall: float = 0.0
    read: float = 0.0
    operations: float = 0.0
    grows: float = 0.0
    limit: int = 0
    hits: int = 0
    disk: str = DISK


@dataclass
class Pod:
    """The counters of one pod."""

    at: float = 0.0
    usage: float = 0.0
    stalls: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0, 0.0])
    memory: float = 100.0 * MIB
    hits: int = 0
    devices: dict[str, IOReading] = field(default_factory=dict)

    def after(self, doing: Doing, at: float) -> StallReading:
        """Move the counters to this moment."""
        span, self.at = at - self.at, at
        self.usage += doing.cpu * span * 1000
        shares = doing.cpu_stall, doing.throttled, doing.memory_stall, doing.io_stall
        self.stalls = [us + share * span * 1e6 for us, share in zip(self.stalls, shares, strict=True)]
        self.memory += doing.grows * span
        self.hits += doing.hits
        was = self.devices.get(doing.disk, IOReading())
        self.devices[doing.disk] = IOReading(
            was.read_bytes + int(doing.read * span), 0, was.reads + int(doing.operations * span), 0
        )
        cpu, held, memory, io = (int(us) for us in self.stalls)
        return StallReading(
            key=1,
            at=at,
            usage_us=int(self.usage),
            cpu_us=cpu,
            throttled_us=held,
            memory_us=memory,
            io_us=io,
            memory_bytes=int(self.memory),
            limit_bytes=doing.limit,
            limit_hits=self.hits,
            devices=dict(self.devices),
        )


class Bench:
    """Turns of a node: `second` gives what each pod does."""

    def __init__(self, tuning: PressureTuning | None = None) -> None:
        self.tuning = tuning or PressureTuning()
        self.watch: Watch = {}
        self.at = 0.0
        self.turns = 0
        self.tolerance = Tolerance.NORMAL
        self.stolen: float | None = 0.0
        self.protected: Mapping[Resource, Collection[str]] = {}
        self._pods: dict[str, Pod] = {}

    def second(
        self, online: dict[str, Doing], reclaimed: dict[str, Doing], *, lasts_s: float = 1.0
    ) -> Judged:
        """Let one second pass, or a shorter time; return the turn's result."""
        self.at += lasts_s
        self.turns += 1
        seen = Seen(
            turn=self.turns,
            online={k: self._reading(k, doing) for k, doing in online.items()},
            reclaimed={k: self._reading(k, doing) for k, doing in reclaimed.items()},
            tolerances=dict.fromkeys(online, self.tolerance),
            stolen=self.stolen,
            protected=self.protected,
        )
        judged = turn(self.watch, seen, self.tuning)
        self.watch = judged.watch
        return judged

    def seconds(self, count: int, online: dict[str, Doing], reclaimed: dict[str, Doing]) -> list[Verdict]:
        """Let several seconds pass; return all verdicts."""
        return [one for _ in range(count) for one in self.second(online, reclaimed).verdicts]

    def failed_turn(self, online: str, reclaimed: str) -> Judged:
        """Return the result of a turn that could not read these pods."""
        self.turns += 1
        seen = Seen(
            turn=self.turns,
            online={online: None},
            reclaimed={reclaimed: None},
            tolerances={online: self.tolerance},
            stolen=0.0,
        )
        judged = turn(self.watch, seen, self.tuning)
        self.watch = judged.watch
        return judged

    def _reading(self, pod_id: str, doing: Doing) -> StallReading:
        return self._pods.setdefault(pod_id, Pod(self.at - 1)).after(doing, self.at)
