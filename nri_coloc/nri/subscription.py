"""Events: their names, and the mask by which a plugin subscribes to them.

Bit n - 1 of the mask stands for event n. Two values are traps: a bit that the runtime does not know
makes it drop the plugin, and zero means "everything", which from 0.10 on includes validation; a
plugin that subscribes to that and does not answer it makes every container creation fail.
"""

from enum import StrEnum

from nri_coloc._pb import nri_pb2
from nri_coloc.nri import version as versions

# What every version accepts: events 1 to 11.
ALWAYS_VALID = 0x07FF


class HookKind(StrEnum):
    """The value is the name of the dedicated call. An empty answer is valid for every one of them."""

    RUN_POD_SANDBOX = "RunPodSandbox"
    STOP_POD_SANDBOX = "StopPodSandbox"
    REMOVE_POD_SANDBOX = "RemovePodSandbox"
    CREATE_CONTAINER = "CreateContainer"
    POST_CREATE_CONTAINER = "PostCreateContainer"
    START_CONTAINER = "StartContainer"
    POST_START_CONTAINER = "PostStartContainer"
    UPDATE_CONTAINER = "UpdateContainer"
    POST_UPDATE_CONTAINER = "PostUpdateContainer"
    STOP_CONTAINER = "StopContainer"
    REMOVE_CONTAINER = "RemoveContainer"
    UPDATE_POD_SANDBOX = "UpdatePodSandbox"
    POST_UPDATE_POD_SANDBOX = "PostUpdatePodSandbox"

    @property
    def event(self) -> int:
        """The number of the event on the wire."""
        return nri_pb2.Event.Value(self.name)

    @property
    def about_pod(self) -> bool:
        """Whether the hook concerns a pod and carries no container."""
        return self.value.endswith("PodSandbox")

    @property
    def carries_resources(self) -> bool:
        return self in (HookKind.UPDATE_CONTAINER, HookKind.UPDATE_POD_SANDBOX)

    @property
    def by_state_change(self) -> bool:
        """Whether a runtime may send it as StateChange; the others always had calls of their own."""
        return self not in _NEVER_BY_STATE_CHANGE


_NEVER_BY_STATE_CHANGE = frozenset(
    (
        HookKind.CREATE_CONTAINER,
        HookKind.UPDATE_CONTAINER,
        HookKind.STOP_CONTAINER,
        HookKind.UPDATE_POD_SANDBOX,
    )
)
_SINCE_POD_UPDATES = frozenset((HookKind.UPDATE_POD_SANDBOX, HookKind.POST_UPDATE_POD_SANDBOX))


def mask(version: versions.NriVersion) -> int:
    """Every event that a runtime of this version can send, except validation."""
    if not versions.has_pod_updates(version):
        return ALWAYS_VALID
    return ALWAYS_VALID | sum(1 << (kind.event - 1) for kind in _SINCE_POD_UPDATES)
