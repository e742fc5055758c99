"""One turn: one arrangement of one kind of offline work, and one day of requests."""

import os
import subprocess
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.colocation import arrangements, kubelet
from benchmarks.colocation.arrangements import Arrangement
from benchmarks.colocation.offline import Hog
from benchmarks.colocation.server import FILES, PROCESSES, REQUEST_SHARES, Server
from tests.rig import RigError, cgroups
from tests.rig.containerd import Containerd
from tests.rig.cri import Cri

WARM_UP_S: Final = 2.0
SETTLES_S: Final = 1.0
LOOK_EVERY_S: Final = 0.25
PRIORITY: Final = "50"
TICKS_A_SECOND: Final = os.sysconf("SC_CLK_TCK")
GRACE_S: Final = 30
P99: Final = 0.99
P999: Final = 0.999


class Look(NamedTuple):
    """Hold the counters at one moment.

    at: seconds of the day.
    busy, whole, stolen: the node's CPU time in ticks.
    known_us: CPU time of all pods and of the load; other programs used the rest.
    online_us: CPU time of the server.
    done: offline work done.
    lent: number of CPUs lent.
    """

    at: float
    busy: int
    whole: int
    stolen: int
    known_us: int
    online_us: int
    done: int
    lent: int


@dataclass(frozen=True, slots=True)
class Day:
    """Hold the result of a turn.

    arrivals: each request's arrival in the day, ns.
    took: how long each request took, ns.
    looks: readings of the counters over time.
    """

    arrivals: Sequence[int]
    took: Sequence[int]
    looks: tuple[Look, ...]

    @property
    def node_use(self) -> float:
        """Return the part of the node's CPU time that was used, 0 to 1."""
        first, last = self.looks[0], self.looks[-1]
        return (last.busy - first.busy) / (last.whole - first.whole)

    @property
    def stolen(self) -> float:
        """Return the part of the time in which a hypervisor gave the CPUs to other machines, 0 to 1."""
        first, last = self.looks[0], self.looks[-1]
        return (last.stolen - first.stolen) / (last.whole + last.stolen - first.whole - first.stolen)

    @property
    def strangers(self) -> float:
        """Return the part of the node's CPU time that went to programs other than ours, 0 to 1."""
        first, last = self.looks[0], self.looks[-1]
        known = (last.known_us - first.known_us) * TICKS_A_SECOND / 1e6
        return max(0.0, last.busy - first.busy - known) / (last.whole - first.whole)

    @property
    def request_us(self) -> float:
        """Return the server's CPU time for a request, in µs, without the time that it waited for a CPU."""
        first, last = self.looks[0], self.looks[-1]
        arrived = sum(first.at <= arrival / 1e9 < last.at for arrival in self.arrivals)
        return (last.online_us - first.online_us) / max(1, arrived)

    @property
    def done_a_second(self) -> float:
        """Return the offline work done a second."""
        first, last = self.looks[0], self.looks[-1]
        return (last.done - first.done) / (last.at - first.at)


@dataclass(frozen=True, slots=True)
class Pace:
    """Hold the requests a second in the night and at noon, and the length of a day in seconds."""

    low: float
    high: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Stage:
    """Hold the parts that all turns have in common."""

    containerd: Containerd
    cri: Cri
    server: Server
    programs: Path
    folder: Path
    reclaim: str = ""

    def play(self, arrangement: Arrangement, kind: str, pace: Pace, seed: int) -> Day:
        """Return the result of one day."""
        burstable = arrangement.offline and arrangement.burstable
        kubelet.weigh(kubelet.BURSTABLE, REQUEST_SHARES * (2 if burstable else 1))
        with ExitStack() as stack:
            if arrangement.ours:
                stack.enter_context(arrangements.seated_daemon(self.containerd, self.reclaim))
            hog = None
            if arrangement.offline:
                hog = Hog(
                    self.cri,
                    kind,
                    self.programs / "hog",
                    self.folder,
                    burstable=burstable,
                    throttled=arrangement.throttled,
                )
                stack.callback(hog.remove)
            time.sleep(SETTLES_S)
            return self._day(hog, pace, seed)

    def _day(self, hog: Hog | None, pace: Pace, seed: int) -> Day:
        with load(self.programs, self.server.port, pace, seed) as running:
            looks = _looks(running, lambda: self._look(hog, running.pid), pace.seconds)
            try:
                answers, words = running.communicate(timeout=GRACE_S)
            except subprocess.TimeoutExpired as error:
                raise RigError("the load does not end") from error
        if running.returncode:
            raise RigError(f"the load failed: {words.decode(errors='replace')}")
        told = array("q", answers)
        return Day(told[0::2], told[1::2], tuple(looks))

    def _look(self, hog: Hog | None, load: int) -> Look:
        busy, whole, stolen = node_ticks()
        look = Look(
            at=0.0,
            busy=busy,
            whole=whole,
            stolen=stolen,
            known_us=kubelet.used_us(kubelet.KUBEPODS) + _used_us(load),
            online_us=kubelet.used_us(self.server.workload.cgroup),
            done=0,
            lent=0,
        )
        if hog is None:
            return look
        lent = cgroups.cpus(hog.pod.cgroup) or cgroups.online()
        return look._replace(done=hog.count(), lent=len(lent))


@contextmanager
def load(built: Path, port: int, pace: Pace, seed: int) -> Iterator["subprocess.Popen[bytes]"]:
    """Run the load at real-time priority: at a normal one it would measure its own waiting."""
    options = {
        "port": port, "files": FILES, "workers": PROCESSES, "connections": 16 * PROCESSES,
        "seconds": pace.seconds, "warm-up": WARM_UP_S, "low": pace.low, "high": pace.high, "seed": seed,
    }  # fmt: skip
    arguments = [f"-{name}={value}" for name, value in options.items()]
    running = subprocess.Popen(
        ["chrt", "--fifo", PRIORITY, str(built / "load"), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"GODEBUG": "asyncpreemptoff=1", "GOGC": "off"},
    )
    try:
        yield running
    finally:
        if running.poll() is None:
            running.kill()
        running.communicate()


def _looks(load: "subprocess.Popen[bytes]", look: Callable[[], Look], seconds: float) -> list[Look]:
    """Return the readings from the day's beginning to its end."""
    assert load.stderr is not None
    if load.stderr.readline() != b"ready\n":
        raise RigError(f"the load did not begin: {load.stderr.read().decode(errors='replace')}")
    begin = time.monotonic() + WARM_UP_S
    found: list[Look] = []
    for step in range(int(seconds / LOOK_EVERY_S)):  # the last reading before the load may end
        time.sleep(max(0.0, begin + step * LOOK_EVERY_S - time.monotonic()))
        found.append(look()._replace(at=time.monotonic() - begin))
    return found


def _used_us(pid: int) -> int:
    """Return the CPU time of a process in µs, by the scheduler's own nanoseconds; 0 for one that has ended."""
    try:
        tasks = [Path(task, "schedstat").read_text() for task in Path(f"/proc/{pid}/task").iterdir()]
    except OSError:
        return 0
    return sum(int(text.split()[0]) for text in tasks) // 1000


def percentile(took: Sequence[int], part: float) -> float:
    """Return a percentile of nanoseconds in milliseconds."""
    ordered = sorted(took)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))] / 1e6


def node_ticks() -> tuple[int, int, int]:
    """Return the node's busy and whole CPU time, and the time that a hypervisor took, in ticks.

    Waiting for a disk is idle time.
    """
    with Path("/proc/stat").open() as file:
        user, nice, system, idle, iowait, irq, softirq, stolen = map(int, file.readline().split()[1:9])
    busy = user + nice + system + irq + softirq
    return busy, busy + idle + iowait, stolen
