"""Gauges that are read one after the other at every tick, as one list of files: what they say comes to three sums.

A tick after a sleep finds nothing in the processor's caches, so that each step between a file's bytes and a decision
costs as much as a read. Most ticks decide nothing: for them a sum of counters is enough, and samples are made of the
same figures when somebody asks for them.
"""

from collections.abc import Callable, Iterable, Sequence
from operator import mul
from typing import Final

from nri_coloc.model.readings import Look, Role, Sample
from nri_coloc.sampling.descriptors import OpenFile, Vanished
from nri_coloc.sampling.gauge import CgroupGauge
from nri_coloc.sampling.sources import Source

AT_ONCE_S: Final = 0.0005
"""Counters that are added up belong to one moment: a round that was interrupted for longer is none, and is read again:
by then it takes a fifth of the time, and what it would leave to others is many reads one by one."""

LEFT: Final = {Role.PODS: 1, Role.BOX: -1, Role.DEDICATED: -1}
"""What pods use and is neither the box's nor apart is what these roles use, added or taken off."""

REST: Final = {Role.SYSTEM: 1, Role.HOST: -1}
"""Likewise of what runs beside pods."""

BOXED: Final = frozenset((Role.BOX, Role.HOST))
SUMMED: Final = frozenset((*LEFT, *REST))
"""Whose counters are added up."""

Figures = Sequence[int | None]
_Part = tuple[CgroupGauge, tuple[int | None, ...]]


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
        self._parts: list[_Part] = [(gauge, self._places(gauge)) for gauge in gauges]
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
