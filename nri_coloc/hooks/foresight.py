"""Answers that are known before the decision: a container gets the answer that an equal container got before.

A plain container has no annotation, no record and no CPUs in its spec. In a pool, its answer follows from its pod's
wish, the kubelet's values and the present pools. So an answer is remembered by these and sent at once. The decision is
made right after: 40 of the 77 µs of a creation then come after the answer. If pools change in between and the decision
differs, files correct the values before the first instruction. The same holds for any late answer.
"""

from typing import Any, Final, NamedTuple

from nri_coloc.core.knobs import Capability
from nri_coloc.core.settings import Tuning
from nri_coloc.core.state import NodeState, Pools
from nri_coloc.core.workload import QoSClass, Wish
from nri_coloc.nri import codec
from nri_coloc.nri.events import Hook

LONGEST: Final = 1024
"""Bytes of a container's resources up to which its answer is kept; a pod with many devices has more."""

MOST: Final = 1024
"""Answers kept; a node has a handful of different ones."""

Known = tuple[int, bool, bytes, int | None]


class Terms(NamedTuple):
    """The inputs of an answer besides container and pools: the settings, and the abilities of kernel and runtime."""

    tuning: Tuning
    can: Capability


class Foresight:
    """Holds for one set of pools, one tuning and one runtime; a change of any of them empties it."""

    def __init__(self) -> None:
        self._holds_for: tuple[Pools | None, Tuning | None, Capability | None] = (None, None, None)
        self._answers: dict[Known, tuple[Wish, Any]] = {}

    def answer(self, hook: Hook, state: NodeState, terms: Terms) -> Any | None:
        """Return the answer that an equal container got last, None if it must be decided first."""
        if not self._holds(state.pools, terms):
            return None
        known = self._key(hook, state)
        found = self._answers.get(known) if known is not None else None
        # the id in the key is the wish's as long as an object holds it, as this one does
        return found[1] if found is not None else None

    def learn(self, hook: Hook, before: NodeState, after: NodeState, terms: Terms, answer: Any) -> None:
        """Remember a decision's answer if the next equal container will get it too."""
        tuning = terms.tuning
        if tuning.strict or tuning.observe or tuning.kept_by_kubelet or after.pools.plan:
            return
        if before.pools is not after.pools or names_cpus(hook):
            return
        if not self._holds(after.pools, terms) or len(self._answers) >= MOST:
            self._holds_for, self._answers = (after.pools, *terms), {}
        known = self._key(hook, before)
        if known is not None:
            self._answers[known] = (before.pods[hook.pod.id].wish, answer)

    def _holds(self, pools: Pools, terms: Terms) -> bool:
        """Return whether the answers hold for these pools and terms.

        Compared by identity: equal values of other identity are rare, and a comparison is expensive.
        """
        of_pools, of_tuning, of_can = self._holds_for
        return of_pools is pools and of_tuning is terms.tuning and of_can is terms.can

    @staticmethod
    def _key(hook: Hook, state: NodeState) -> Known | None:
        container, place = hook.container, state.pods.get(hook.pod.id)
        if container is None or place is None or not place.wish.plain:
            return None
        if place.wish.qos is QoSClass.DEDICATED or container.id in state.containers:
            return None
        if codec.has_record(container):
            return None
        linux = container.linux
        resources = linux.resources.SerializeToString()
        if len(resources) > LONGEST:
            return None
        oom = linux.oom_score_adj.value if linux.HasField("oom_score_adj") else None
        return id(place.wish), place.boxed, resources, oom


def names_cpus(hook: Hook) -> bool:
    """Return whether a container's spec names CPUs.

    No answer is learnt from such a container, and so none is found for it: its resources are in the key.
    """
    return hook.container is not None and bool(hook.container.linux.resources.cpu.cpus)
