"""The slow loop: every few seconds a full picture of the node, and what follows from it for memory and for schedulers.

The picture is taken in slices of about half a millisecond with a pause after each, in which a hook gets the
interpreter's lock. Nothing is written here: what the box's memory may be goes to `BoxMemory`, whose worker
writes, and what the node may advertise is `Outlook`'s. One picture a minute has everything, for the metrics; what is
decided here is decided by pods' CPU time and memory.

Until the runtime has told who there is nothing follows from a picture: what pods use that nobody knows of would be the
system's, or nobody's.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from threading import Event, Thread
from typing import Final

from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.readings import NodeReading, Picture
from nri_coloc.core.settings import ReclaimTuning
from nri_coloc.core.state import RECLAIM, SHARE, NodeState
from nri_coloc.daemon import claimants, watched
from nri_coloc.daemon.box_memory import BoxMemory
from nri_coloc.daemon.forecast_file import ForecastFile
from nri_coloc.daemon.node import Node
from nri_coloc.daemon.outlook import Online, Outlook, Scene
from nri_coloc.daemon.report import Report
from nri_coloc.daemon.state_folder import TRIED_EVERY_S
from nri_coloc.daemon.tolls import Tolls
from nri_coloc.forecast.snapshot import Paths, PictureTaker
from nri_coloc.placing import tiers, whereabouts

PERIOD_S: Final = 5.0
SOON_S: Final = 1.0
"""After a picture with none before it to tell rates, and after a failure."""

LONGEST_S: Final = 30.0
COST_SHARE: Final = 0.001
"""Of a core, by which the period stretches on a node of many pods, up to the longest."""

SLICE_PAUSE_S: Final = 0.002
EVERY_WHOLE: Final = 12
"""Pictures between two that have containers in them, and of pods their I/O and stalls: a minute. Metrics show these."""

SAVED_EVERY_S: Final = 600.0
"""A restart loses as much of what was learnt; a history fades by half in hours."""

ENDS_WITHIN_S: Final = 1.0


Listen = Callable[[Picture | None, Picture, NodeState], Iterator[None]]


class Survey:
    """The slow loop's thread.

    picture: the newest; may be read from any thread.
    looked_at: when the last turn ended, monotonic seconds; may be read from any thread.
    host_groups: returns the reclaimed cgroups outside Kubernetes.
    listen: chooses from the last two pictures the tasks whose run-queue delay the fast loop reads, in slices.
    wall: returns seconds since 1970.
    """

    def __init__(
        self,
        node: Node,
        taker: PictureTaker,
        memory: BoxMemory,
        file: ForecastFile,
        report: Report,
        *,
        host_groups: Callable[[], tuple[str, ...]],
        listen: Listen,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.picture: Picture | None = None
        self.looked_at = 0.0
        self.outlook = Outlook()
        self.memory = memory
        self._wall = wall
        self._host_groups = host_groups
        self._listen = listen
        self._node = node
        self._taker = taker
        self._file = file
        self._report = report
        self._former: Picture | None = None
        self._online: tuple[object, object, CPUMask, Online] = (None, None, 0, {})
        self._tolls = Tolls(report)
        self._turns = 0
        self._saved_at = 0.0
        self._ending = Event()
        self._woken = Event()
        self._thread = Thread(target=self._run, name="survey", daemon=True)

    def start(self) -> None:
        """Take up what was learnt before and begin to look."""
        self._thread.start()

    def look_now(self) -> None:
        """Take a picture at once: what is offered has changed with the settings."""
        self._woken.set()

    def stop(self) -> None:
        """End at the next slice and save what was learnt; limits stay."""
        self._ending.set()
        self._woken.set()
        if self._thread.is_alive():
            self._thread.join(ENDS_WITHIN_S)

    def _run(self) -> None:
        self.outlook.resume(self._file.load(self._wall(), self._node.tuning.reclaim))
        self._saved_at = time.monotonic()
        while not self._ending.is_set():
            try:
                pause_s = self.turn()
            except Exception as error:  # the loop must outlive whatever one turn meets
                self._report.log.exception("a turn of the slow loop failed", exc_info=error)
                pause_s = SOON_S
            self._woken.wait(pause_s)
            self._woken.clear()
        self._save()

    def turn(self) -> float:
        """Look, learn, decide, hand over; returns the seconds to the next turn."""
        told, state, tuning = self._node.told, self._node.state, self._node.tuning.reclaim
        began, before = time.thread_time(), self._former
        lendable = whereabouts.lendable(state.pools, tuning)
        picture = self._look(state, lendable) if tuning.enabled else _nothing(time.monotonic())
        if picture is None:
            return 0.0
        self.picture, self._former = picture, picture if told else None
        if told or not tuning.enabled:
            self._decide(before, picture, state, _scene(state, self._online_of(state, lendable), tuning))
        if not self._turns % EVERY_WHOLE:
            self._tolls.turn(picture, state)
        for _ in self._listen(before, picture, state):
            if self._ending.wait(SLICE_PAUSE_S):
                break
        self._keep()
        self.looked_at = time.monotonic()
        cost = time.thread_time() - began
        self._report.metrics.surveyed(
            picture.took_s, self.memory.headroom_bytes, self.memory.headroom_by_node
        )
        return SOON_S if before is None else min(max(PERIOD_S, cost / COST_SHARE), LONGEST_S)

    def _decide(self, before: Picture | None, picture: Picture, state: NodeState, scene: Scene) -> None:
        """Learn what was used between two pictures, bound the box's memory, make an offer."""
        wall_s, online, tuning = self._wall(), scene.online, scene.tuning
        self.outlook.saw(before, picture, online, wall_s, tuning)
        # before the offer: nobody shall see one beside a headroom that is not known
        self.memory.turn(picture, state, self.outlook.expected_memory(online, wall_s, tuning))
        if self.outlook.advertise(picture, scene, wall_s):
            offer = self.outlook.capacity
            self._report.metrics.advertised(offer.cpu_milli, offer.memory_bytes)

    def _look(self, state: NodeState, lendable: CPUMask) -> Picture | None:
        """Take a picture, hooks first after each slice; None at the end of the daemon."""
        groups = {path: path for path in self._host_groups()}
        subjects = watched.with_kubepods(watched.subjects(state, lendable, groups), self._taker.layout)
        self._turns += 1
        if self._turns % EVERY_WHOLE:
            shown = _lent_to(self._online_of(state, lendable), subjects.containers)
            subjects = replace(subjects, containers=shown, amounts_only=True)
        for picture in self._taker.slices(subjects):
            if picture is not None:
                nobody = not subjects.kubepods and not subjects.pods
                return watched.without_pods(picture) if nobody else picture
            if self._ending.wait(SLICE_PAUSE_S):
                break
        return None

    def _online_of(self, state: NodeState, lendable: CPUMask) -> Online:
        """Return the online pods, the same mapping until somebody comes or goes, or has CPUs of its own."""
        owned = whereabouts.owned(state.pools, lendable)
        pods, containers, known, online = self._online
        if pods is not state.pods or containers is not state.containers or known != owned:
            online = claimants.online(state, lendable, self._node.memory_bytes)
            self._online = (state.pods, state.containers, owned, online)
        return online

    def _keep(self) -> None:
        pause_s = TRIED_EVERY_S if self._file.problem else SAVED_EVERY_S
        if time.monotonic() - self._saved_at >= pause_s:
            self._save()

    def _save(self) -> None:
        """Save what was learnt; nothing learnt is no reason to overwrite what there was."""
        self._saved_at = time.monotonic()
        if self.outlook.forecast.histories:
            self._file.save(self.outlook.forecast, self._wall())


def _scene(state: NodeState, online: Online, tuning: ReclaimTuning) -> Scene:
    """Return what an offer is made for; pools that are sized by load leave the box CPUs of its own."""
    lendable = 1000 * whereabouts.lendable(state.pools, tuning).bit_count()
    apart = tuning.partition and SHARE in state.pools.counts
    box = 1000 * state.pools.reclaim.bit_count() if apart else None
    most = 1000 * tiers.bounds(state.pools, RECLAIM).maximum or None
    return Scene(online, lendable, tuning, box, most)


def _lent_to(online: Online, containers: Paths) -> Paths:
    """Return those containers whose use is not their pods' own: each picture shows them."""
    lent_to = (one for pod in online.values() for one in pod.lent_to)
    return {one: containers[one] for one in lent_to if one in containers}


def _nothing(now: float) -> Picture:
    """Return a picture of nothing: while nothing is lent, nothing is measured."""
    return Picture(now, NodeReading(now))
