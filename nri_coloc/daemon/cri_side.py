"""The runtime through CRI: its list, for the comparison with Synchronize, and the relay's one call.

The client (and with it gRPC, fifteen megabytes) is made when it is first needed.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nri_coloc.cri.client import CriClient


class CriSide:
    """Raises ColocError while CRI cannot be asked."""

    def __init__(self, socket_path: str) -> None:
        self._socket_path = socket_path
        self._client: CriClient | None = None

    def states(self) -> Mapping[str, str]:
        """Return every container's state by id."""
        return {k: facts.state for k, facts in self._connected().list_containers().items()}

    def push(self, container_id: str, cpus: str) -> None:
        """Have the runtime's spec of a container name these CPUs; without a deadline."""
        self._connected().update_resources(container_id, cpus=cpus)

    def _connected(self) -> "CriClient":
        if self._client is None:
            from nri_coloc.cri.client import CriClient

            self._client = CriClient(self._socket_path)
        return self._client
