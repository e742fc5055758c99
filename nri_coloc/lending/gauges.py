"""Read the counters of groups of cgroups from open files.

Files are opened at the first read and closed when the cgroup is gone. A key stands for exactly the cgroups that a sum
is made of. If a cgroup leaves or joins, the key changes, so that counters of different groups are never compared. The
key of one cgroup is the inode of its folder; the key of several is a negative number made of their inodes. A file
that exists and cannot be opened is part of the key and makes the sum unknown. Without it a sum would be too small,
and a remainder too large. `Round` reads many gauges as one list of files.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, chain
from operator import mul
from typing import Final, NamedTuple

from nri_coloc.core import cpuset
from nri_coloc.core.readings import Look, Role, Sample, Signal, risen
from nri_coloc.host import counters, files
from nri_coloc.host.cgroup_layout import CgroupLayout
from nri_coloc.host.counters import Source
from nri_coloc.host.files import Descriptors, OpenFile, Refused, Vanished
from nri_coloc.lending.groups import Group
from nri_coloc.lending.run_delay import RunDelay

RETRY_S: Final = 0.5
"""Seconds until a missing cgroup is tried again."""

_GENERATION: Final = 1 << 64
"""A simulated node's file system may give a new folder the inode of an old one; cgroupfs never does."""

_Opened = list[tuple[OpenFile, Source]]


class _Part(NamedTuple):
    """One part of a figure.

    opened: its open files.
    refused: inodes of the folders whose files could not be opened.
    """

    opened: _Opened
    refused: list[int]

    @property
    def inodes(self) -> list[int]:
        """Return the inodes of all folders that exist, the open ones first."""
        return [file.inode for file, _ in self.opened] + self.refused


class Remainder(NamedTuple):
    """The state of a difference of counters that must never fall.

    counters: their last readings.
    left: the largest difference so far, which is reported.
    shift: added to the present difference, so that `left` continues without a break after a reset.
    """

    counters: tuple[int, ...]
    left: int
    shift: int = 0


def remainder(
    known: Remainder | None, added: Sequence[int | None], taken: Sequence[int | None]
) -> tuple[Remainder | None, int | None]:
    """Return a difference of counters as a counter that never falls; None if it, or its rise, is unknown.

    The difference itself falls for a moment: time passes between two reads, and the root's counter on v2 is made of
    clock ticks. It may also be negative, if a counter was reset before the first reading.
    """
    plus = [counter for counter in added if counter is not None]
    minus = [counter for counter in taken if counter is not None]
    if len(plus) + len(minus) < len(added) + len(taken):
        return known, None
    counters, difference = (*plus, *minus), sum(plus) - sum(minus)
    if known is None:
        first = max(0, difference)
        return Remainder(counters, first, first - difference), first
    if any(risen(*pair) is None for pair in zip(known.counters, counters, strict=True)):
        return Remainder(counters, known.left, known.left - difference), None
    now = known._replace(counters=counters, left=max(known.left, difference + known.shift))
    return now, now.left


class CgroupGauge:
    """Reads the usage, pressure and throttling of one group.

    key: key of its samples, 0 before the first one.
    lacks_pressure: whether the last sample had no pressure. In this case `delay` is read instead.
    """

    def __init__(self, group: Group, layout: CgroupLayout, bank: Descriptors) -> None:
        self._group = group
        self._bank = bank
        self._wanted = (
            _known(counters.usage(layout, path) for path in group.add),
            _known(counters.usage(layout, path) for path in group.less),
            _known(counters.stalled(layout, path) for path in (group.stalled,) if path),
            _known(counters.throttled(layout, path) for path in group.throttled),
        )
        self._identity = counters.identity(layout, group.stalled) if group.stalled else None
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

        After one of them has vanished, a last sample without figures marks the end of this key. Exception: a vanished
        cgroup that is subtracted uses nothing more, and the figure continues.
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
        """Return a sample made of the figures of its files, in their order."""
        group, self._said = self._group, figures
        add, less, stalled = self._ends
        no_usage, no_pressure, no_throttling = self._refused
        if no_usage:
            usage = None
        elif less > add:
            self._left, usage = remainder(self._left, figures[:add], figures[add:less])
        else:
            usage = _sum(figures[:add]) if add else _use_without_files(group)
        held = _sum(figures[stalled:]) if group.throttled else 0 if group.stalled else None
        held = None if no_throttling else held
        waited, signal = None if no_pressure else _sum(figures[less:stalled]), Signal.PSI
        self.lacks_pressure = waited is None and bool(group.stalled)
        if self.lacks_pressure and self.delay is not None:
            waited, signal = self.delay.read(), Signal.RUN_DELAY
        return Sample(
            key=self.key,
            role=group.role,
            at=now,
            usage_us=usage,
            stalled_us=waited,
            throttled_us=held,
            shares_box=group.shares_box,
            tier=group.tier,
            signal=signal,
        )

    @property
    def role(self) -> Role:
        """Return the role of the group that it measures."""
        return self._group.role

    @property
    def stalled(self) -> str:
        """Return the path of the cgroup whose pressure it measures, "" for none."""
        return self._group.stalled

    @property
    def cost(self) -> int:
        """Return the number of files that one read touches, at least 1."""
        return max(1, self._files + (self.delay.cost if self.delay is not None else 0))

    @property
    def waits_at(self) -> int:
        """Return the place of the pressure file among its open files, if it has one."""
        return self._ends[1]

    @property
    def is_mute(self) -> bool:
        """Return whether neither pressure nor run-queue delay of its tasks can be read."""
        return self.lacks_pressure and self.delay is None

    @property
    def is_complete(self) -> bool:
        """Return whether all its files are open."""
        return self._opened is not None and len(self._opened) == self._files

    @property
    def is_there(self) -> bool:
        """Return whether any of its cgroups is known to exist."""
        return self._opened is not None

    @property
    def counts(self) -> bool:
        """Return whether all files of its usage are open."""
        return self._opened is not None and self._ends[1] == len(self._wanted[0]) + len(self._wanted[1])

    @property
    def opened(self) -> _Opened:
        """Return its open files, each with its source."""
        return self._opened or []

    @property
    def signs(self) -> list[int]:
        """Return for each open file 1 if it is added to the usage, -1 if it is subtracted, 0 if it is no part of it."""
        add, less, _ = self._ends
        return [1] * add + [-1] * (less - add) + [0] * (len(self.opened) - less)

    def close(self) -> None:
        """Close its files; the next read opens them again."""
        for file, _ in self._opened or ():
            file.close()
        self._opened, self._said = None, ()
        self._open_at = float("-inf")

    def _figure(self, place: int) -> int | None:
        """Return the value of a file. For a subtracted cgroup that has ended, return its last value."""
        file, source = self.opened[place]
        try:
            return source.parse(file.read())
        except Vanished:
            add, less, _ = self._ends
            if not add <= place < less <= len(self._said) or files.inode(source.folder) is not None:
                raise
            return self._said[place]

    def _open_all(self, now: float) -> None:
        """Open the files that exist. If one is missing, try all again after `RETRY_S`."""
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
                inode = files.inode(source.folder)
                found.refused.extend(() if inode is None else (inode,))
            else:
                found.opened.extend(() if file is None else ((file, source),))
        return found

    def _found(self, parts: list[_Part]) -> int | None:
        """Return the key of the cgroups that exist, None if there is nothing to measure."""
        if self._identity is not None:
            return files.inode(self._identity)
        add, less = (part.inodes for part in parts[:2])
        if not add and _use_without_files(self._group) is None:
            return None
        together = (*sorted(add), *sorted(-inode for inode in less))
        return add[0] if len(together) == 1 else -1 - hash(together) % _GENERATION


STAT_SIZE: Final = 1 << 19
"""Bytes of /proc/stat: room for 2048 CPUs and their interrupts. The kernel shows it in one piece (fs/proc/stat.c)."""


class ReservedGauge:
    """Reads the use of the reserved CPUs, as far as counters of cgroups contain it.

    The file is /proc/stat; the cost of a read grows with the number of CPUs.
    """

    def __init__(self, group: Group, layout: CgroupLayout, host_root: str, bank: Descriptors) -> None:
        self._group = group
        self._by_tasks = counters.counts_tasks(layout)
        self._file = bank.open_readable(f"{host_root.rstrip('/')}/proc", "stat")
        self.cost = 1
        self.key = -1 - group.cpus

    def read(self, now: float) -> Sample | None:
        """Return a sample whose key stands for this set of CPUs; None if /proc/stat is not readable."""
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


def _use_without_files(group: Group) -> int | None:
    """Return the use of a group without a file that shows it: 0 if it contains no cgroup, else None for unknown."""
    return None if group.add or group.stalled else 0


def _sum(figures: Sequence[int | None]) -> int | None:
    """Return the sum of a part's counters; None if there is none, or if one of them could not be read."""
    total = None
    for figure in figures:
        if figure is None:
            return None
        total = figure if total is None else total + figure
    return total


AT_ONCE_S: Final = 0.0005
"""Seconds. Counters that are added up belong to one moment.

A round that was interrupted for longer is read again. The second read takes a fifth of the time. If that fails, the
alternative is to read many files one by one.
"""

LEFT: Final = {Role.PODS: 1, Role.BOX: -1, Role.DEDICATED: -1}
"""Signs of the roles whose sum is the use of pods that are neither reclaimed nor on owned CPUs."""

REST: Final = {Role.SYSTEM: 1, Role.HOST: -1}
"""The same for use beside pods."""

BOXED: Final = frozenset((Role.BOX, Role.HOST))
SUMMED: Final = frozenset((*LEFT, *REST))
"""The roles whose counters are added up."""

Figures = Sequence[int | None]
_Places = tuple[CgroupGauge, tuple[int | None, ...]]


class Round:
    """Reads the gauges whose usage files are open, and the online groups with a pressure file, at one moment.

    `cost`: number of its files. A file that several gauges share is read once. The use of online groups is not read:
    at one moment it is the remainder.
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
        """Add a gauge's files to the round, and return the place of each among the figures."""
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
        """Return the sums and the figures of one read of all files.

        None if a file cannot be read, if its cgroup is gone, or if two attempts were both interrupted.
        """
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
        """Return one sample for each gauge from the figures of a quick reading."""
        for gauge, places in self._parts:
            yield gauge.sample(at, [None if place is None else figures[place] for place in places])
