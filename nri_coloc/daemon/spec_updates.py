"""The two calls that change a runtime's stored spec, and which of them is safe here.

NRI's own UpdateContainers can wedge containerd for good before NRI 0.12.1 (nri-protocol §6.2): there we call CRI, as
the kubelet does. From then on the native call serves, also where there is no CRI socket for us.
"""

from typing import Protocol

from nri_coloc._pb import nri_pb2
from nri_coloc.knobs import adjustment
from nri_coloc.knobs.capability import NOTHING_KNOWN
from nri_coloc.model.knobs import Knobs


class Relay(Protocol):
    """What is called of CRI."""

    def push(self, container_id: str, changes: Knobs) -> None: ...


class Native(Protocol):
    """What is called over NRI's own connection."""

    @property
    def updates_are_safe(self) -> bool: ...

    def update_container(self, update: nri_pb2.ContainerUpdate) -> None: ...


class SpecUpdates:
    """Raises ColocError for whatever keeps a change from the runtime. `native`: None until there is one."""

    def __init__(self, relay: Relay) -> None:
        self.native: Native | None = None
        self._relay = relay

    def push(self, container_id: str, changes: Knobs) -> None:
        """Change one container's spec, and its cgroup if it runs."""
        native = self.native
        if native is None or not native.updates_are_safe:
            self._relay.push(container_id, changes)
            return
        # nothing of `unified` is pushed, so no capability of the kernel takes part
        update = adjustment.update(container_id, changes, NOTHING_KNOWN)
        assert update is not None  # there is something to change
        update.ignore_failure = False  # or a failure would look like success (§5.4)
        native.update_container(update)
