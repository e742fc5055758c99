"""The runtime's whole list, put together from the parts of its Synchronize.

Each part becomes facts as it comes, and its messages are let go: so a list of any size takes little memory, however
much a pod's author wrote on it.
"""

from dataclasses import replace
from typing import Final

from nri_coloc.core.workload import Container, Pod
from nri_coloc.errors import RemoteProtocolError
from nri_coloc.nri import codec, events

MOST: Final = 65536
"""Pods and containers; a node runs some hundred."""


class Listing:
    """For one Synchronize: `add` its parts, then read `pods` and `containers`."""

    def __init__(self, reader: codec.Reader) -> None:
        self.pods: dict[str, Pod] = {}
        self._containers: list[Container] = []
        self._reader = reader

    def add(self, part: events.Synchronize) -> None:
        """Take one part; raise RemoteProtocolError for a list without end."""
        for pod in part.pods:
            self.pods[pod.id] = self._reader.pod_of(pod)
        # a container may come in an earlier part than its pod
        self._containers += [codec.container_of(container, Pod("")) for container in part.containers]
        if len(self.pods) + len(self._containers) > MOST:
            raise RemoteProtocolError(f"Synchronize lists over {MOST} pods and containers")

    @property
    def containers(self) -> list[Container]:
        """Return the containers, without records that a pod's author may have written."""
        return [self._trusted(container) for container in self._containers]

    def _trusted(self, container: Container) -> Container:
        pod = self.pods.get(container.pod_id)
        forged = pod is not None and pod.claims_record and container.record
        return replace(container, record="") if forged else container
