"""Hold the node's state: decide under the mutex, act after it.

Readers take the current value without a lock, because it is immutable and its reference is replaced as a whole. Only
`decide` and `retune` replace it, and `decide` only if the caller can still deliver the answer.
"""

from collections.abc import Callable
from threading import Lock

from nri_coloc.core import knobs
from nri_coloc.core.decisions import Event, Outcome, Synchronized
from nri_coloc.core.knobs import NOTHING_KNOWN, Capability, Knobs
from nri_coloc.core.settings import Tuning
from nri_coloc.core.state import NodeState
from nri_coloc.placing import step as brain

Adopt = Callable[[Outcome], bool]


def always(_outcome: Outcome) -> bool:
    """Adopt every outcome."""
    return True


class Node:
    """State, settings and capabilities, each an immutable value that any thread may read.

    told: whether the runtime has ever sent its list. Read it before `state`: the list is then in that state.
    can: the control files and calls that the kernel and the connected runtime take.
    memory_bytes: the machine's memory.
    """

    def __init__(self, state: NodeState, tuning: Tuning, memory_bytes: int) -> None:
        self.state = state
        self.tuning = tuning
        self.told = False
        self.can = NOTHING_KNOWN
        self.memory_bytes = memory_bytes
        self._mutex = Lock()

    def decide(self, event: Event, adopt: Adopt = always) -> Outcome:
        """Run the policy on an event and return the outcome.

        adopt: called under the mutex; returns whether the outcome still counts. Only then the state is replaced.
        """
        with self._mutex:
            outcome = brain.step(self.state, event, self.tuning)
            if adopt(outcome):
                self.state = outcome.state
                self.told = self.told or isinstance(event, Synchronized)
            return outcome

    def retune(self, event: Event, tuning: Tuning) -> Outcome:
        """Replace the tuning and apply the event that informs the policy, as one change; return the outcome."""
        with self._mutex:
            outcome = brain.step(self.state, event, tuning)
            self.state, self.tuning = outcome.state, tuning
            return outcome

    def lacking(self, wanted: Knobs) -> Knobs:
        """Return the values among `wanted` that this machine does not take."""
        return knobs.lacking(wanted, self.can)

    def learn(self, can: Capability, instead_of: Capability | None = None) -> None:
        """Replace the known capabilities.

        instead_of: replace them only if these are still the known ones. A thread that read files for a while must not
            overwrite the capabilities of a new connection.
        """
        with self._mutex:
            if instead_of is None or self.can is instead_of:
                self.can = can
