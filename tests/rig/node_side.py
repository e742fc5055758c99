"""The daemon's side of the second socket, played by a test."""

from collections.abc import Callable

from nri_coloc.core.pod_facts import PodFacts
from nri_coloc.kubernetes.publication import State


class NodeSide:
    """A node whose state a test gives. `facts`: all facts about pods, after each change of them."""

    def __init__(self, read: Callable[[], State]) -> None:
        self.facts: list[PodFacts] = []
        self._read = read

    def state(self) -> State:
        """Return the node's state now."""
        return self._read()

    def told(self, facts: PodFacts) -> None:
        """Take all facts about pods."""
        self.facts.append(facts)
