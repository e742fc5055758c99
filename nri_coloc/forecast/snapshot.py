"""The full picture: every pod and container, kubepods, host groups and the node, in slices.

At 110 pods with a container each it costs 22 ms of CPU time on cgroup v1 (`python -m benchmarks sampling`); whoever
iterates may wait, or let hooks go first, after each slice. Nothing is kept between pictures. Who is on the node comes
in with each picture, so that a picture is of those who were known when it began.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.readings import GroupReading, Picture
from nri_coloc.host.cgroup_layout import CgroupLayout
from nri_coloc.host.readings import CgroupReader, NodeReader

GROUPS_A_SLICE: Final = 4
"""About half a millisecond (`python -m benchmarks sampling`: sampling.slice.110)."""

Paths = Mapping[str, str]
"""An id or a name to the cgroup's path below the hierarchy's root."""

_Readings = dict[str, GroupReading]
_Read = Callable[[str, float], GroupReading | None]


@dataclass(frozen=True, slots=True)
class Subjects:
    """Who is to be seen. `kubepods`: "" if it is not known; `nodes`: the memory nodes. `amounts_only`: of everybody CPU
    time and memory is enough, as it always is of kubepods."""

    kubepods: str = ""
    pods: Paths = field(default_factory=dict)
    containers: Paths = field(default_factory=dict)
    host_groups: Paths = field(default_factory=dict)
    reserved: CPUMask = 0
    nodes: tuple[int, ...] = (0,)
    amounts_only: bool = False


class PictureTaker:
    """Takes pictures of the cgroups of one layout; `clock`: monotonic seconds."""

    def __init__(
        self, layout: CgroupLayout, host_root: str = "/", clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.layout = layout
        self._groups = CgroupReader(layout, host_root)
        self._node = NodeReader(layout, host_root)
        self._clock = clock

    def slices(self, subjects: Subjects, groups: int = GROUPS_A_SLICE) -> Iterator[Picture | None]:
        """Yield None after the node and after every few cgroups, and the picture in the end.

        `took_s` leaves out what the caller did between the slices. Never raises for what cgroups do; ValueError for
        a path that leads out of the hierarchy.
        """
        began = resumed = self._clock()
        took = 0.0
        node = self._node.read(began, subjects.reserved, subjects.nodes)
        found = _Found()
        for number, (into, name, path, read) in enumerate(self._wanted(subjects, found)):
            if number % groups == 0:
                took += self._clock() - resumed
                yield None
                resumed = self._clock()
            reading = read(path, self._clock())
            if reading is not None:
                into[name] = reading
        took += self._clock() - resumed
        kubepods = found.kubepods.get(subjects.kubepods)
        yield Picture(began, node, kubepods, found.pods, found.containers, found.host_groups, took)

    def take(self, subjects: Subjects) -> Picture:
        """Take a picture without waiting."""
        *_, picture = self.slices(subjects)
        assert picture is not None  # the last one always is
        return picture

    def _wanted(self, subjects: Subjects, found: "_Found") -> Iterator[tuple[_Readings, str, str, _Read]]:
        """Yield where a reading goes, under which name, of which path, and how it is made."""
        read = self._groups.amounts if subjects.amounts_only else self._groups.group
        if subjects.kubepods:
            yield found.kubepods, subjects.kubepods, subjects.kubepods, self._groups.amounts
        for name, path in subjects.host_groups.items():
            yield found.host_groups, name, path, read
        for name, path in subjects.pods.items():
            yield found.pods, name, path, read
        for name, path in subjects.containers.items():
            yield (
                found.containers,
                name,
                path,
                self._groups.amounts if subjects.amounts_only else self._groups.container,
            )


@dataclass(frozen=True, slots=True)
class _Found:
    kubepods: _Readings = field(default_factory=dict)
    pods: _Readings = field(default_factory=dict)
    containers: _Readings = field(default_factory=dict)
    host_groups: _Readings = field(default_factory=dict)
