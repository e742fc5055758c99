"""A cgroup tree for the fast sampler, whose counters and clock the tests set."""

from pathlib import Path

from nri_coloc.core.readings import Look, Role, Sample
from nri_coloc.host import cgroup_layout
from nri_coloc.lending.groups import Group
from nri_coloc.lending.sampler import FastSampler
from nri_coloc.sim.cgroup_tree import CgroupTree

PODS = Group(Role.PODS, ("kubepods",))
REST = Group(Role.SYSTEM, ("",), ("kubepods",))
ONE, TWO, OTHER = "kubepods/besteffort/one", "kubepods/besteffort/two", "kubepods/besteffort/other"


class Bed:
    """A planted cgroup tree with a sampler, and a clock that `tick` and `look` move.

    Each reading of the clock moves it too: by `creeps`, and by the next of `jumps`.
    """

    def __init__(self, folder: Path, version: int) -> None:
        self.tree = CgroupTree(folder, version, 0b1111, 1)
        self.tree.plant()
        self.folder = folder
        self.now = 100.0
        self.creeps = 0.0
        self.jumps: list[float] = []
        self.sampler = FastSampler(cgroup_layout.detect(str(folder)), str(folder), self._clock)

    def may_open(self, files: int) -> None:
        """Start a new sampler that may open at most `files` files."""
        self.sampler.close()
        self.sampler = FastSampler(
            cgroup_layout.detect(str(self.folder)), str(self.folder), self._clock, files
        )

    def _clock(self) -> float:
        self.now += self.creeps + (self.jumps.pop(0) if self.jumps else 0.0)
        return self.now

    def make(self, *paths: str) -> None:
        for path in paths:
            self.tree.make(path)

    def use(self, path: str, us: int) -> None:
        if self.tree.version == 1:
            self.tree.write(path, "cpuacct.usage", str(us * 1000))
        else:
            self.tree.write(path, "cpu.stat", f"usage_usec {us}\nuser_usec 0\nsystem_usec 0")

    def stall(self, path: str, us: int) -> None:
        self.tree.write(path, "cpu.pressure", f"some avg10=0.00 avg60=0.00 avg300=0.00 total={us}")

    def throttle(self, path: str, us: int) -> None:
        text = (
            f"nr_periods 1\nnr_throttled 1\nthrottled_time {us * 1000}"
            if self.tree.version == 1
            else f"usage_usec 0\nnr_periods 1\nnr_throttled 1\nthrottled_usec {us}"
        )
        self.tree.write(path, "cpu.stat", text)

    def tick(self, budget: int = 8, seconds: float = 0.02) -> tuple[Sample, ...]:
        self.now += seconds
        return self.sampler.read(self.now, budget)

    def look(self, seconds: float = 0.02) -> Look | None:
        self.now += seconds
        return self.sampler.look(self.now)

    def one(self) -> Sample:
        (sample,) = self.tick()
        return sample


def box(*paths: str) -> tuple[Group, ...]:
    return tuple(Group(Role.BOX, (path,)) for path in paths)


def online(*paths: str) -> tuple[Group, ...]:
    return tuple(Group(Role.ONLINE, stalled=path) for path in paths)


def tier(*paths: str) -> tuple[Group, ...]:
    return tuple(Group(Role.TIER, (path,), tier="gold") for path in paths)
