"""Learn the expected use of online pods from each snapshot, and make the offer of the rest.

Two clocks are used. Snapshots carry monotonic time. Histories carry seconds since 1970, because they outlive the
daemon. Expectations are kept until another sample comes, or a pod starts or ends: they cost 15 µs a pod.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from nri_coloc.core.lending import Capacity
from nri_coloc.core.readings import Picture
from nri_coloc.core.settings import ReclaimTuning
from nri_coloc.forecast import expectations as prediction
from nri_coloc.forecast import use
from nri_coloc.forecast.capacity import Ahead, Supply, ahead, capacity
from nri_coloc.forecast.expectations import Expectation, Forecast
from nri_coloc.forecast.use import SYSTEM, Use
from nri_coloc.pods.replicas import OnlinePod

ADVERTISED_S: Final = 60.0
"""Seconds for which an offer holds if no pod starts or ends."""

Online = Mapping[str, OnlinePod]


class Scene(NamedTuple):
    """The facts of an offer: it holds while they stay the same.

    online: online pods by id.
    lendable_milli: lendable milli-CPU.
    tuning: settings of lending.
    box_milli: milli-CPU of the reclaim pool if pools are sized by load, else None. A higher offer is replaced.
    most_milli: the operator's maximum of the reclaim pool, milli-CPU; None for none.
    """

    online: Online
    lendable_milli: int
    tuning: ReclaimTuning
    box_milli: int | None = None
    most_milli: int | None = None


class Offer:
    """The forecast and the offer. It belongs to one thread; any thread may read `capacity` and call `ahead`."""

    def __init__(self) -> None:
        self.capacity = Capacity()
        self.forecast = Forecast()
        self._expected: Expectation | None = None
        self._expected_for: tuple[object, ...] = ()
        self._offered_for: tuple[object, ...] = ()
        self._offered_s = float("-inf")
        self._supply = Supply(0, 0, kubepods_limit=0)
        self._used = (0, 0)
        self._offered_by: tuple[Forecast, Scene, Supply] | None = None

    def ahead(self, now_s: float) -> tuple[Ahead, ...]:
        """Return the offer for each of the next 24 hours, without a schedule; empty while too little was learnt.

        It costs 24 expectations: 18 ms of CPU for 110 pods.
        """
        if self._offered_by is None:
            return ()
        forecast, scene, supply = self._offered_by
        return ahead(forecast, scene.online, supply, now_s, scene.tuning)

    def resume(self, learnt: Forecast) -> None:
        """Continue with the histories of the previous process."""
        self.forecast = learnt

    def saw(
        self, before: Picture | None, after: Picture, online: Online, now_s: float, tuning: ReclaimTuning
    ) -> None:
        """Learn the use between two snapshots. Two that show no use count as a failed reading."""
        if before is None:
            return
        uses = use.uses_between(before, after, online)
        known = uses if any(map(_says_something, uses.values())) else {}
        self.forecast = prediction.observe(self.forecast, known, now_s, tuning)

    def expected(self, online: Online, now_s: float, tuning: ReclaimTuning) -> Expectation:
        """Return the expected use of each online pod and of the system."""
        known = (online, self.forecast.histories, tuning, *self._blind(now_s, tuning))
        if self._expected is None or not _same(known, self._expected_for):
            self._expected = prediction.expect(self.forecast, online, now_s, tuning)
            self._expected_for = known
        return self._expected

    def expected_memory(self, online: Online, now_s: float, tuning: ReclaimTuning) -> dict[str, int]:
        """Return the expected memory by pod, bytes, without the system's: the free memory lacks that already."""
        found = dict(self.expected(online, now_s, tuning).memory_bytes)
        del found[SYSTEM]
        return found

    def advertise(self, picture: Picture, scene: Scene, now_s: float) -> bool:
        """Make a new offer if one is due; return whether it was made.

        An offer is due if the last one is a minute old, if the scene changed, or if use rose. If use fell, the next
        offer waits for the minute, because an offer that is soon withdrawn is of no use.
        """
        self._supply = _supply(picture, scene, self._supply)
        learnt = (observed_s is not None for observed_s in self.forecast.observed)
        blind = self._blind(now_s, scene.tuning)
        known = (scene.online, scene.lendable_milli, scene.most_milli, scene.tuning, *blind, *learnt)
        used = self._used_now()
        kept = scene.box_milli is None or self.capacity.cpu_milli <= scene.box_milli
        stands = kept and _same(known, self._offered_for) and not self._has_risen(used, scene.tuning)
        if stands and 0.0 <= now_s - self._offered_s < ADVERTISED_S:
            return False
        self._offered_for, self._offered_s, self._used = known, now_s, used
        self._offered_by = self.forecast, scene, self._supply
        self.capacity = capacity(
            self.forecast,
            scene.online,
            self._supply,
            now_s,
            scene.tuning,
            previous=self.capacity,
        )
        return True

    def _blind(self, now_s: float, tuning: ReclaimTuning) -> tuple[bool, ...]:
        """Return for each resource whether its readings fail."""
        return tuple(blind_s > 0.0 for blind_s in prediction.blind_for(self.forecast, now_s, tuning))

    def _used_now(self) -> tuple[int, int]:
        """Return the present use of all online pods and the system, milli-CPU and bytes."""
        latest = self.forecast.latest.values()
        return sum(use.cpu_milli or 0 for use in latest), sum(use.memory_bytes or 0 for use in latest)

    def _has_risen(self, used: tuple[int, int], tuning: ReclaimTuning) -> bool:
        milli, held = (now - then for now, then in zip(used, self._used, strict=True))
        return milli > tuning.dead_band_milli or held > tuning.memory_dead_band


def _says_something(used: Use) -> bool:
    return used.cpu_milli is not None or used.memory_bytes is not None


def _same(one: tuple[object, ...], other: tuple[object, ...]) -> bool:
    """Return whether all parts are identical.

    Comparing equal mappings of a hundred pods costs too much; numbers and flags are compared by value.
    """
    return len(one) == len(other) and all(
        a is b or (isinstance(a, bool | int) and a == b) for a, b in zip(one, other, strict=True)
    )


def _supply(picture: Picture, scene: Scene, known: Supply) -> Supply:
    """Return the node's resources. Machine memory or kubepods' limit that could not be read keeps its last value.

    If kubepods' limit was never read it is unknown, and nothing is left below it.
    """
    node, kubepods = picture.node, picture.kubepods
    if node.memory_total:
        known = known._replace(memory_bytes=node.memory_total, watermark_bytes=node.watermark)
    if kubepods is not None and kubepods.memory is not None:
        known = known._replace(kubepods_limit=kubepods.memory.limit)
    return known._replace(
        cpu_milli=scene.lendable_milli,
        box_milli=scene.box_milli,
        most_milli=scene.most_milli,
        host_groups=len(picture.host_groups),
    )
