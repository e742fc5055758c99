"""The runtime through CRI: its list, for the comparison with Synchronize, and the relay's one call.

gRPC (fifteen megabytes) is imported when it is first needed. Each call has a client of its own, which costs 2 ms. The
threads of a client that waits for the next call would take 0.08 % of a core for ever.
"""

from collections.abc import Callable, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Final

from nri_coloc.core.knobs import Knobs

if TYPE_CHECKING:
    from nri_coloc.runtime.cri import ContainerFacts, CriClient, ResourceChanges


PATIENCE_S: Final = 120.0
"""Seconds; the kubelet's own timeout. No shorter one is safe (`runtime.cri`)."""


class CriSide:
    """Raises ColocError while CRI cannot be called.

    socket_path: returns the path of the runtime's CRI socket, which a launched plugin learns from its configuration.
    """

    def __init__(self, socket_path: Callable[[], str]) -> None:
        self._socket_path = socket_path

    def states(self) -> Mapping[str, str]:
        """Return every container's state by id."""
        with self._client() as client:
            return states_of(client.list_containers())

    def push(self, container_id: str, changes: Knobs) -> None:
        """Write these values into the runtime's spec of a container; without a deadline."""
        with self._client() as client:
            client.update_resources(container_id, **_asked(changes))

    def put_back(self, container_id: str, changes: Knobs, unified: Mapping[str, str]) -> None:
        """Restore original values in the runtime's spec. The deadline is the kubelet's: an operator may wait."""
        asked: ResourceChanges = {**_asked(changes), "unified": unified}
        with self._client() as client:
            client.update_resources(container_id, timeout=PATIENCE_S, **asked)

    def _client(self) -> "closing[CriClient]":
        from nri_coloc.runtime.cri import CriClient

        return closing(CriClient(self._socket_path()))


def states_of(listed: "Mapping[str, ContainerFacts]") -> Mapping[str, str]:
    """Return listed containers' states by id.

    An attempt that never started is over when the kubelet has made the next one. The runtime may list it as created for
    as long as its pod lives.
    """
    attempts = sorted(listed.values(), key=lambda facts: facts.attempt)
    latest = {(facts.pod_sandbox_id, facts.name): facts.attempt for facts in attempts}

    def is_over(facts: "ContainerFacts") -> bool:
        return facts.state == "created" and facts.attempt < latest[facts.pod_sandbox_id, facts.name]

    return {k: "exited" if is_over(facts) else facts.state for k, facts in listed.items()}


def _asked(changes: Knobs) -> "ResourceChanges":
    wanted: ResourceChanges = {}
    if changes.cpus is not None:
        wanted["cpus"] = changes.cpus
    if changes.mems is not None:
        wanted["mems"] = changes.mems
    if changes.shares is not None:
        wanted["shares"] = changes.shares
    if changes.quota is not None:
        wanted["quota"] = changes.quota
    if changes.period is not None:
        wanted["period"] = changes.period
    if changes.memory_limit is not None:
        wanted["memory_limit"] = changes.memory_limit
    return wanted
