"""Every call that the runtime makes to a plugin, with its messages. Tables only."""

from typing import Any, NamedTuple

from google.protobuf.message import Message

from nri_coloc._pb import nri_pb2, told_pb2
from nri_coloc.nri.subscription import HookKind

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
