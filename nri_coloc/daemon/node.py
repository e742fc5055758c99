"""The one holder of the node's state: decide under the mutex, act after it.

Readers take the current value without a lock (it is immutable and the reference is swapped whole). Only `decide`
replaces it, and only when whoever asked can still deliver the answer.
"""

from collections.abc import Callable
from threading import Lock

from nri_coloc.model.decisions import Outcome
from nri_coloc.model.events import Event, Synchronized
from nri_coloc.model.state import NodeState
from nri_coloc.model.tuning import Tuning
from nri_coloc.policy import step as brain

Adopt = Callable[[Outcome], bool]


def always(_outcome: Outcome) -> bool:
    """Adopt whatever was decided."""
    return True


class Node:
    """State, tuning and the machine's memory; `state` and `tuning` are read freely.

    `told`: whether the runtime has ever told who there is. Read before `state` it is true of that one: whoever is told
    of is in it.
    """

    def __init__(self, state: NodeState, tuning: Tuning, memory_bytes: int) -> None:
        self.state = state
        self.tuning = tuning
        self.told = False
        self.memory_bytes = memory_bytes
        self._mutex = Lock()

    def decide(self, event: Event, adopt: Adopt = always) -> Outcome:
        """Run the policy on an event; `adopt` is asked under the mutex whether the outcome still counts."""
        with self._mutex:
            outcome = brain.step(self.state, event, self.tuning)
            if adopt(outcome):
                self.state = outcome.state
                self.told = self.told or isinstance(event, Synchronized)
            return outcome

    def retune(self, event: Event, tuning: Tuning) -> Outcome:
        """Swap the tuning and apply the event that tells the policy so, as one change."""
        with self._mutex:
            outcome = brain.step(self.state, event, tuning)
            self.state, self.tuning = outcome.state, tuning
            return outcome
