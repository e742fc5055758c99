"""Counters of groups of cgroups, read from open files: opened at the first read, closed when the cgroup is gone.

A key stands for exactly the cgroups that a sum was made of: a cgroup that leaves or joins makes another key, so that
counters of different groups are never compared. For one cgroup the key is its folder's inode, for several a negative
number made of their inodes. A file that exists and cannot be opened is part of the key, and makes the sum unknown:
a sum without it would be too small, and a remainder too large. `Round` reads many gauges as one list of files.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, chain
from operator import mul
from typing import Final, NamedTuple

from nri_coloc.core import cpuset, readings
from nri_coloc.core.readings import Look, Remainder, Role, Sample, Signal
from nri_coloc.host import counters, descriptors, sources
from nri_coloc.host.cgroup_layout import CgroupLayout
from nri_coloc.host.descriptors import Descriptors, OpenFile, Refused, Vanished
from nri_coloc.host.sources import Source
from nri_coloc.lending.groups import Group
from nri_coloc.lending.run_delay import RunDelay

RETRY_S: Final = 0.5
"""How long a cgroup that is not there is left in peace."""

_GENERATION: Final = 1 << 64
"""A simulated node's file system may give a new folder the inode of an old one; cgroupfs never does."""

_Opened = list[tuple[OpenFile, Source]]


class _Part(NamedTuple):
    """One of the parts that a figure is made of: its open files, and the inodes of the folders of those refused."""

    opened: _Opened
    refused: list[int]

    @property
    def inodes(self) -> list[int]:
        """Those of all folders that are there, the open ones first."""
        return [file.inode for file, _ in self.opened] + self.refused


class CgroupGauge:
    """Reads the usage, pressure and throttling of one group.

    `key`: that of its samples, 0 before the first. `lacks_pressure`: whether the last one had none to tell; `delay`
    stands in then.
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
        self.key = 0
        self.lacks_pressure = False
        self.delay: RunDelay | None = None
        self._left: Remainder | None = None
        self._ended = {self.key}
        self._said: Sequence[int | None] = ()
        self._opened: _Opened | None = None
        self._ends = (0, 0, 0)
        self._refused = (False, False, False)
        self._open_at = float("-inf")

    def read(self, now: float) -> Sample | None:
        """Return a sample; None while no cgroup of the group exists.

        When one of them has vanished, a last sample without figures says that nothing more comes of this key; but who
        is taken off and is gone uses nothing more, and the figure goes on.
        """
        if now >= self._open_at:
            self._open_all(now)
        if self._opened is None:
            return self._last(now) if self.key not in self._ended else None
        try:
            figures = [self._figure(place) for place in range(len(self._opened))]
        except Vanished:
            self.close()
            return self._last(now)
        return self.sample(now, figures)

    def _last(self, now: float) -> Sample:
        self._ended.add(self.key)
        group = self._group
        return Sample(self.key, group.role, now, shares_box=group.shares_box, tier=group.tier, gone=True)

    def sample(self, now: float, figures: Sequence[int | None]) -> Sample:
        """Make a sample of what its files, in their order, say."""
        group, self._said = self._group, figures
        add, less, stalled = self._ends
        no_usage, no_pressure, no_throttling = self._refused
        if no_usage:
            usage = None
        elif less > add:
            self._left, usage = readings.read(self._left, figures[:add], figures[add:less])
        else:
            usage = 0 if group.is_nobody else _sum(figures[:add])
        held = _sum(figures[stalled:]) if group.throttled else 0 if group.stalled else None
        held = None if no_throttling else held
        waited, signal = None if no_pressure else _sum(figures[less:stalled]), Signal.PSI
        self.lacks_pressure = waited is None and bool(group.stalled)
        if self.lacks_pressure and self.delay is not None:
            waited, signal = self.delay.read(), Signal.RUN_DELAY
        return Sample(self.key, group.role, now, usage, waited, held, group.shares_box, group.tier, signal)

    @property
    def role(self) -> Role:
        """Whose use it measures."""
        return self._group.role

    @property
    def stalled(self) -> str:
        """The cgroup whose pressure it measures, "" for none."""
        return self._group.stalled

    @property
    def cost(self) -> int:
        """How many files a read touches, at least 1."""
        return max(1, self._files + (self.delay.cost if self.delay is not None else 0))

    @property
    def waits_at(self) -> int:
        """Where among its open files the pressure's is, if it has one."""
        return self._ends[1]

    @property
    def is_mute(self) -> bool:
        """Whether nothing tells how long its tasks wait."""
        return self.lacks_pressure and self.delay is None

    @property
    def is_complete(self) -> bool:
        """Whether all that it wants is open."""
        return self._opened is not None and len(self._opened) == self._files

    @property
    def is_there(self) -> bool:
        """Whether anything of it is, as far as is known."""
        return self._opened is not None

    @property
    def counts(self) -> bool:
        """Whether all that its usage is made of is open."""
        return self._opened is not None and self._ends[1] == len(self._wanted[0]) + len(self._wanted[1])

    @property
    def opened(self) -> _Opened:
        """Its open files, each with where it was found."""
        return self._opened or []

    @property
    def signs(self) -> list[int]:
        """Of each of its open files: 1 if it is added to its usage, -1 if taken off, 0 if it is of something else."""
        add, less, _ = self._ends
        return [1] * add + [-1] * (less - add) + [0] * (len(self.opened) - less)

    def close(self) -> None:
        """Close its files; the next read opens them anew."""
        for file, _ in self._opened or ():
            file.close()
        self._opened, self._said = None, ()
        self._open_at = float("-inf")

    def _figure(self, place: int) -> int | None:
        """Return what a file says; of a cgroup that is taken off and has ended what it said last."""
        file, source = self.opened[place]
        try:
            return source.parse(file.read())
        except Vanished:
            add, less, _ = self._ends
            if not add <= place < less <= len(self._said) or descriptors.inode(source.folder) is not None:
                raise
            return self._said[place]

    def _open_all(self, now: float) -> None:
        """Open what is there; where a part is not (yet) there, all is tried again after a while."""
        self.close()
        parts = [self._open(wanted) for wanted in self._wanted]
        self._opened = list(chain.from_iterable(part.opened for part in parts))
        add, less, stalled, _ = accumulate(len(part.opened) for part in parts)
        self._ends = (add, less, stalled)
        added, taken, pressure, throttling = (bool(part.refused) for part in parts)
        self._refused = (added or taken, pressure, throttling)
        key = self._found(parts)
        if key is None:
            self.close()
        else:
            while key in self._ended:
                key += _GENERATION
            self._left = self._left if key == self.key else None
            self.key = key
        self._open_at = float("inf") if self.is_complete else now + RETRY_S

    def _open(self, wanted: tuple[Source, ...]) -> _Part:
        found = _Part([], [])
        for source in wanted:
            try:
                file = self._bank.open(source.folder, source.name)
            except Refused:
                inode = descriptors.inode(source.folder)
                found.refused.extend(() if inode is None else (inode,))
            else:
                found.opened.extend(() if file is None else ((file, source),))
        return found

    def _found(self, parts: list[_Part]) -> int | None:
        """Return the key of what is there, None if there is nothing to measure."""
        if self._identity is not None:
            return descriptors.inode(self._identity)
        add, less = (part.inodes for part in parts[:2])
        if not add and not self._group.is_nobody:
            return None
        together = (*sorted(add), *sorted(-inode for inode in less))
        return add[0] if len(together) == 1 else -1 - hash(together) % _GENERATION


STAT_SIZE: Final = 1 << 19
"""Bytes of /proc/stat: room for 2048 CPUs and their interrupts. The kernel shows it in one piece (fs/proc/stat.c)."""


class ReservedGauge:
    """Reads what ran on the reserved CPUs, as far as it is in cgroups' counters: /proc/stat, whose cost grows with the
    CPUs."""

    def __init__(self, group: Group, layout: CgroupLayout, host_root: str, bank: Descriptors) -> None:
        self._group = group
        self._by_tasks = sources.counts_tasks(layout)
        self._file = bank.open_readable(f"{host_root.rstrip('/')}/proc", "stat")
        self.cost = 1
        self.key = -1 - group.cpus

    def read(self, now: float) -> Sample | None:
        """Return a sample, whose key stands for this set of CPUs; None where /proc/stat is not readable."""
        text = self._file.read(STAT_SIZE) if self._file is not None else None
        busy = counters.busy_us(text, by_tasks=self._by_tasks)
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


def _sum(figures: Sequence[int | None]) -> int | None:
    """Add up the counters of a part; None if there is none, or one of them cannot be read."""
    total = None
    for figure in figures:
        if figure is None:
            return None
        total = figure if total is None else total + figure
    return total


AT_ONCE_S: Final = 0.0005
"""Summed counters belong to one moment. A round that was interrupted for longer than this is read again, which takes a
fifth of the time; without it a tick would read all counters one by one."""

LEFT: Final = {Role.PODS: 1, Role.BOX: -1, Role.DEDICATED: -1}
"""Online use is the sum of these roles, added or subtracted."""

REST: Final = {Role.SYSTEM: 1, Role.HOST: -1}
"""The same for use beside pods."""

BOXED: Final = frozenset((Role.BOX, Role.HOST))
SUMMED: Final = frozenset((*LEFT, *REST))
"""Whose counters are added up."""

Figures = Sequence[int | None]
_Places = tuple[CgroupGauge, tuple[int | None, ...]]


class Round:
    """Of gauges whose usage is open: what is added up or taken off, and online groups that tell their pressure.

    `cost`: its files. One that several gauges have is read once. The use of online groups is not: at one moment it is
    what is left.
    """

    def __init__(self, gauges: Iterable[CgroupGauge]) -> None:
        self._files: dict[Source, OpenFile] = {}
        self._left: list[int] = []
        self._system: list[int] = []
        self._box: list[int] = []
        self._waits: list[int] = []
        self._parts: list[_Places] = [(gauge, self._places(gauge)) for gauge in gauges]
        self._reads = [(file.content, source.parse) for source, file in self._files.items()]
        self.cost = len(self._reads)

    def _places(self, gauge: CgroupGauge) -> tuple[int | None, ...]:
        """Take a gauge's files in, and return where in the figures it finds what each says."""
        is_online, places = gauge.role is Role.ONLINE, list[int | None]()
        for (file, source), sign in zip(gauge.opened, gauge.signs, strict=True):
            if is_online and sign:
                places.append(None)
                continue
            if source not in self._files:
                self._files[source] = file
                for weights in (self._left, self._system, self._box):
                    weights.append(0)
            place = list(self._files).index(source)
            self._left[place] += LEFT.get(gauge.role, 0) * sign
            self._system[place] += REST.get(gauge.role, 0) * sign
            self._box[place] += (gauge.role in BOXED) * sign
            places.append(place)
            if is_online and len(places) == gauge.waits_at + 1:
                self._waits.append(place)
        return tuple(places)

    def look(self, clock: Callable[[], float]) -> tuple[Look, Figures] | None:
        """Read all; None where a file cannot be read or its cgroup is gone, and where it was twice no single moment."""
        for _ in range(2):
            at = clock()
            try:
                figures = [parse(read()) for read, parse in self._reads]
            except (OSError, Vanished):
                return None
            if clock() - at <= AT_ONCE_S:
                break
        else:
            return None
        if None in figures:
            return None
        left, system, box = (sum(map(mul, figures, by)) for by in (self._left, self._system, self._box))
        waited = tuple([figures[place] or 0 for place in self._waits])
        return Look(at, left, system, box, waited), figures

    def samples(self, at: float, figures: Figures) -> Iterable[Sample]:
        """Make the samples of what a look found."""
        for gauge, places in self._parts:
            yield gauge.sample(at, [None if place is None else figures[place] for place in places])
