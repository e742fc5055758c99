"""Write the figures for people into the node's ColocationNode object (`kubectl get colocationnodes`).

They are not on the Node object, because each change of a Node is sent to all watchers of nodes.
"""

import random
from typing import Any

from nri_coloc.core.backoff import Backoff
from nri_coloc.kubernetes.api import ApiError, ApiRefused
from nri_coloc.kubernetes.colocation_node import ColocationNode, problem
from nri_coloc.kubernetes.presets import Amounts
from nri_coloc.kubernetes.publication import SUMMARY_S, State


class Figures:
    """The figures of one node, written once in five minutes at most if they changed.

    The companion has no right to read the object. So unchanged figures are written again five minutes after the last
    write: an object that was deleted returns. The API server does not store a write that changes nothing.

    problem: why the last write failed, "" if it succeeded.
    """

    def __init__(self, object_: ColocationNode) -> None:
        self.problem = ""
        self._object = object_
        self._written: dict[str, Any] | None = None
        self._change_s = self._repeat_s = 0.0
        self._backoff = Backoff(random.random, SUMMARY_S, SUMMARY_S)

    def turn(self, state: State, now_s: float) -> None:
        """Write the figures if that is due. A failure is no more than a later write."""
        found = summary(state)
        is_changed = found != self._written
        if now_s < (self._change_s if is_changed else self._repeat_s):
            return
        try:
            self._object.write({"summary": found})
        except ApiError as error:
            self.problem = problem(error)
            asked_s = error.retry_after_s if isinstance(error, ApiRefused) else 0.0
            self._change_s = self._repeat_s = now_s + self._backoff.failed(asked_s)
            return
        self._written, self.problem = found, ""
        self._repeat_s = now_s + SUMMARY_S
        if is_changed:
            self._change_s = self._repeat_s


def summary(state: State) -> dict[str, Any]:
    """Return `spec.summary` of the object: lending state, offer, headroom, pods by class, and 24 hours of outlook."""
    figures = state.summary
    return {
        "lending": state.lending.value,
        "reason": state.reason,
        "because": state.because,
        "offer": _amounts(state.offer),
        "headroom": _amounts(figures.headroom),
        "pods": {
            "dedicated": figures.dedicated,
            "shared": figures.shared,
            "reclaimed": figures.reclaimed,
            "system": figures.system,
        },
        "outlook": [_amounts(each) for each in figures.outlook],
    }


def _amounts(amounts: Amounts) -> dict[str, int]:
    return {"cpuMilli": amounts.cpu_milli, "memoryBytes": amounts.memory_bytes}
