"""Serve the CRI calls that the daemon uses, over gRPC on a Unix socket: two lists, one update, a version.

Like containerd, it answers from the runtime's state and turns the runtime's refusals into gRPC status codes.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import grpc

from nri_coloc._pb import cri_pb2
from nri_coloc.core.workload import Resources
from nri_coloc.errors import RuntimeRefused
from nri_coloc.sim.runtime import Runtime
from nri_coloc.sim.spec import Container, Phase, Pod

THREADS: Final = 4
_STATES: Final = {
    Phase.CREATED: cri_pb2.CONTAINER_CREATED,
    Phase.RUNNING: cri_pb2.CONTAINER_RUNNING,
    Phase.EXITED: cri_pb2.CONTAINER_EXITED,
}

Serve = Callable[[Any, grpc.ServicerContext], Any]


class CriServer:
    """The CRI socket of a simulated runtime; each `listen` creates a new socket."""

    def __init__(self, path: Path, runtime: Runtime) -> None:
        self._path = path
        self._runtime = runtime
        self._server: grpc.Server | None = None

    def listen(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.unlink(missing_ok=True)
        server = grpc.server(ThreadPoolExecutor(THREADS, thread_name_prefix="sim-cri"))
        methods: dict[str, tuple[Serve, Any]] = {
            "Version": (self._version, cri_pb2.VersionRequest),
            "ListPodSandbox": (self._list_pods, cri_pb2.ListPodSandboxRequest),
            "ListContainers": (self._list_containers, cri_pb2.ListContainersRequest),
            "UpdateContainerResources": (self._update, cri_pb2.UpdateContainerResourcesRequest),
        }
        handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            name: grpc.unary_unary_rpc_method_handler(
                serve,
                request_deserializer=request.FromString,
                response_serializer=lambda reply: bytes(reply.SerializeToString()),
            )
            for name, (serve, request) in methods.items()
        }
        service = grpc.method_handlers_generic_handler("runtime.v1.RuntimeService", handlers)
        server.add_generic_rpc_handlers((service,))
        server.add_insecure_port(f"unix:{self._path}")
        server.start()
        self._server = server

    def close(self) -> None:
        """Stop serving at once and remove the socket."""
        if self._server is not None:
            self._server.stop(None).wait()
            self._server = None
        self._path.unlink(missing_ok=True)

    # ---- the methods ----

    def _version(self, _request: Any, _context: grpc.ServicerContext) -> cri_pb2.VersionResponse:
        return cri_pb2.VersionResponse(
            version="0.1.0",
            runtime_name="containerd",
            runtime_version=f"v{self._runtime.version}",
            runtime_api_version="v1",
        )

    def _list_pods(self, _request: Any, _context: grpc.ServicerContext) -> cri_pb2.ListPodSandboxResponse:
        pods = list(self._runtime.pods.values())
        return cri_pb2.ListPodSandboxResponse(items=[_pod(pod) for pod in pods])

    def _list_containers(
        self, _request: Any, _context: grpc.ServicerContext
    ) -> cri_pb2.ListContainersResponse:
        containers = list(self._runtime.containers.values())
        return cri_pb2.ListContainersResponse(containers=[_container(one) for one in containers])

    def _update(
        self, request: cri_pb2.UpdateContainerResourcesRequest, context: grpc.ServicerContext
    ) -> cri_pb2.UpdateContainerResourcesResponse:
        try:
            self._runtime.update(request.container_id, _resources(request.linux), request.linux.unified)
        except RuntimeRefused as error:
            unknown = request.container_id not in self._runtime.containers
            context.abort(grpc.StatusCode.NOT_FOUND if unknown else grpc.StatusCode.UNKNOWN, str(error))
        return cri_pb2.UpdateContainerResourcesResponse()


def _resources(linux: cri_pb2.LinuxContainerResources) -> Resources:
    return Resources(
        shares=linux.cpu_shares or None,
        quota=linux.cpu_quota or None,
        period=linux.cpu_period or None,
        cpus=linux.cpuset_cpus,
        mems=linux.cpuset_mems,
        memory_limit=linux.memory_limit_in_bytes or None,
    )


def _pod(pod: Pod) -> cri_pb2.PodSandbox:
    request = pod.request
    return cri_pb2.PodSandbox(
        id=pod.id,
        metadata=cri_pb2.PodSandboxMetadata(name=request.name, uid=pod.uid, namespace=request.namespace),
        state=cri_pb2.SANDBOX_READY if pod.ready else cri_pb2.SANDBOX_NOTREADY,
        annotations=request.annotations,
        runtime_handler=request.handler,
    )


def _container(container: Container) -> cri_pb2.Container:
    return cri_pb2.Container(
        id=container.id,
        pod_sandbox_id=container.pod.id,
        metadata=cri_pb2.ContainerMetadata(name=container.request.name, attempt=container.attempt),
        state=_STATES[container.phase],
        created_at=container.created_at,
        annotations=container.annotations,
    )
