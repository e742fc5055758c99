"""Make this program's only three CRI calls: two lists and one update.

It knows gRPC and CRI messages, but no classes, pools or NRI. grpc is imported when the first client is made: it costs
megabytes, which a daemon without a CRI socket does not need. Errors of grpc are raised as our own, with the cause
chained.

The deadline of an update is critical. It is passed on to the runtime, and from there to every NRI plugin's hook. The
runtime ignores it while it waits for its own lock. If it passes meanwhile, the runtime drops every plugin. So no
deadline is shorter than the kubelet's two minutes, and a call in flight is never cancelled while its runtime lives.
Close the client only when no call is in flight.

grpc does not always notice that the runtime has ended: it then waits for ever on a connection without another end (grpc
1.85; a server that is started again beside calls without pause, one call in some thousand). So a call without a
deadline ends when the socket's file is another one.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypedDict, TypeVar, Unpack

from nri_coloc import errors

if TYPE_CHECKING:
    import grpc
    from google.protobuf.message import Message

    from nri_coloc._pb import cri_pb2


Reply = TypeVar("Reply", bound="Message")

SHORTEST_UPDATE_SECONDS: Final = 120.0  # the kubelet's own timeout for this call
LIST_SECONDS: Final = 10.0  # a list takes no lock that a hook could hold
LOOK_SECONDS: Final = 10.0  # between two looks at the socket's file; an update usually takes 0.1 s
_STATES: Final[Mapping[int, str]] = {0: "created", 1: "running", 2: "exited"}  # any other is "unknown"
_CHANNEL_OPTIONS: Final = (
    ("grpc.default_authority", "localhost"),  # a socket's path is no valid authority to Go's HTTP/2
    ("grpc.enable_http_proxy", 0),
    ("grpc.max_receive_message_length", 16 << 20),  # containerd's own limit
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),  # grpc's own default grows to two minutes
    ("grpc.use_local_subchannel_pool", 1),  # a new client does not inherit an old one's back-off
)


class ResourceChanges(TypedDict, total=False):
    """The values of an update; absent, zero and empty all mean "keep"."""

    cpus: str
    mems: str
    shares: int
    quota: int
    period: int
    memory_limit: int
    unified: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ContainerFacts:
    """One container in the runtime's list.

    pod_sandbox_id: the id of its pod's sandbox.
    name: its name in the pod.
    state: created, running, exited or unknown.
    attempt: number of earlier containers with this name in this pod, from 0.
    """

    pod_sandbox_id: str
    name: str
    state: str
    attempt: int = 0


class CriClient:
    """One connection to the runtime. It is made at the first call, and again after each loss."""

    def __init__(self, socket_path: str) -> None:
        import grpc

        from nri_coloc._pb import cri_pb2

        self._path = socket_path
        self._pb = cri_pb2
        self._channel = grpc.insecure_channel(f"unix:{socket_path}", options=_CHANNEL_OPTIONS)

    def list_containers(self) -> Mapping[str, ContainerFacts]:
        """Return all containers by id, in any state."""
        request = self._pb.ListContainersRequest()
        reply = self._call("ListContainers", request, self._pb.ListContainersResponse, LIST_SECONDS)
        return {found.id: self._facts(found) for found in reply.containers}

    def update_resources(
        self, container_id: str, *, timeout: float | None = None, **changes: Unpack[ResourceChanges]
    ) -> None:
        """Change the resources of one container as the kubelet does. Without a timeout (seconds) it waits forever.

        Raises LocalProtocolError if the timeout is so short that the runtime could drop its plugins.
        """
        if timeout is not None and timeout < SHORTEST_UPDATE_SECONDS:
            raise errors.LocalProtocolError(
                f"an update's deadline of {timeout:g} s is below {SHORTEST_UPDATE_SECONDS:g} s: "
                "passing while the runtime is busy, it would disconnect every NRI plugin"
            )
        request = self._pb.UpdateContainerResourcesRequest(container_id=container_id)
        request.linux.CopyFrom(self._resources(**changes))
        self._call("UpdateContainerResources", request, self._pb.UpdateContainerResourcesResponse, timeout)

    def close(self) -> None:
        """Close the connection. This cancels a call in flight: see the module's docstring."""
        self._channel.close()

    def _facts(self, found: "cri_pb2.Container") -> ContainerFacts:
        state = _STATES.get(found.state, "unknown")
        return ContainerFacts(found.pod_sandbox_id, found.metadata.name, state, found.metadata.attempt)

    def _resources(self, **changes: Unpack[ResourceChanges]) -> "cri_pb2.LinuxContainerResources":
        return self._pb.LinuxContainerResources(
            cpuset_cpus=changes.get("cpus", ""),
            cpuset_mems=changes.get("mems", ""),
            cpu_shares=changes.get("shares", 0),
            cpu_quota=changes.get("quota", 0),
            cpu_period=changes.get("period", 0),
            memory_limit_in_bytes=changes.get("memory_limit", 0),
            unified=changes.get("unified", {}),
        )

    def _call(self, method: str, request: "Message", reply_type: type[Reply], timeout: float | None) -> Reply:
        import grpc

        call = self._channel.unary_unary(
            f"/runtime.v1.RuntimeService/{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=reply_type.FromString,
        )
        try:
            if timeout is None:
                return self._answer(call, request)
            reply: Reply = call(request, timeout=timeout)
        except grpc.RpcError as error:
            raise self._as_ours(method, error) from error
        except ValueError as error:  # grpc raises it for a call on a closed channel
            raise errors.TransportLost(f"the connection to {self._path} is closed") from error
        return reply

    def _answer(self, call: "grpc.UnaryUnaryMultiCallable[Message, Reply]", request: "Message") -> Reply:
        """Return the answer of a call without a deadline; TransportLost if its runtime has ended meanwhile."""
        import grpc

        listener = self._listener()
        answer = call.future(request)
        while True:
            try:
                return answer.result(LOOK_SECONDS)
            except grpc.FutureTimeoutError:
                now = self._listener()
                if listener is not None and now not in (None, listener):
                    answer.cancel()
                    because = f"{self._path} is another socket now: its runtime has ended"
                    raise errors.TransportLost(because) from None
                listener = listener or now

    def _listener(self) -> tuple[int, int, int] | None:
        """Return the identity of the socket's file; None if there is none. A runtime makes a new file as it starts."""
        try:
            found = os.stat(self._path)  # noqa: PTH116 - a Path costs more than the call
        except OSError:
            return None
        # a file system may use a number again
        return found.st_dev, found.st_ino, found.st_mtime_ns

    def _as_ours(self, method: str, error: "grpc.RpcError") -> errors.ColocError:
        import grpc

        code, details = error.code(), error.details()
        if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
            return errors.TransportLost(f"{method} on {self._path}: {details}")
        return errors.RuntimeRefused(f"{method} on {self._path}: {code.name}: {details}")
