"""Read the counters of the fast loop: a few open files a tick, sums at each tick and other files round-robin.

Use is a sum and a difference: kubepods, the rest of the node, the reclaim cgroups, dedicated containers. All of it is
read at every tick, and `groups` chooses as few files as possible. The reason: on a full node a burst is seen only by
the use that reclaimed pods lose, and one old rate among them hides it. The pressure of online pods and the members of
tiers are read round-robin within the budget, more at a time with many groups, so that a round ends before their
counters are too old to be compared (`lending.usage.LONGEST_S`). If few files may be open, the files of the sums stay
open, and the others are opened for each reading.

Without PSI the run-queue delay of a few chosen tasks replaces the pressure.

At most ticks the sums of a few counters are enough (`look`, `lending.gauges`). Samples are made of the last two quick
readings when a full tick decides.

`python -m benchmarks sampling` measures the cost of both.
"""

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import Final

from nri_coloc.core.readings import SCHEDULER_TICK_S, Look, Role, Sample
from nri_coloc.host import files
from nri_coloc.host.cgroup_layout import CgroupLayout
from nri_coloc.host.files import Descriptors
from nri_coloc.lending.gauges import RETRY_S, SUMMED, CgroupGauge, Figures, ReservedGauge, Round
from nri_coloc.lending.groups import Group
from nri_coloc.lending.run_delay import MOST_TASKS, RunDelay

MONOTONIC_COARSE: Final = 6
"""CLOCK_MONOTONIC_COARSE, which Python does not name (include/uapi/linux/time.h)."""

BUDGET: Final = 8
"""Files a tick, as far as the sums leave room for other files."""

LEAST_IN_TURN: Final = 2
"""Files read round-robin in a tick if the sums leave no room."""

UNHURRIED: Final = 110
"""Round-robin groups up to which a round may take its time.

It is the number on a node with as many pods, for which the loop's cost is specified. For containers with a quota,
three files each, the least makes a round of 5.5 s at 50 ms.
"""

UNHURRIED_S: Final = 7.0
"""Seconds of such a round if ticks are rare, as with the reclaim pool at its floor. The least would take minutes."""

ROUND_S: Final = 3.0
"""Seconds of a round with more groups. At 50 ms, 240 containers with a quota are 12 files a tick instead of 3."""

MOST_IN_TURN: Final = 48
"""Files a tick that a round may ask for: 960 such containers in 3 s at 50 ms. With more, the round takes longer."""

REPLACED_S: Final = 0.006
"""Seconds in which new groups cannot have a rate (`lending.usage`). A pod that comes makes ticks come sooner."""

RESERVED_PERIOD_S: Final = 0.75
"""Seconds between two reads of /proc/stat, which counts in steps of 10 ms and is the most expensive file here.

It is read when a full tick decides: every 0.8 s while the reclaimed pods are idle.
"""

_COUNTED: Final = frozenset((*SUMMED, Role.RESERVED, Role.TIER))
"""Roles whose use is a sum of groups. A removed group must not be counted beside the groups that replace it."""

_Gauge = CgroupGauge | ReservedGauge
_QUEUES: Final = (Role.ONLINE, Role.TIER)


def counters_s() -> float:
    """Return how stale a CPU's counter may be, seconds: the scheduler's tick, at least that of most kernels.

    A faster tick gives no finer figures, because the counters are not all read at one moment. The tick sets the coarse
    clocks, so its length is their resolution (kernel/time/posix-timers.c, posix_get_coarse_res).
    """
    return max(SCHEDULER_TICK_S, time.clock_getres(MONOTONIC_COARSE))


class FastSampler:
    """Reads the files of the fast loop.

    `watch`, `follow` and `without_pressure` are for any thread and do no I/O. All other methods are for the tick's
    thread. `most_open`: number of files to keep open, if the process may have as many.

    Size: one round of readings; open files, readings and due times belong together.
    """

    def __init__(
        self,
        layout: CgroupLayout,
        host_root: str = "/",
        clock: Callable[[], float] = time.monotonic,
        most_open: int = files.LIMIT,
    ) -> None:
        self._layout = layout
        self._host_root = host_root
        self._clock = clock
        self._bank = Descriptors(most_open)
        self._bank_in_turn = Descriptors()
        self._room = self._bank.limit
        self._is_short = False
        self._files_a_second = 0.0
        self._turned_at = float("inf")
        self._wanted: tuple[Group, ...] = ()
        self._adopted: tuple[Group, ...] = ()
        self._chosen: Mapping[str, tuple[int, ...]] = {}
        self._followed: Mapping[str, tuple[int, ...]] = self._chosen
        self._delays: dict[str, RunDelay] = {}
        self._gauges: dict[Group, _Gauge] = {}
        self._of_cgroups: list[CgroupGauge] = []
        self._always: list[_Gauge] = []
        self._queues: list[deque[_Gauge]] = []
        self._first = 0
        self._reserved: list[_Gauge] = []
        self._reserved_at = float("-inf")
        self._together: list[CgroupGauge] = []
        self._turns: list[deque[_Gauge]] = []
        self._round: Round | None = None
        self._round_until = 0.0
        self._round_from = 0.0
        self._looks: deque[tuple[Round, Look, Figures]] = deque(maxlen=2)
        self._heard: dict[int, tuple[Sample, ...]] = {}
        self._last_words: list[Sample] = []

    @property
    def open_files(self) -> int:
        """Return the number of open descriptors."""
        return self._bank.count + self._bank_in_turn.count

    @property
    def is_short(self) -> bool:
        """Return whether fewer files may be open than are read."""
        return self._is_short or self._bank.was_short or self._bank_in_turn.was_short

    def watch(self, groups: tuple[Group, ...]) -> None:
        """Read these groups, which `groups.choose` chose, from the next read on.

        The same choice again changes nothing: open files stay open, and quick readings continue.
        """
        if groups != self._wanted:
            self._wanted = groups

    def follow(self, tasks: Mapping[str, tuple[int, ...]]) -> None:
        """Read the run-queue delay of these tasks, by the `stalled` path of their group, from the next read on."""
        self._chosen = tasks

    @property
    def without_pressure(self) -> frozenset[str]:
        """Return the `stalled` paths of the online groups without a pressure file at their last read."""
        gauges = self._of_cgroups  # replaced as a whole when it changes
        return frozenset(gauge.stalled for gauge in gauges if gauge.lacks_pressure)

    def look(self, now: float) -> Look | None:
        """Return the sums of this tick's counters; None if `read` has to read one by one.

        That is so at the first tick after a cgroup came or went.
        """
        if self._has_changed or self._round is None:
            return None
        if now >= self._round_until:
            self._round = None
            return None
        found = self._round.look(self._clock)
        if found is None:
            self._round, self._round_from = None, now + RETRY_S
            return None
        look, figures = found
        self._looks.append((self._round, look, figures))
        if self._turns:
            online: list[Sample] = []
            self._in_turn(self._turns, max(BUDGET - self._round.cost, self._due(now)), online)
            look = look._replace(online=tuple(online))
            for sample in online:
                self._heard[sample.key] = (*self._heard.get(sample.key, ())[-1:], sample)
        return look

    def samples(self, now: float) -> tuple[Sample, ...]:
        """Return the samples of the last two quick readings, the older ones first.

        Only readings since the last call of this or `read` count. For online groups that are read round-robin, return
        the last two samples of each. Most of these groups were in none of the two readings.
        """
        samples = self._looked_at()
        self._take_reserved(now, samples)
        return tuple(samples)

    def read(self, now: float, budget: int = BUDGET) -> tuple[Sample, ...]:
        """Return this tick's samples: all summed groups, and others round-robin, about `budget` files together.

        `now`: the tick's planned time; samples carry the clock's time. Samples of quick readings come first. Never
        raises for the state of a cgroup.
        """
        samples = self._looked_at()
        if self._has_changed:
            samples += self._adopt()
        for gauge in self._always:
            self._take(gauge, samples)
        self._take_reserved(now, samples)
        left = budget - sum(gauge.cost for gauge in self._always)
        self._in_turn(self._queues, max(left, self._due(now)), samples)
        self._make_round(now)
        return tuple(samples)

    def close(self) -> None:
        """Close all files."""
        self.watch(())
        self.follow({})
        self._looks.clear()
        self._heard.clear()
        self._adopt()

    def _looked_at(self) -> list[Sample]:
        samples = self._said_last()
        for looked, look, figures in self._looks:
            samples += (*looked.samples(look.at, figures), *look.online)
        if self._heard:
            samples += chain.from_iterable(self._heard.values())
            samples.sort(key=attrgetter("at"))
        self._looks.clear()
        self._heard.clear()
        return samples

    def _take_reserved(self, now: float, samples: list[Sample]) -> None:
        if self._reserved and now - self._reserved_at >= RESERVED_PERIOD_S:
            self._reserved_at = now
            self._take(self._reserved[0], samples)

    def _due(self, now: float) -> float:
        """Return the number of round-robin files to read now, so that a round ends in time."""
        since, self._turned_at = max(0.0, now - self._turned_at), now
        return max(LEAST_IN_TURN, min(self._files_a_second * since, MOST_IN_TURN))

    def _in_turn(self, queues: Sequence[deque[_Gauge]], left: float, samples: list[Sample]) -> None:
        """Read one gauge of each queue, and repeat until the budget is used or all gauges are read."""
        queues = [*queues[self._first :], *queues[: self._first]]
        self._first = (self._first + 1) % max(1, len(self._queues))
        unread = [len(queue) for queue in queues]
        while any(unread):
            for at, queue in enumerate(queues):
                if not unread[at]:
                    continue
                if left <= 0:
                    return
                gauge = queue[0]
                queue.rotate(-1)
                unread[at] -= 1
                left -= gauge.cost
                self._take(gauge, samples)
                if self._bank_in_turn.count > self._room:
                    gauge.close()

    def _take(self, gauge: _Gauge, samples: list[Sample]) -> None:
        sample = gauge.read(self._clock())
        if sample is not None:
            samples.append(sample)

    # ---- a changed choice ----

    @property
    def _has_changed(self) -> bool:
        return self._wanted is not self._adopted or self._chosen is not self._followed

    def _adopt(self) -> list[Sample]:
        """Replace the groups that are read; return last samples of the groups that are removed.

        The use of a removed group counts until its replacements have been read twice. Else, when a pod joins the
        reclaim cgroups and another counter then holds their use, no rate would exist for a tick. All their use would
        count as online use.
        """
        wanted, now = self._wanted, self._clock()
        kept = {group: self._gauges.get(group) or self._gauge(group) for group in wanted}
        left = {group: gauge for group, gauge in self._gauges.items() if group not in kept}
        once_more: list[Sample] = []
        for group, gauge in left.items():
            if group.role in _COUNTED and gauge.key:
                self._take(gauge, once_more)
                self._last_words.append(Sample(gauge.key, group.role, now, gone=True))
            gauge.close()
        self._gauges = kept
        self._adopted = wanted
        self._of_cgroups = [gauge for gauge in kept.values() if isinstance(gauge, CgroupGauge)]
        self._follow()
        self._share_out()
        self._always = [kept[group] for group in wanted if _is_read_always(group)]
        self._reserved = [kept[group] for group in wanted if group.role is Role.RESERVED]
        queues = [deque(kept[group] for group in wanted if group.role is role) for role in _QUEUES]
        self._queues = [queue for queue in queues if queue]
        self._first = 0
        self._round, self._round_from = None, 0.0
        self._plan_round()
        return once_more

    def _share_out(self) -> None:
        """Give the round-robin groups the files that the sums do not need.

        If they need more, close their files.
        """
        ahead = [gauge.cost for group, gauge in self._gauges.items() if not _is_in_turn(group)]
        in_turn = [gauge for group, gauge in self._gauges.items() if _is_in_turn(group)]
        self._room = max(0, self._bank.limit - sum(ahead) - MOST_TASKS)
        files = sum(gauge.cost for gauge in in_turn)
        self._files_a_second = files / (ROUND_S if len(in_turn) > UNHURRIED else UNHURRIED_S)
        self._is_short = self._is_short or files > self._room
        if self._bank_in_turn.count > self._room:
            for gauge in in_turn:
                gauge.close()

    def _said_last(self) -> list[Sample]:
        """Return the last sample of each removed cgroup, once; none of a cgroup whose key was chosen again."""
        if not self._last_words:
            return []
        since = self._clock() - REPLACED_S
        said = [sample for sample in self._last_words if sample.at <= since]
        self._last_words = [sample for sample in self._last_words if sample.at > since]
        chosen = {gauge.key for gauge in self._gauges.values()}
        return [sample for sample in said if sample.key not in chosen]

    def _follow(self) -> None:
        """Open the files of the chosen tasks' wait times. A group that was followed before continues its count."""
        self._followed, proc = self._chosen, f"{self._host_root.rstrip('/')}/proc"
        before = self._delays
        self._delays = {path: before.get(path) or RunDelay(self._bank, proc) for path in self._followed}
        for path, delay in (before | self._delays).items():
            delay.follow(self._followed.get(path, ()))
        for gauge in self._of_cgroups:
            gauge.delay = self._delays.get(gauge.stalled)

    def _plan_round(self) -> None:
        """Choose the gauges of quick readings: all sums, and either all online groups or some of them round-robin.

        A group without any wait time is left out. A group with the wait times of its tasks is read round-robin; if
        all fit, that is at each quick reading.
        """
        added = [gauge for gauge in self._of_cgroups if gauge.role in SUMMED]
        online = [gauge for gauge in self._of_cgroups if gauge.role is Role.ONLINE and not gauge.is_mute]
        left = min(BUDGET - sum(gauge.cost for gauge in added), self._room)
        fits = sum(gauge.cost for gauge in online) <= left
        at_each = [gauge for gauge in online if fits and gauge.delay is None]
        in_turn = [gauge for gauge in online if gauge not in at_each]
        self._together = [*added, *at_each]
        self._turns = [deque(in_turn)] if in_turn else []

    def _make_round(self, now: float) -> None:
        """Start quick readings when all files are open, or `RETRY_S` after a failed one.

        While a file or a cgroup is missing, the round ends after `RETRY_S` and is made again, because the missing
        file may exist by then.
        """
        if self._round is not None or now < self._round_from or not self._together:
            return
        self._plan_round()
        if all(gauge.counts or _is_absent(gauge) for gauge in self._together):
            self._round = Round(gauge for gauge in self._together if gauge.counts)
            mute = (gauge for gauge in self._of_cgroups if gauge.is_mute)
            is_whole = all(gauge.is_complete for gauge in (*self._together, *mute))
            self._round_until = float("inf") if is_whole else now + RETRY_S

    def _gauge(self, group: Group) -> _Gauge:
        if group.role is Role.RESERVED:
            return ReservedGauge(group, self._layout, self._host_root, self._bank)
        bank = self._bank_in_turn if _is_in_turn(group) else self._bank
        return CgroupGauge(group, self._layout, bank)


def _is_absent(gauge: CgroupGauge) -> bool:
    """Return whether no cgroup of the gauge exists, and its absence leaves no gap.

    A missing cgroup uses nothing and waits for nothing. Nothing is subtracted for it, as at a full tick.
    """
    return not gauge.is_there and gauge.role not in (Role.PODS, Role.SYSTEM)


def _is_in_turn(group: Group) -> bool:
    return group.role in _QUEUES


def _is_read_always(group: Group) -> bool:
    """Return whether it is a part of a sum."""
    return group.role in SUMMED
