"""Call the daemon's admin socket for the command line: one connection a call, refusals as our own errors."""

import socket
from typing import Final, TypeVar

import grpc
from google.protobuf.message import Message

from nri_coloc._pb import admin_pb2 as pb
from nri_coloc._pb import admin_pb2_grpc
from nri_coloc.core.texts import plain
from nri_coloc.errors import ColocError, SettingsError

TIMEOUT_S: Final = 45.0
"""Seconds: longer than any order takes in the daemon."""

_OPTIONS: Final = (
    ("grpc.default_authority", "localhost"),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
)

_UNREADABLE: Final = "Exception deserializing response!"
_NO_ANSWER: Final = "Deadline Exceeded"
"""Texts of grpc itself; a daemon that refuses an order sends a sentence of its own."""

Reply = TypeVar("Reply", bound=Message)


class AdminUnreachable(ColocError):
    """No daemon of ours answers at the socket."""


class AdminRefused(ColocError):
    """The daemon refused the order; the text is the daemon's."""


class AdminClient:
    """A client with one method for each call of the admin API. All raise AdminUnreachable and AdminRefused, and
    SettingsError for an argument that is never valid."""

    def __init__(self, path: str, timeout_s: float = TIMEOUT_S) -> None:
        self._path = path
        self._timeout_s = timeout_s

    def pause_lending(self, seconds: int, reason: str) -> pb.PauseLendingResponse:
        """Pause lending for some seconds."""
        request = pb.PauseLendingRequest(seconds=seconds, reason=reason)
        return self._call("PauseLending", request, pb.PauseLendingResponse)

    def resume_lending(self) -> pb.ResumeLendingResponse:
        """End a pause of lending."""
        return self._call("ResumeLending", pb.ResumeLendingRequest(), pb.ResumeLendingResponse)

    def lending_off(self, grace_s: int | None, *, drain: bool) -> pb.LendingOffResponse:
        """Switch lending off; without a grace the daemon chooses it."""
        request = pb.LendingOffRequest(drain=drain, grace_seconds=grace_s)
        return self._call("LendingOff", request, pb.LendingOffResponse)

    def lending_on(self) -> pb.LendingOnResponse:
        """Undo `lending_off`."""
        return self._call("LendingOn", pb.LendingOnRequest(), pb.LendingOnResponse)

    def reload(self) -> pb.ReloadResponse:
        """Make the daemon read its configuration."""
        return self._call("Reload", pb.ReloadRequest(), pb.ReloadResponse)

    def repair(self) -> pb.RepairResponse:
        """Make the daemon check and repair every cgroup."""
        return self._call("Repair", pb.RepairRequest(), pb.RepairResponse)

    def compare(self) -> pb.CompareResponse:
        """Make the daemon compare the runtime's list with its state."""
        return self._call("Compare", pb.CompareRequest(), pb.CompareResponse)

    def evict(self, namespace: str, pod: str, reason: str) -> pb.EvictResponse:
        """Order the eviction of a reclaimed pod, and wait for the result."""
        request = pb.EvictRequest(namespace=namespace, pod=pod, reason=reason)
        return self._call("Evict", request, pb.EvictResponse)

    def _call(self, method: str, request: Message, reply: type[Reply]) -> Reply:
        with grpc.insecure_channel(f"unix:{self._path}", options=_OPTIONS) as channel:
            stub = admin_pb2_grpc.AdminStub(channel)  # type: ignore[no-untyped-call]  # generated
            try:
                found = getattr(stub, method)(request, timeout=self._timeout_s)
            except grpc.RpcError as error:
                raise self._as_ours(error, method) from error
        assert isinstance(found, reply)  # the stub is made from the same contract
        return found

    def _as_ours(self, error: grpc.RpcError, method: str) -> ColocError:
        code, details = error.code(), error.details()
        where = f"the daemon at {self._path}"
        if code is grpc.StatusCode.UNIMPLEMENTED or details == _UNREADABLE:
            return AdminRefused(
                f"{where} has another version of {method}; use the nri-coloc of its own image"
            )
        if details == _NO_ANSWER:
            return AdminUnreachable(
                f"{where} did not answer {method} within {self._timeout_s:g} s; the audit (admin.call) shows "
                "whether the order was carried out"
            )
        if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
            return AdminUnreachable(f"cannot reach the daemon at {self._path}: {self._obstacle()}")
        if code is grpc.StatusCode.INVALID_ARGUMENT:
            return SettingsError(plain(details or code.name))
        return AdminRefused(plain(details or code.name))

    def _obstacle(self) -> str:
        """Return the reason why the socket cannot be reached, in the kernel's words, which are clearer than gRPC's."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.setblocking(False)
            try:
                probe.connect(self._path)
            except OSError as error:
                return f"{error.strerror or error}; is it running, are you root, is this its --admin-socket?"
        return "it closed the connection; only root and the daemon's own user may call it"
