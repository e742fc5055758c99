"""Return the offer and the headroom for `/v1/capacity` and for the companion, from the current immutable values."""

import time
from typing import Any

from nri_coloc.core.lending import Binding, Capacity
from nri_coloc.core.readings import Picture
from nri_coloc.forecast import capacity
from nri_coloc.forecast.slow_loop import Survey
from nri_coloc.lending.loop import Lending
from nri_coloc.memory.bounds import BoxMemory
from nri_coloc.memory.headroom import MemoryHeadroom
from nri_coloc.placing.node import Node
from nri_coloc.service.audit import timestamp
from nri_coloc.service.lending_clock import LendingClock
from nri_coloc.service.new_pods import NewPods


class OfferView:
    """The offer as schedulers may use it now."""

    def __init__(
        self,
        node: Node,
        *,
        clock: LendingClock,
        lending: Lending,
        survey: Survey,
        memory: BoxMemory,
        new_pods: NewPods,
    ) -> None:
        self._node = node
        self._clock = clock
        self._lending = lending
        self._survey = survey
        self._memory = memory
        self._new_pods = new_pods

    def body(self) -> dict[str, Any]:
        """Return the body of `/v1/capacity`: the offer and the headroom, milli-CPU and bytes.

        `at` is the time of the newest snapshot.
        """
        now, survey = self._lending.headroom, self._survey
        withheld = self._withheld()
        offer = survey.offer.capacity if withheld is None else withheld
        memory = self._memory.headroom
        reason, because = _reason(offer, memory) if withheld is None else (offer.binding, offer.because)
        return {
            "cpu_milli": offer.cpu_milli,
            "memory_bytes": offer.memory_bytes,
            "headroom_cpu_milli": now.cpu_milli,
            "headroom_memory_bytes": self._memory.headroom_bytes,
            "online_cpu_milli": now.online_cpu_milli,
            "reason": reason.value,
            "because": because,
            "at": timestamp(time.time_ns() - _ns_since(survey.picture)),
        }

    def _withheld(self) -> Capacity | None:
        """Return the capacity that replaces the offer; None while the offer holds.

        An offer is made with a snapshot. It must not be used after lending was paused, before the runtime's list
        showed the node's pods, or while a shortage closes the node.
        """
        tuning = self._node.tuning.reclaim
        if not tuning.enabled:
            return None
        if tuning.paused:
            return capacity.paused(tuning)
        if not tuning.offer and self._node.told:
            return Capacity(binding=Binding.SCHEDULE, because=self._clock.lending.because)
        if not self._node.told:
            return capacity.untold()
        closing = self._new_pods.closing(time.monotonic())
        if closing is None:
            return None
        return Capacity(binding=closing.reason, because=f"nothing is offered: {closing.because}")


def _reason(offer: Capacity, memory: MemoryHeadroom | None) -> tuple[Binding, str]:
    """Return the reason for the offer. An unknown headroom must not look like a full node's."""
    if memory is not None or offer.binding in (Binding.DISABLED, Binding.PAUSED):
        return offer.binding, offer.because
    unknown = "lendable memory is unknown: memory of the node or of its pods could not be read"
    return Binding.NOT_MEASURED, f"{offer.because}; {unknown}" if offer.because else unknown


def _ns_since(picture: Picture | None) -> int:
    return 0 if picture is None else max(0, time.monotonic_ns() - int(picture.at * 1e9))
