"""Calls that the runtime makes to a plugin, with their messages, and the mask that subscribes to its events.

Bit n - 1 of the mask stands for event n. Two values are traps: a bit that the runtime does not know makes it drop the
plugin. Zero means "everything", which from 0.10 on includes validation; a plugin that subscribes to validation and
does not answer it makes every container creation fail.
"""

from enum import StrEnum
from typing import Any, NamedTuple

from google.protobuf.message import Message

from nri_coloc._pb import nri_pb2, told_pb2
from nri_coloc.nri import version as versions

# Every version accepts events 1 to 11.
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
    """Return, as bits, every event that a runtime of this version can send, except validation."""
    if not versions.has_pod_updates(version):
        return ALWAYS_VALID
    return ALWAYS_VALID | sum(1 << (kind.event - 1) for kind in _SINCE_POD_UPDATES)


PLUGIN = "nri.pkg.api.v1alpha1.Plugin"
RUNTIME = "nri.pkg.api.v1alpha1.Runtime"


class HookShape(NamedTuple):
    kind: HookKind
    has_container: bool
    has_resources: bool


_SHAPES = {kind: HookShape(kind, not kind.about_pod, kind.carries_resources) for kind in HookKind}

# The same hook comes under its own name or as StateChange, by the runtime's version.
HOOKS_BY_METHOD = {str(kind): shape for kind, shape in _SHAPES.items()}
HOOKS_BY_EVENT = {kind.event: shape for kind, shape in _SHAPES.items() if kind.by_state_change}

# Any: these classes share no base that knows their fields. As a runtime makes them; a plugin reads less.
REQUESTS: dict[str, Any] = {
    "Configure": nri_pb2.ConfigureRequest,
    "Synchronize": nri_pb2.SynchronizeRequest,
    "Shutdown": nri_pb2.Empty,
    "StateChange": nri_pb2.StateChangeEvent,
} | {str(kind): getattr(nri_pb2, f"{kind}Request") for kind in HookKind}

# The same wire as far as it is read; the other requests are read whole.
READ_AS: dict[str, Any] = (
    REQUESTS
    | {"Synchronize": told_pb2.Synchronize, "StateChange": told_pb2.StateChange}
    | {str(kind): told_pb2.PodHook if kind.about_pod else told_pb2.Hook for kind in HookKind}
)

RESPONSES: dict[str, type[Message]] = {
    "Configure": nri_pb2.ConfigureResponse,
    "Synchronize": nri_pb2.SynchronizeResponse,
    "Shutdown": nri_pb2.Empty,
    "StateChange": nri_pb2.Empty,
} | {str(kind): getattr(nri_pb2, f"{kind}Response") for kind in HookKind}
