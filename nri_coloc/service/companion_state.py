"""The daemon's state for the companion: the offer as `/v1/capacity` has it, and whether new reclaimed pods may come."""

import time
from collections import Counter
from math import inf

from nri_coloc.core.decisions import FactsReported
from nri_coloc.core.lending import Binding
from nri_coloc.core.pod_facts import PodFacts
from nri_coloc.core.seams import After, all_of, tell
from nri_coloc.core.workload import QoSClass
from nri_coloc.forecast.capacity import HOUR_S
from nri_coloc.forecast.slow_loop import Survey
from nri_coloc.kubernetes.presets import Amounts
from nri_coloc.kubernetes.publication import SUMMARY_S, State, Summary
from nri_coloc.kubernetes.reporting import Lending
from nri_coloc.placing.node import Node
from nri_coloc.service.lending_clock import LendingClock
from nri_coloc.service.new_pods import NewPods
from nri_coloc.service.node_watch import LendingNow
from nri_coloc.service.offer_view import OfferView


class ClusterSide:
    """The state that the companion reports of this node, and the facts that it reports of pods.

    `state` and `told` belong to the thread of the companion's socket.
    """

    def __init__(
        self,
        node: Node,
        offer: OfferView,
        *,
        clock: LendingClock,
        survey: Survey,
        new_pods: NewPods,
        after: After,
    ) -> None:
        self._node = node
        self._offer = offer
        self._clock = clock
        self._survey = survey
        self._new_pods = new_pods
        self._after = after
        self._outlook: tuple[Amounts, ...] = ()
        self._outlook_until_s = float("-inf")

    def told(self, facts: PodFacts) -> None:
        """Decide by the newest facts about pods."""
        before = self._node.state
        tell(self._after, all_of(self._node.decide(FactsReported(facts)), before))

    def state(self) -> State:
        """Return the node's state now."""
        found = self._offer.body()
        return State(
            age_s=self._age_s(str(found["reason"])),
            lending=self.lending().lending,
            node_state=self._clock.lending.state.value,
            offer=Amounts(found["cpu_milli"], found["memory_bytes"]),
            node=Amounts(1000 * self._node.state.topology.online.bit_count(), self._node.memory_bytes),
            reason=str(found["reason"]),
            because=str(found["because"]),
            summary=self._summary(Amounts(found["headroom_cpu_milli"], found["headroom_memory_bytes"])),
        )

    def _age_s(self, reason: str) -> float:
        """Return the age of the readings behind the offer; infinite without an offer.

        After a restart the offer is 0 until the daemon knows the node. That must not close the node.
        """
        picture = self._survey.picture
        if picture is None or reason == Binding.NOT_MEASURED:
            return inf
        return max(0.0, time.monotonic() - picture.at)

    def lending(self) -> LendingNow:
        """Return the lending state now, and its cause."""
        tuning, clock = self._node.tuning, self._clock.lending
        if tuning.observe:
            return LendingNow(Lending.OFF, "mode is observe")
        if not tuning.reclaim.enabled:
            return LendingNow(Lending.OFF, "reclaim.enabled is false")
        if tuning.reclaim.paused:
            return LendingNow(Lending.OFF, tuning.reclaim.paused)
        if clock.is_open:
            if closing := self._new_pods.closing(time.monotonic()):
                return LendingNow(Lending.COOLING, closing.because)
            return LendingNow(Lending.ON, clock.because)
        if clock.drains:
            return LendingNow(Lending.DRAINING, clock.because)
        is_falling = clock.factor > 0.0
        return LendingNow(Lending.COOLING if is_falling else Lending.OFF, clock.because)

    def _summary(self, headroom: Amounts) -> Summary:
        classes = Counter(place.wish.qos for place in self._node.state.pods.values())
        return Summary(
            headroom=headroom,
            dedicated=classes[QoSClass.DEDICATED],
            shared=classes[QoSClass.SHARED],
            reclaimed=classes[QoSClass.RECLAIMED],
            system=classes[QoSClass.SYSTEM],
            outlook=self._newest_outlook(),
        )

    def _newest_outlook(self) -> tuple[Amounts, ...]:
        """Return the expected offers, computed again as often as a summary is published."""
        now_s = time.monotonic()
        if now_s >= self._outlook_until_s:
            self._outlook = self._computed_outlook()
            self._outlook_until_s = now_s + (SUMMARY_S if self._outlook else 0.0)
        return self._outlook

    def _computed_outlook(self) -> tuple[Amounts, ...]:
        now_s, found = time.time(), []
        for hour, each in enumerate(self._survey.offer.ahead(now_s)):
            part = self._clock.offer_at(now_s + hour * HOUR_S)
            found.append(Amounts(int(each.cpu_milli * part), int(each.memory_bytes * part)))
        return tuple(found)
