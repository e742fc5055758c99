"""One group of the fast tick with its files open: opened when first read, closed when its cgroup is gone.

A key stands for exactly the cgroups that a figure was made of: one that leaves or joins makes another key, so that
nobody compares counters of different things. For one cgroup it is its folder's inode, for several a negative
number made of theirs.
"""

from collections.abc import Iterable
from typing import Final

from nri_coloc.model import cpuset
from nri_coloc.model.readings import Sample
from nri_coloc.sampling import counters, descriptors, sources
from nri_coloc.sampling.cgroup_layout import CgroupLayout
from nri_coloc.sampling.descriptors import Descriptors, OpenFile, Vanished
from nri_coloc.sampling.groups import Group
from nri_coloc.sampling.sources import Source

RETRY_S: Final = 0.5
"""How long a cgroup that is not there is left in peace."""

_GENERATION: Final = 1 << 64
"""A simulated node's file system may give a new folder the inode of an old one; cgroupfs never does."""

_Opened = list[tuple[OpenFile, sources.Parse]]


class CgroupGauge:
    """Reads the usage, pressure and throttling of one group.

    `cost`: how many files a read touches; `key`: that of its samples, 0 before the first.
    """

    def __init__(self, group: Group, layout: CgroupLayout, bank: Descriptors) -> None:
        self._group = group
        self._bank = bank
        self._wanted = (
            _known(sources.usage(layout, path) for path in group.add),
            _known(sources.usage(layout, path) for path in group.less),
            _known(sources.stalled(layout, path) for path in (group.stalled,) if path),
            _known(sources.throttled(layout, path) for path in group.throttled),
        )
        self._identity = sources.identity(layout, group.stalled) if group.stalled else None
        self._files = sum(map(len, self._wanted))
        self.cost = max(1, self._files)
        self.key = 0
        self._highest = 0
        self._ended: set[int] = set()
        self._parts: list[_Opened] = []
        self._open_at = float("-inf")

    def read(self, now: float) -> Sample | None:
        """Return a sample; None while no cgroup of the group exists.

        When one of them has vanished, a last sample without figures says that nothing more comes of this key.
        """
        if now >= self._open_at:
            self._open_all(now)
        if not self._parts:
            return None
        group = self._group
        add, less, stalled, throttled = self._parts
        try:
            usage = _sum(add)
            if usage is not None and less:
                usage = self._without(usage, _sum(less))
            waited = _sum(stalled)
            held = _sum(throttled) if group.throttled else 0 if group.stalled else None
        except Vanished:
            self._ended.add(self.key)
            self.close()
            return Sample(self.key, group.role, now, shares_box=group.shares_box, tier=group.tier)
        return Sample(self.key, group.role, now, usage, waited, held, group.shares_box, group.tier)

    def close(self) -> None:
        """Close its files; the next read opens them anew."""
        for part in self._parts:
            for file, _ in part:
                file.close()
        self._parts = []
        self._open_at = float("-inf")

    def _without(self, usage: int, less: int | None) -> int | None:
        """Return the difference, which never falls.

        Time passes between the two reads, and the root's counter on v2 is made of clock ticks: both let a difference
        fall for a moment, which whoever makes rates would take for a counter that began anew.
        """
        if less is None:
            return None
        self._highest = max(self._highest, usage - less)
        return self._highest

    def _open_all(self, now: float) -> None:
        """Open what is there; where a part is not (yet) there, all is tried again after a while."""
        self.close()
        self._parts = [self._open(wanted) for wanted in self._wanted]
        key = self._found()
        if key is None:
            self.close()
        else:
            while key in self._ended:
                key += _GENERATION
            self._highest = self._highest if key == self.key else 0
            self.key = key
        is_complete = key is not None and sum(map(len, self._parts)) == self._files
        self._open_at = float("inf") if is_complete else now + RETRY_S

    def _open(self, wanted: tuple[Source, ...]) -> _Opened:
        opened = ((self._bank.open(source.folder, source.name), source.parse) for source in wanted)
        return [(file, parse) for file, parse in opened if file is not None]

    def _found(self) -> int | None:
        """Return the key of what is open, None if there is nothing to measure."""
        if self._identity is not None:
            return descriptors.inode(self._identity)
        add, less = ([file.inode for file, _ in part] for part in self._parts[:2])
        if not add:
            return None
        together = (*add, *(-inode for inode in less))
        return add[0] if len(together) == 1 else -1 - hash(together) % _GENERATION


STAT_SIZE: Final = 1 << 19
"""Bytes of /proc/stat: room for 2048 CPUs and their interrupts. The kernel shows it in one piece (fs/proc/stat.c)."""


class ReservedGauge:
    """Reads what ran on the reserved CPUs, all of it: /proc/stat, whose cost grows with the CPUs."""

    def __init__(self, group: Group, host_root: str, bank: Descriptors) -> None:
        self._group = group
        self._file = bank.open(f"{host_root.rstrip('/')}/proc", "stat")
        self.cost = 1
        self.key = -1 - group.cpus

    def read(self, now: float) -> Sample | None:
        """Return a sample, whose key stands for this set of CPUs; None where /proc/stat is not readable."""
        busy = counters.busy_us(self._file.read(STAT_SIZE)) if self._file is not None else {}
        found = [busy[cpu] for cpu in cpuset.members(self._group.cpus) if cpu in busy]
        if not found:
            return None
        return Sample(self.key, self._group.role, now, sum(found))

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


def _known(found: Iterable[Source | None]) -> tuple[Source, ...]:
    return tuple(source for source in found if source is not None)


def _sum(part: _Opened) -> int | None:
    """Add up the counters of a part; None if there is none, or one of them cannot be read."""
    total = None
    for file, parse in part:
        value = parse(file.read())
        if value is None:
            return None
        total = value if total is None else total + value
    return total
