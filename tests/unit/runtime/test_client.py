"""The daemon's CRI client talks to a CRI server of the test on a real socket."""

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Thread
from typing import Any

import grpc
import pytest

from nri_coloc import errors
from nri_coloc._pb import cri_pb2, cri_pb2_grpc
from nri_coloc.runtime import cri
from nri_coloc.runtime.cri import ContainerFacts, CriClient


class Runtime(cri_pb2_grpc.RuntimeServiceServicer):
    """Answers with the containers of the test, and keeps each update."""

    def __init__(self) -> None:
        self.containers: list[cri_pb2.Container] = []
        self.updates: list[cri_pb2.UpdateContainerResourcesRequest] = []
        self.refusal = grpc.StatusCode.OK
        self.seconds_left: list[float] = []
        self.takes_seconds = 0.0

    def ListContainers(self, request: Any, context: Any):  # noqa: N802 - the wire's name
        return cri_pb2.ListContainersResponse(containers=self.containers)

    def UpdateContainerResources(self, request: Any, context: Any):  # noqa: N802 - the wire's name
        self.updates.append(request)
        self.seconds_left.append(context.time_remaining())
        time.sleep(self.takes_seconds)
        if self.refusal is not grpc.StatusCode.OK:
            context.abort(self.refusal, "not today")
        return cri_pb2.UpdateContainerResourcesResponse()


@pytest.fixture
def runtime() -> Runtime:
    return Runtime()


@pytest.fixture
def server(runtime: Runtime, tmp_path: Path) -> Iterator[grpc.Server]:
    server = grpc.server(ThreadPoolExecutor(2))
    cri_pb2_grpc.add_RuntimeServiceServicer_to_server(runtime, server)
    server.add_insecure_port(f"unix:{tmp_path}/cri.sock")
    server.start()
    yield server
    server.stop(None).wait()


@pytest.fixture
def client(server: grpc.Server, tmp_path: Path) -> Iterator[CriClient]:
    client = CriClient(f"{tmp_path}/cri.sock")
    yield client
    client.close()


@pytest.mark.parametrize(
    ("state", "word"), [(0, "created"), (1, "running"), (2, "exited"), (3, "unknown"), (77, "unknown")]
)
def test_a_container_is_told_by_pod_name_and_state(
    runtime: Runtime, client: CriClient, state: Any, word: str
):
    found = cri_pb2.Container(id="c1", pod_sandbox_id="p1", state=state)
    found.metadata.name = "app"
    runtime.containers = [found]
    assert client.list_containers() == {"c1": ContainerFacts("p1", "app", word)}


def test_an_update_carries_what_changes_and_keeps_the_rest(runtime: Runtime, client: CriClient):
    client.update_resources(
        "c1",
        cpus="2-3",
        mems="0",
        shares=2,
        quota=-1,
        period=100_000,
        memory_limit=9,
        unified={"io.weight": "default 100"},
    )
    sent = cri_pb2.LinuxContainerResources(
        cpuset_cpus="2-3", cpuset_mems="0", cpu_shares=2, cpu_quota=-1, cpu_period=100_000,
        memory_limit_in_bytes=9, unified={"io.weight": "default 100"},
    )  # fmt: skip
    assert runtime.updates == [cri_pb2.UpdateContainerResourcesRequest(container_id="c1", linux=sent)]


def test_an_empty_update_still_has_its_linux_part(runtime: Runtime, client: CriClient):
    client.update_resources("c1")
    assert runtime.updates[0].HasField("linux")


def test_an_update_has_no_deadline_unless_asked_for(runtime: Runtime, client: CriClient):
    client.update_resources("c1")
    client.update_resources("c1", timeout=150)
    endless, bounded = runtime.seconds_left
    assert endless > 10**9  # grpc's value for no deadline
    assert 120 < bounded < 160


def test_a_deadline_that_could_cost_the_plugins_is_never_sent(runtime: Runtime, client: CriClient):
    with pytest.raises(errors.LocalProtocolError, match="below 120 s"):
        client.update_resources("c1", timeout=2)
    assert runtime.updates == []


def test_a_refusal_names_call_code_and_reason(runtime: Runtime, client: CriClient):
    runtime.refusal = grpc.StatusCode.NOT_FOUND
    with pytest.raises(
        errors.RuntimeRefused, match=r"UpdateContainerResources.*NOT_FOUND: not today"
    ) as refusal:
        client.update_resources("c1")
    assert isinstance(refusal.value.__cause__, grpc.RpcError)


class Ended:
    """A runtime that takes a connection and a call, and then ends without the client's notice."""

    GREETING = bytes.fromhex("000000040000000000")  # HTTP/2 SETTINGS (RFC 9113, 6.5)

    def __init__(self, path: Path) -> None:
        self._path = path
        self._listener = listen(path)

    def take(self) -> None:
        """Take a connection; once a request has come another runtime listens."""
        self._taken, _ = self._listener.accept()
        self._taken.sendall(self.GREETING)
        received = b""
        while b"UpdateContainerResources" not in received:
            received += self._taken.recv(65536)
        self._path.unlink()
        self._next = listen(self._path)

    def close(self) -> None:
        for each in (self._listener, self._taken, self._next):
            each.close()


def listen(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    listener.listen()
    return listener


def test_a_call_whose_runtime_was_replaced_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cri, "LOOK_SECONDS", 0.05)
    path = tmp_path / "cri.sock"
    with closing(Ended(path)) as ended, closing(CriClient(str(path))) as client:
        taker = Thread(target=ended.take, daemon=True)
        taker.start()
        with pytest.raises(errors.TransportLost, match="another socket now"):
            client.update_resources("c1")
        taker.join()


def test_a_slow_call_is_waited_for(runtime: Runtime, client: CriClient, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cri, "LOOK_SECONDS", 0.01)
    runtime.takes_seconds = 0.1
    client.update_resources("c1")
    assert len(runtime.updates) == 1


def test_a_missing_socket_is_a_lost_transport(tmp_path: Path):
    client = CriClient(f"{tmp_path}/nobody.sock")
    with pytest.raises(errors.TransportLost, match=r"nobody\.sock"):
        client.list_containers()
    client.close()


def test_a_closed_client_is_a_lost_transport(client: CriClient):
    client.close()
    with pytest.raises(errors.TransportLost, match="closed"):
        client.list_containers()
