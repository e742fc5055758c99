"""Take a snapshot: every pod and container, kubepods, host groups and the node, in slices.

At 110 pods with a container each it costs 22 ms of CPU time on cgroup v1 (`python -m benchmarks sampling`). The
caller may wait, or let hooks go first, after each slice. Nothing is kept between snapshots. The list of cgroups comes
with each snapshot, so that a snapshot shows the pods that were known when it began.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.readings import GroupReading, Picture, together
from nri_coloc.host.cgroup_layout import CgroupLayout
from nri_coloc.host.readings import CgroupReader, NodeReader

GROUPS_A_SLICE: Final = 4
"""Cgroups in a slice: about half a millisecond (`python -m benchmarks sampling`: sampling.slice.110)."""

Paths = Mapping[str, str]
"""Path of the cgroup below the hierarchy's root, by id or name."""

_Readings = dict[str, GroupReading]
_Read = Callable[[str, float], GroupReading | None]


@dataclass(frozen=True, slots=True)
class Subjects:
    """The cgroups to read.

    kubepods: the cgroup of all pods; one for each kubelet whose pods are known, none while it is unknown.
    pods, containers, host_groups: by id or name.
    reserved: CPUs that are neither lent nor owned.
    nodes: memory nodes.
    amounts_only: read only CPU time and memory, as is always done for kubepods.
    """

    kubepods: tuple[str, ...] = ()
    pods: Paths = field(default_factory=dict)
    containers: Paths = field(default_factory=dict)
    host_groups: Paths = field(default_factory=dict)
    reserved: CPUMask = 0
    nodes: tuple[int, ...] = (0,)
    amounts_only: bool = False


class PictureTaker:
    """Takes snapshots of the cgroups of one layout. `clock`: monotonic seconds."""

    def __init__(
        self, layout: CgroupLayout, host_root: str = "/", clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.layout = layout
        self._groups = CgroupReader(layout, host_root)
        self._node = NodeReader(layout, host_root)
        self._clock = clock

    def slices(self, subjects: Subjects, groups: int = GROUPS_A_SLICE) -> Iterator[Picture | None]:
        """Yield None after the node and after every few cgroups, and the snapshot in the end.

        `took_s` leaves out the caller's time between the slices. Never raises for the state of a cgroup; ValueError
        for a path that leads out of the hierarchy.
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
        yield Picture(
            at=began,
            node=node,
            kubepods=together(tuple(found.kubepods.values())),
            pods=found.pods,
            containers=found.containers,
            host_groups=found.host_groups,
            took_s=took,
        )

    def take(self, subjects: Subjects) -> Picture:
        """Return a snapshot without waiting."""
        *_, picture = self.slices(subjects)
        assert picture is not None  # the last slice is always a snapshot
        return picture

    def _wanted(self, subjects: Subjects, found: "_Found") -> Iterator[tuple[_Readings, str, str, _Read]]:
        """Yield the place of each reading, its name, its cgroup's path, and the function that reads it."""
        read = self._groups.amounts if subjects.amounts_only else self._groups.group
        for path in subjects.kubepods:
            yield found.kubepods, path, path, self._groups.amounts
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
