"""Simulate the CPU use of containers: load curves, and the kernel's counters of them.

A curve gives the number of CPUs that a container wants at a time. Each tick divides the CPUs among the containers that
want CPU, within the sets, quotas and weights in their files, and moves the counters. It is a fluid model without
scheduling, so it has no latency. PSI is the part of the wanted time that a container did not get. `delay` adds a stall
to a container that gets all it wants. Without PSI, the task's schedstat shows the same.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, RLock
from typing import Final

from nri_coloc.core import cpuset
from nri_coloc.core.cpuset import CPUMask
from nri_coloc.sim.cgroup_tree import CgroupTree, levels
from nri_coloc.sim.counter_files import CounterFiles
from nri_coloc.sim.memory_use import Held, MemoryUse

Load = Callable[[float], float]
"""Return the number of CPUs wanted at a time in seconds."""

ROUNDS: Final = 8
"""Rounds in which free CPU time is offered; the last rounds move thousandths of a CPU."""

EPSILON: Final = 1e-6
TICKS_PER_SECOND: Final = 100  # USER_HZ, in which /proc/stat counts


@dataclass(frozen=True, slots=True)
class Task:
    """The demand of one cgroup in a tick.

    path: the cgroup.
    wanted: CPUs.
    cpus: the CPUs that it may use.
    weight: relative to all other tasks.
    quota: CPUs.
    """

    path: str
    wanted: float
    cpus: CPUMask
    weight: float = 1.0
    quota: float = float("inf")


@dataclass(slots=True)
class Shares:
    """The use in a tick, in CPUs: by cgroup and by CPU."""

    by_path: dict[str, float] = field(default_factory=dict)
    by_cpu: dict[int, float] = field(default_factory=dict)


def share_out(tasks: Sequence[Task]) -> Shares:
    """Return the CPU time of each task on the CPUs that it may use; if there is not enough, divided by weight."""
    shares = Shares({task.path: 0.0 for task in tasks})
    open_for = {task.path: min(task.wanted, task.quota) for task in tasks}
    for _ in range(ROUNDS):
        bids = _bids(tasks, open_for, shares.by_cpu)
        for cpu, bidders in bids.items():
            granted = _by_weight(1.0 - shares.by_cpu.get(cpu, 0.0), bidders)
            for path, amount in granted.items():
                shares.by_path[path] += amount
                shares.by_cpu[cpu] = shares.by_cpu.get(cpu, 0.0) + amount
                open_for[path] -= amount
        if not bids:
            break
    return shares


def _bids(
    tasks: Iterable[Task], open_for: Mapping[str, float], used: Mapping[int, float]
) -> dict[int, list[tuple[Task, float]]]:
    """Return the bids for each CPU: each task's open demand, spread evenly over its CPUs with free time."""
    bids: dict[int, list[tuple[Task, float]]] = {}
    for task in tasks:
        if open_for[task.path] <= EPSILON:
            continue
        free = [cpu for cpu in cpuset.members(task.cpus) if used.get(cpu, 0.0) < 1.0 - EPSILON]
        for cpu in free:
            bids.setdefault(cpu, []).append((task, open_for[task.path] / len(free)))
    return bids


def _by_weight(capacity: float, bidders: list[tuple[Task, float]]) -> dict[str, float]:
    """Return the parts of one CPU by task. A task that wants less than its share gets all; the rest is divided."""
    total = sum(task.weight for task, _ in bidders)
    granted = {}
    for task, bid in sorted(bidders, key=lambda one: one[1] / one[0].weight):
        granted[task.path] = amount = min(bid, capacity * task.weight / total)
        capacity -= amount
        total -= task.weight
    return granted


@dataclass(slots=True)
class Counters:
    """Counters since the cgroup was created: seconds, and numbers of quota periods."""

    used: float = 0.0
    stalled: float = 0.0
    throttled: float = 0.0
    periods: float = 0.0
    throttled_periods: float = 0.0


class Workload:
    """Moves the counters of a tree's cgroups. `attach` and `detach` set CPU demand, `hold` sets memory.

    It is safe to use from several threads.

    Size: all counters of a node move together, under one lock.
    """

    def __init__(self, tree: CgroupTree, host_root: Path, cpus: CPUMask) -> None:
        self._tree = tree
        self._stat = host_root / "proc/stat"
        self._proc = host_root / "proc"
        self._pressure = host_root / "proc/pressure/cpu"
        self._cpus = list(cpuset.members(cpus))
        self._files = CounterFiles(tree)
        self._memory = MemoryUse(tree, self._files, host_root)
        self._lock = RLock()
        self._wanted = Event()
        self._loads: dict[str, Load] = {}
        self._delays: dict[str, float] = {}
        self._counters: dict[str, Counters] = {"": Counters()}
        self._busy = dict.fromkeys(self._cpus, 0.0)
        self._began: float | None = None
        self._last = 0.0

    # ---- demand ----

    def attach(self, path: str, load: Load) -> None:
        """Set the CPU demand of a cgroup."""
        with self._lock:
            self._loads[path] = load
        self._wanted.set()

    def detach(self, path: str) -> None:
        """Remove the CPU demand of a cgroup."""
        with self._lock:
            self._loads.pop(path, None)

    def delay(self, path: str, part: float) -> None:
        """Set the smallest part of the time, 0 to 1, that a cgroup stalls, even if it gets all the CPU it wants."""
        with self._lock:
            self._delays[path] = part

    def set_back(self, path: str) -> None:
        """Set the CPU use of a cgroup to 0, as a write of 0 to cpuacct.usage does on v1."""
        with self._lock:
            self._counters[path].used = 0.0

    def end(self, path: str) -> None:
        """Remove the CPU demand, the delay and the memory of a cgroup."""
        with self._lock:
            self.detach(path)
            self._delays.pop(path, None)
            self._memory.hold(path, Held())

    def hold(self, path: str, held: Held) -> None:
        """Set the memory that a cgroup holds."""
        with self._lock:
            self._memory.hold(path, held)

    # ---- time ----

    @property
    def is_idle(self) -> bool:
        """Return whether no cgroup wants CPU."""
        return not self._loads

    def wait(self) -> None:
        """Wait until a cgroup may want CPU, or until `wake`."""
        self._wanted.clear()
        if self.is_idle:
            self._wanted.wait()

    def wake(self) -> None:
        """End a `wait`."""
        self._wanted.set()

    def rest(self, now: float) -> None:
        """Count the time since the last tick as idle."""
        with self._lock:
            self._began = now if self._began is None else self._began
            self._last = now

    def close(self) -> None:
        """Close the open counter files."""
        with self._lock:
            self._files.close()

    def tick(self, now: float) -> Shares:
        """Move the counters by the time since the last tick and return the use; the first tick only sets the clock."""
        with self._lock:
            if self._began is None:
                self._began = self._last = now
                return Shares()
            elapsed, self._last = now - self._last, now
            live = {path: load(now) for path, load in self._loads.items() if self._tree.exists(path)}
            worth = _Worth(self._tree, live)
            tasks = [self._task(path, wanted, worth) for path, wanted in live.items()]
            shares = share_out(tasks)
            self._count(tasks, shares, elapsed)
            self._write()
            return shares

    # ---- limits in the files ----

    def _task(self, path: str, wanted: float, worth: "_Worth") -> Task:
        return Task(path, wanted, self._tree.effective(path), worth.of(path), self._quota(path))

    def _quota(self, path: str) -> float:
        if self._tree.version == 1:
            quota = int(self._tree.read(path, "cpu.cfs_quota_us") or -1)
            return (
                quota / int(self._tree.read(path, "cpu.cfs_period_us") or 100_000)
                if quota > 0
                else float("inf")
            )
        text, _, period = (self._tree.read(path, "cpu.max") or "max 100000").partition(" ")
        return float("inf") if text == "max" else int(text) / int(period)

    # ---- counting ----

    def _count(self, tasks: Iterable[Task], shares: Shares, elapsed: float) -> None:
        waited: dict[str, float] = {}
        for task in tasks:
            used = shares.by_path[task.path]
            lacks = max(0.0, task.wanted - used) / task.wanted if task.wanted > EPSILON else 0.0
            part = max(lacks, self._delays.get(task.path, 0.0))
            for path in ("", *levels(task.path)):
                self._counters.setdefault(path, Counters()).used += used * elapsed
                # PSI's "some" counts the time in which at least one task waits: the longest stall decides
                waited[path] = max(waited.get(path, 0.0), part)
            self._throttle(task, elapsed)
        for path, part in waited.items():
            self._counters[path].stalled += part * elapsed
        for cpu, part in shares.by_cpu.items():
            self._busy[cpu] = self._busy.get(cpu, 0.0) + part * elapsed

    def _throttle(self, task: Task, elapsed: float) -> None:
        own = self._counters[task.path]
        if task.quota < float("inf"):
            own.periods += elapsed * 10
            if task.wanted > task.quota:
                own.throttled_periods += elapsed * 10
                own.throttled += (task.wanted - task.quota) * elapsed

    def _write(self) -> None:
        for path in [path for path in self._counters if path and not self._tree.exists(path)]:
            del self._counters[path]
            self._files.forget(path)
        for path, counters in self._counters.items():
            for name, text in self._texts(counters):
                self._files.put(path, name, text)
        if not self._pressure.exists():
            self._write_tasks()
        self._write_machine()

    def _write_tasks(self) -> None:
        """Write run and wait times of each cgroup's task to its schedstat. Only needed without PSI."""
        for path, counters in self._counters.items():
            task = self._tree.task(path)
            if task is not None:
                with suppress(FileNotFoundError):  # it has just ended
                    text = f"{_us(counters.used) * 1000} {_us(counters.stalled) * 1000} 1\n"
                    _show(self._proc / f"{task}/schedstat", text)

    def _texts(self, counters: Counters) -> list[tuple[str, str]]:
        usage = f"usage_usec {_us(counters.used)}\nuser_usec {_us(counters.used)}\nsystem_usec 0"
        both = [("cpu.pressure", _pressure_text(counters))]
        periods = f"nr_periods {int(counters.periods)}\nnr_throttled {int(counters.throttled_periods)}"
        if self._tree.version == 2:
            bursts = f"throttled_usec {_us(counters.throttled)}\nnr_bursts 0\nburst_usec 0"
            return [*both, ("cpu.stat", f"{usage}\n{periods}\n{bursts}")]
        bursts = f"throttled_time {_us(counters.throttled) * 1000}\nnr_bursts 0\nburst_time 0"
        return [
            *both,
            ("cpuacct.usage", str(int(counters.used * 1e9))),
            ("cpu.stat", f"{periods}\n{bursts}"),
        ]

    def _write_machine(self) -> None:
        assert self._began is not None  # the first tick sets it
        lived = self._last - self._began
        rows = [("cpu ", sum(self._busy.values()), lived * len(self._busy))]
        rows += [(f"cpu{cpu}", busy, lived) for cpu, busy in sorted(self._busy.items())]
        _show(self._stat, "".join(_stat_line(*row) for row in rows))
        if self._pressure.exists():
            _show(self._pressure, f"{_pressure_text(self._counters[''])}\n")


class _Worth:
    """The CPU weights of cgroups in one tick: at each level the weight among the siblings that want CPU."""

    def __init__(self, tree: CgroupTree, live: Iterable[str]) -> None:
        self._name = "cpu.shares" if tree.version == 1 else "cpu.weight"
        self._weights: dict[str, int] = {}
        self._sums: dict[str, int] = {}
        for level in {level for path in live for level in levels(path)}:
            weight = self._weights[level] = int(tree.read(level, self._name) or 1)
            parent = level.rpartition("/")[0]
            self._sums[parent] = self._sums.get(parent, 0) + weight

    def of(self, path: str) -> float:
        """Return a cgroup's part of the CPU time, 0 to 1, if all cgroups wanted everything."""
        worth = 1.0
        for level in levels(path):
            worth *= self._weights[level] / self._sums[level.rpartition("/")[0]]
        return worth


def _pressure_text(counters: Counters) -> str:
    total = f"avg10=0.00 avg60=0.00 avg300=0.00 total={_us(counters.stalled)}"
    return f"some {total}\nfull {total}"


def _show(file: Path, text: str) -> None:
    """Write a text into a file of /proc in one step, in place, because readers hold the file open."""
    content = text.encode()
    with file.open("r+b" if file.exists() else "wb", buffering=0) as stream:
        stream.write(content.ljust(file.stat().st_size, b"\n"))


def _stat_line(name: str, busy: float, lived: float) -> str:
    ticks = int(busy * TICKS_PER_SECOND)
    idle = max(0, int((lived - busy) * TICKS_PER_SECOND))
    return f"{name} {ticks} 0 0 {idle} 0 0 0 0 0 0\n"


def _us(seconds: float) -> int:
    return int(seconds * 1_000_000)
