"""Gauges that are read one after the other at every tick, as one list of files: what they say comes to two sums.

A tick after a sleep finds nothing in the processor's caches, so that each step between a file's bytes and a decision
costs as much as a read. Most ticks decide nothing: for them a sum of counters is enough, and samples are made of the
same figures when somebody asks for them.
"""

from collections.abc import Callable, Iterable
from itertools import accumulate
from operator import mul
from typing import Final

from nri_coloc.model.readings import Look, Role, Sample
from nri_coloc.sampling.descriptors import Vanished
from nri_coloc.sampling.gauge import CgroupGauge

AT_ONCE_S: Final = 0.0005
"""Counters that are added up belong to one moment: a round that was interrupted for longer is none."""

SIGNS: Final = {Role.PODS: 1, Role.SYSTEM: 1, Role.BOX: -1, Role.DEDICATED: -1}
"""What is used and not lent is what these roles use, added or taken off."""

Figures = tuple[int, ...]


class Round:
    """Of gauges whose usage is open: those that are added up or taken off, and online groups. `cost`: its files."""

    def __init__(self, gauges: Iterable[CgroupGauge]) -> None:
        self._gauges = tuple(gauges)
        self._files = [opened for gauge in self._gauges for opened in gauge.opened]
        ends = tuple(accumulate(len(gauge.opened) for gauge in self._gauges))
        parts = tuple(zip(self._gauges, map(slice, (0, *ends), ends), strict=False))
        self._summed = tuple((gauge, part) for gauge, part in parts if gauge.role in SIGNS)
        self._online = tuple((gauge, part) for gauge, part in parts if gauge.role is Role.ONLINE)
        self._left = [SIGNS.get(gauge.role, 0) * sign for gauge in self._gauges for sign in gauge.signs]
        self._box = [(gauge.role is Role.BOX) * sign for gauge in self._gauges for sign in gauge.signs]
        self.cost = len(self._files)

    def look(self, clock: Callable[[], float]) -> tuple[Look, Figures] | None:
        """Read all; None where a file cannot be read or its cgroup is gone, and where it was no single moment."""
        at = clock()
        try:
            found = [parse(file.read()) for file, parse in self._files]
        except Vanished:
            return None
        figures = tuple([figure for figure in found if figure is not None])
        if len(figures) < len(found) or clock() - at > AT_ONCE_S:
            return None
        left, box = sum(map(mul, figures, self._left)), sum(map(mul, figures, self._box))
        online = tuple([gauge.sample(at, figures[part]) for gauge, part in self._online])
        return Look(at, left, box, online), figures

    def samples(self, at: float, figures: Figures) -> Iterable[Sample]:
        """Make the samples of what is added up of what a look found."""
        return (gauge.sample(at, figures[part]) for gauge, part in self._summed)
