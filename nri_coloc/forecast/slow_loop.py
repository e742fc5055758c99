"""Run the slow loop: every few seconds take a snapshot of the node, and derive memory limits and the offer from it.

The snapshot is taken in slices of about half a millisecond with a pause after each. In the pause a hook gets the
interpreter's lock. Nothing is written here: the worker of `BoxMemory` writes the memory limits, and `Offer` holds the
offer.

Nothing follows from a snapshot until the runtime has sent its list. Use of unknown pods would count as the system's, or
not at all.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from threading import Event, Thread
from typing import Final, Protocol

from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.readings import NodeReading, Picture
from nri_coloc.core.report import Report
from nri_coloc.core.settings import ReclaimTuning
from nri_coloc.core.state import RECLAIM, SHARE, NodeState
from nri_coloc.core.workload import QoSClass
from nri_coloc.forecast import sharing_cost
from nri_coloc.forecast.forecast_file import ForecastFile
from nri_coloc.forecast.node_snapshots import NodeSnapshots
from nri_coloc.forecast.offer import Offer, Online, Scene
from nri_coloc.placing import tiers
from nri_coloc.placing.node import Node

PERIOD_S: Final = 5.0
SOON_S: Final = 1.0
"""Seconds after a first snapshot, which shows no rates, and after a failure."""

LONGEST_S: Final = 30.0
COST_SHARE: Final = 0.001
"""Part of a core. On a node of many pods the period stretches up to the longest, so that the loop costs no more."""

SLICE_PAUSE_S: Final = 0.002
ENDS_WITHIN_S: Final = 1.0


class SharingCounters:
    """Counts the cost of sharing for each class, from every whole snapshot.

    Labels are classes and the operator's names of pools, never a pod: their number is bounded.
    """

    def __init__(self, report: Report) -> None:
        self._metrics = report.metrics
        self._before: Picture | None = None

    def turn(self, picture: Picture, state: NodeState) -> None:
        """Count the growth since the last whole snapshot."""
        before, self._before = self._before, picture
        # the part that distinguishes groups of one pool may be a pod's label, and becomes no label here
        pools = {a.id: (a.qos.value, a.pool.partition("/")[0]) for a in state.containers.values()}
        self._metrics.working_sets(sharing_cost.held(picture.containers, pools))
        if before is None:
            return
        classes = {pod_id: place.wish.qos.value for pod_id, place in state.pods.items()}
        groups = dict.fromkeys(picture.host_groups, QoSClass.RECLAIMED.value)
        for labels, felt in sharing_cost.of_containers(before.containers, picture.containers, pools).items():
            self._metrics.containers_felt(*labels, felt)
        felt_by = sharing_cost.of_pods(
            {**before.pods, **before.host_groups},
            {**picture.pods, **picture.host_groups},
            {**classes, **groups},
        )
        for qos, felt in felt_by.items():
            self._metrics.pods_felt(qos, felt)


Listen = Callable[[Picture | None, Picture, NodeState], Iterator[None]]


class ReclaimMemory(Protocol):
    """The memory of the reclaim cgroups, set from each snapshot.

    headroom_bytes, headroom_by_node: memory that may be lent, of the node and by NUMA node.
    """

    @property
    def headroom_bytes(self) -> int: ...

    @property
    def headroom_by_node(self) -> Mapping[int, int]: ...

    def turn(self, picture: Picture, state: NodeState, expected: Mapping[str, int]) -> None: ...


class Conclusions:
    """The memory of the reclaim cgroups and the offer, both from the node's snapshots; for the loop's thread.

    offer: any thread may read it.
    file: keeps the learnt histories across restarts.
    wall: returns seconds since 1970.
    """

    def __init__(
        self,
        memory: ReclaimMemory,
        file: ForecastFile,
        report: Report,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.offer = Offer()
        self._memory = memory
        self._file = file
        self._metrics = report.metrics
        self._wall = wall

    def resume(self, tuning: ReclaimTuning) -> None:
        """Load the learnt histories."""
        self.offer.resume(self._file.load(self._wall(), tuning))

    def save(self) -> None:
        """Save the learnt histories."""
        self._file.save(self.offer.forecast, self._wall())

    def draw(self, before: Picture | None, picture: Picture, state: NodeState, scene: Scene) -> None:
        """Learn the use between two snapshots, set the memory of the reclaim cgroups, and make an offer."""
        wall_s, online, tuning = self._wall(), scene.online, scene.tuning
        self.offer.saw(before, picture, online, wall_s, tuning)
        # before the offer: no reader may see an offer beside an unknown headroom
        self._memory.turn(picture, state, self.offer.expected_memory(online, wall_s, tuning))
        if self.offer.advertise(picture, scene, wall_s):
            offer = self.offer.capacity
            self._metrics.advertised(offer.cpu_milli, offer.memory_bytes)

    def end_turn(self, took_s: float) -> None:
        """Save the histories if that is due, and count the turn's snapshot. `took_s`: its duration, seconds."""
        self._file.save_if_due(self.offer.forecast, self._wall())
        self._metrics.surveyed(took_s, self._memory.headroom_bytes, self._memory.headroom_by_node)


class Survey:
    """The slow loop's thread.

    picture: the newest snapshot; any thread may read it.
    looked_at: when the last turn ended, monotonic seconds; any thread may read it.
    listen: chooses from the last two snapshots the tasks whose run-queue delay the fast loop reads, in slices.
    """

    def __init__(
        self,
        node: Node,
        snapshots: NodeSnapshots,
        conclusions: Conclusions,
        report: Report,
        *,
        listen: Listen,
    ) -> None:
        self.picture: Picture | None = None
        self.looked_at = 0.0
        self.offer = conclusions.offer
        self._conclusions = conclusions
        self._listen = listen
        self._node = node
        self._snapshots = snapshots
        self._report = report
        self._former: Picture | None = None
        self._sharing = SharingCounters(report)
        self._ending = Event()
        self._woken = Event()
        self._thread = Thread(target=self._run, name="survey", daemon=True)

    def start(self) -> None:
        """Load the learnt histories and start the loop."""
        self._thread.start()

    def look_now(self) -> None:
        """Take a snapshot at once: the offer has changed with the settings."""
        self._woken.set()

    def stop(self) -> None:
        """End at the next slice and save the learnt histories; limits stay."""
        self._ending.set()
        self._woken.set()
        if self._thread.is_alive():
            self._thread.join(ENDS_WITHIN_S)

    def _run(self) -> None:
        self._conclusions.resume(self._node.tuning.reclaim)
        while not self._ending.is_set():
            try:
                pause_s = self.turn()
            except Exception as error:  # the loop must outlive any error of one turn
                self._report.log.exception("a turn of the slow loop failed", exc_info=error)
                pause_s = SOON_S
            self._woken.wait(pause_s)
            self._woken.clear()
        self._conclusions.save()

    def turn(self) -> float:
        """Take a snapshot, learn, decide and pass the results on; return the seconds to the next turn."""
        told, state, tuning = self._node.told, self._node.state, self._node.tuning.reclaim
        began, before = time.thread_time(), self._former
        lendable = tiers.lendable(state.pools, tuning)
        picture = self._look(state, lendable) if tuning.enabled else _nothing(time.monotonic())
        if picture is None:
            return 0.0
        self.picture, self._former = picture, picture if told else None
        if told or not tuning.enabled:
            online = self._snapshots.online(state, lendable)
            self._conclusions.draw(before, picture, state, _scene(state, online, tuning))
        if self._snapshots.is_whole:
            self._sharing.turn(picture, state)
        for _ in self._listen(before, picture, state):
            if self._ending.wait(SLICE_PAUSE_S):
                break
        self._conclusions.end_turn(picture.took_s)
        self.looked_at = time.monotonic()
        cost = time.thread_time() - began
        return SOON_S if before is None else min(max(PERIOD_S, cost / COST_SHARE), LONGEST_S)

    def _look(self, state: NodeState, lendable: CPUMask) -> Picture | None:
        """Take a snapshot, with a pause for hooks after each slice; None at the end of the daemon."""
        for picture in self._snapshots.slices(state, lendable):
            if picture is not None:
                return picture
            if self._ending.wait(SLICE_PAUSE_S):
                break
        return None


def _scene(state: NodeState, online: Online, tuning: ReclaimTuning) -> Scene:
    """Return the facts of an offer. If pools are sized by load, the reclaim pool has CPUs of its own."""
    lendable = 1000 * tiers.lendable(state.pools, tuning).bit_count()
    apart = tuning.partition and SHARE in state.pools.counts
    box = 1000 * state.pools.reclaim.bit_count() if apart else None
    most = 1000 * tiers.bounds(state.pools, RECLAIM).maximum or None
    return Scene(online, lendable, tuning, box, most)


def _nothing(now: float) -> Picture:
    """Return an empty snapshot: while nothing is lent, nothing is measured."""
    return Picture(now, NodeReading(now))
