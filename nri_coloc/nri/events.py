"""What a session tells its owner. Values only; the messages inside are the wire's own."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from nri_coloc._pb import nri_pb2
from nri_coloc.nri.subscription import HookKind
from nri_coloc.nri.version import NriVersion


class Call(NamedTuple):
    """A request of the runtime that waits for exactly one answer."""

    stream: int
    method: str
    timeout_nano: int  # left when the runtime sent it; 0 is unlimited


@dataclass(frozen=True, slots=True)
class Registered:
    """The runtime took our name. Configure may have come before this."""


@dataclass(frozen=True, slots=True)
class RegistrationRefused:
    """The runtime has forgotten us but leaves the socket open: closing it is up to us."""

    code: int
    message: str


@dataclass(frozen=True, slots=True)
class Configured:
    call: Call  # answer with Session.configure_answer
    runtime_name: str
    runtime_version: str
    nri_version: NriVersion
    config: str
    request_timeout_ms: int  # 0 before NRI 0.7


@dataclass(frozen=True, slots=True)
class Synchronize:
    """Everything that exists, after the last part of it has come."""

    call: Call
    pods: Sequence[nri_pb2.PodSandbox]
    containers: Sequence[nri_pb2.Container]


class Hook(NamedTuple):
    """One event of a pod or container; a message that the runtime left out reads as an empty one."""

    call: Call
    kind: HookKind
    pod: nri_pb2.PodSandbox
    container: nri_pb2.Container | None  # None for events of pods
    resources: nri_pb2.LinuxResources | None  # only in the two updates


@dataclass(frozen=True, slots=True)
class RuntimeAnswered:
    """The answer to a call of ours other than the registration."""

    stream: int
    code: int
    message: str
    payload: bytes


Event = Registered | RegistrationRefused | Configured | Synchronize | Hook | RuntimeAnswered
