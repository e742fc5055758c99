"""Put the tuning in force: the settings of the file, and over them kubelet, schedule, switch and pause.

A change becomes one `Reconfigured` event, and only affected containers move.
"""

from collections.abc import Callable
from dataclasses import replace
from threading import RLock
from typing import Final

from nri_coloc.core.decisions import Reconfigured
from nri_coloc.core.seams import After, all_of, tell
from nri_coloc.core.settings import Settings, Tuning
from nri_coloc.core.topology import Topology
from nri_coloc.hooks.translation import Translator
from nri_coloc.placing import resynchronisation
from nri_coloc.placing.node import Node
from nri_coloc.service.audit import timestamp
from nri_coloc.service.kubelet_watch import KubeletWatch
from nri_coloc.service.lending_clock import LendingClock

FIXED: Final = {
    "nri_socket": "runtime.nriSocket",
    "cri_socket": "runtime.criSocket",
    "plugin_name": "runtime.pluginName",
    "plugin_index": "runtime.pluginIndex",
    "http": "telemetry.http",
    "audit_ring": "telemetry.auditRing",
}
"""Settings that are fixed for a process, with their keys in the file."""


class Pause:
    """An operator's pause of lending. Belongs to one thread; times are monotonic seconds.

    words: until when and why, for people; "" while lending is not paused.
    """

    def __init__(self) -> None:
        self.words = ""
        self._ends_at = 0.0

    def begin(self, now: float, wall_ns: int, seconds: int, reason: str) -> str:
        """Pause from now on, replacing an earlier pause; return the end as a timestamp."""
        until = timestamp(wall_ns + seconds * 1_000_000_000)
        self._ends_at = now + seconds
        self.words = f"lending is paused until {until}{f': {reason}' if reason else ''}"
        return until

    def end(self) -> bool:
        """Resume lending; return whether it was paused."""
        paused, self.words = bool(self.words), ""
        return paused

    def is_over(self, now: float) -> bool:
        """Return whether a pause has reached its end."""
        return bool(self.words) and now >= self._ends_at

    def over(self, tuning: Tuning) -> Tuning:
        """Return the settings with the pause applied."""
        if not self.words:
            return tuning
        return replace(tuning, reclaim=replace(tuning.reclaim, paused=self.words))


class InForce:
    """The settings in force. Settings that are fixed at the start keep their first values."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def begin_with(self, settings: Settings) -> None:
        """Take the fixed settings too: the daemon has only begun."""
        self.settings = replace(self.settings, **{name: getattr(settings, name) for name in FIXED})

    def put(self, settings: Settings) -> None:
        """Replace all settings except the fixed ones."""
        self.settings = replace(settings, **{name: getattr(self.settings, name) for name in FIXED})

    def fixed_changes(self, settings: Settings) -> list[str]:
        """Return the keys of the file whose new values only a restart puts in force."""
        return [key for name, key in FIXED.items() if getattr(self.settings, name) != getattr(settings, name)]


class Retuning:
    """Settings, kubelet, schedule and pause end in one change of the tuning, under one lock; for every thread.

    in_force: the settings of the file.
    pause: the operator's pause of lending.
    """

    def __init__(
        self,
        in_force: InForce,
        node: Node,
        *,
        kubelet: KubeletWatch,
        clock: LendingClock,
        translator: Translator,
        after: After,
    ) -> None:
        self.in_force = in_force
        self.pause = Pause()
        self._node = node
        self._kubelet = kubelet
        self._clock = clock
        self._translator = translator
        self._after = after
        self._turn = RLock()
        self._has_retuned = False

    @property
    def topology(self) -> Topology:
        """Return the machine as the state has it."""
        return self._node.state.topology

    @property
    def kubelet_problem(self) -> str:
        """Return why the settings and the kubelet's do not go together; "" if they do."""
        return self._kubelet.problem(self._node.tuning)

    def reads_more(self, settings: Settings) -> bool:
        """Read from now on what settings name; return whether that is more of a pod than was kept."""
        return self._translator.read_also(settings.tuning)

    def look(self) -> None:
        """Apply the last change also to containers that a hook placed meanwhile; for the housekeeping loop."""
        if self._has_retuned:  # a hook that was under way then has decided by now
            self._has_retuned = False
            self._catch_up()

    def put(self, topology: Topology | None = None) -> None:
        """Put the settings in force; `topology`: a machine that has changed."""
        with self._turn:
            self._put(topology or self.topology)

    def put_if(self, has_changed: Callable[[], bool]) -> None:
        """Put the settings in force if they have changed, before any other thread sees the change."""
        with self._turn:
            if has_changed():
                self._put(self.topology)

    def _put(self, topology: Topology) -> None:
        tuning = self.pause.over(self._clock.over(self._kubelet.over(self.in_force.settings.tuning)))
        self._reconfigure(self._read_again(topology, tuning), tuning)
        self._catch_up()
        self._has_retuned = True

    def _read_again(self, topology: Topology, tuning: Tuning) -> Reconfigured:
        """Read every wish again under a tuning, and the CPU requests of pods that it needs and that are unknown."""
        known = self._node.state
        state = self._translator.with_requests(known, tuning)
        wishes, pod_wishes = self._translator.wishes_again(state, tuning)
        requests = {
            k: place.pod.cpu_request
            for k, place in state.pods.items()
            if place.pod.cpu_request is not None and place is not known.pods[k]
        }
        return Reconfigured(topology, wishes, pod_wishes, requests)

    def _catch_up(self) -> None:
        """Apply the settings in force to containers and pods that a hook placed by the previous ones.

        Wishes are read before the mutex is taken, so that it is held no longer than for a decision.
        """
        state, tuning = self._node.state, self._node.tuning
        wishes, pod_wishes = self._translator.wishes_again(state, tuning)
        late = {k: wish for k, wish in wishes.items() if wish != state.containers[k].wish}
        late_pods = {k: wish for k, wish in pod_wishes.items() if wish != state.pods[k].wish}
        if late or late_pods:
            self._reconfigure(Reconfigured(state.topology, late, late_pods), tuning)

    def _reconfigure(self, event: Reconfigured, tuning: Tuning) -> None:
        before, observed = self._node.state, self._node.tuning.observe
        outcome = self._node.retune(event, tuning)
        if observed and not tuning.observe:  # an observer has moved no container
            outcome = replace(outcome, moves=resynchronisation.everyone(outcome.state))
        tell(self._after, all_of(outcome, before))
