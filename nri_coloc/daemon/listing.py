"""CRI's own list, for the comparison with Synchronize; the client is made when it is first needed."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nri_coloc.cri.client import CriClient


class CriListing:
    """States by container id; raises ColocError while CRI cannot be asked."""

    def __init__(self, socket_path: str) -> None:
        self._socket_path = socket_path
        self._client: CriClient | None = None

    def states(self) -> Mapping[str, str]:
        """Return every container's state by id."""
        if self._client is None:
            from nri_coloc.cri.client import CriClient

            self._client = CriClient(self._socket_path)
        return {k: facts.state for k, facts in self._client.list_containers().items()}
