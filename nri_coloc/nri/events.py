"""Events of a session for its owner. Values only; the messages inside are the wire's own."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from nri_coloc._pb import told_pb2
from nri_coloc.nri.calls import HookKind
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
    """A part of everything that exists. `more`: further parts follow, and this one is answered already."""

    call: Call
    pods: Sequence[told_pb2.PodSandbox]
    containers: Sequence[told_pb2.Container]
    more: bool


class Hook(NamedTuple):
    """One event of a pod or container; a message that the runtime left out reads as an empty one."""

    call: Call
    kind: HookKind
    pod: told_pb2.PodSandbox
    container: told_pb2.Container | None  # None for events of pods
    resources: told_pb2.LinuxResources | None  # only in the two updates


@dataclass(frozen=True, slots=True)
class RuntimeAnswered:
    """The answer to a call of ours other than the registration."""

    stream: int
    code: int
    message: str
    payload: bytes


Event = Registered | RegistrationRefused | Configured | Synchronize | Hook | RuntimeAnswered
