"""The admin gate, calls and client over real sockets: admission, and the result of each call."""

import fcntl
import os
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import grpc
import pytest

from nri_coloc._pb import admin_pb2 as pb
from nri_coloc.errors import SettingsError
from nri_coloc.service import admin_gate as subject
from nri_coloc.service.admin_calls import AdminServer
from nri_coloc.service.admin_client import AdminClient, AdminRefused, AdminUnreachable
from nri_coloc.service.admin_gate import Gate
from nri_coloc.service.orders import Caller, OrderDeclined, OrderInvalid, OrderLate
from tests.rig.waiting import PATIENCE_SECONDS, wait_until
from tests.unit.service.orderly import Orderly

NO_MOVES = 65534


class Rig:
    """A gate in a folder that another user could reach, if the modes were open."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "run" / "admin.sock"
        self.orders = Orderly()
        self.refused: list[Caller] = []
        self.said: list[str] = []
        self.made: list[AdminServer] = []
        self.gate = Gate(str(self.path), self._make, self.refused.append, self.said.append)
        self.client = AdminClient(str(self.path), timeout_s=20)

    def _make(self, path, caller_of) -> AdminServer:
        server = AdminServer(path, self.orders, caller_of, self.said.append)
        self.made.append(server)
        return server

    def say(self, data: bytes) -> bytes:
        """Connect and send `data`; return the first bytes of the answer, none if the other side ends."""
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(PATIENCE_SECONDS)
            client.connect(str(self.path))
            try:
                client.sendall(data)
                with suppress(OSError):  # the gate may hang up at any moment
                    client.shutdown(socket.SHUT_WR)
                return client.recv(1 << 16)
            except ConnectionError:
                return b""


@pytest.fixture
def rig() -> Iterator[Rig]:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        rig = Rig(Path(folder))
        rig.gate.look()
        yield rig
        rig.gate.close()


ME = Caller(os.geteuid(), os.getpid())


def test_every_call_of_the_contract_is_an_order_with_its_caller(rig):
    assert rig.client.pause_lending(60, "load test").until == "noon"
    assert rig.client.resume_lending().was_paused
    ends = rig.client.lending_off(60, drain=True)
    assert (ends.because, ends.until, ends.not_kept, list(ends.outside)) == (
        "lending ends",
        "noon",
        "",
        ["/yarn"],
    )
    assert list(ends.running) == [pb.RunningPod(name="shop/batch", why="it may run on")]
    assert rig.client.lending_off(None, drain=False).until == "noon"
    assert rig.client.lending_on().was_off
    assert rig.client.reload() == pb.ReloadResponse(valid=False, problem="line 7 is wrong")
    found = rig.client.repair()
    assert (found.looked_at, list(found.repaired)) == (3, ["shop/web: found cpu.shares 5"])
    assert rig.client.compare() == pb.CompareResponse(complete=False, detail="two are missing")
    assert rig.orders.asked == [
        ("pause", ME, 60, "load test"),
        ("resume", ME),
        ("off", ME, 60, True),
        ("off", ME, None, False),
        ("on", ME),
        ("reload", ME),
        ("repair", ME),
        ("compare", ME),
    ]


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (OrderDeclined("not now"), "not now"),
        (OrderLate("not in time"), "not in time"),
        (ValueError("secret"), "the order failed by an error in the daemon; its log has the reason"),
    ],
    ids=["declined", "late", "our own mistake"],
)
def test_what_was_not_done_is_said_in_a_sentence(error, says, rig):
    rig.orders.error = error
    with pytest.raises(AdminRefused) as caught:
        rig.client.repair()
    assert str(caught.value) == says


def test_an_invalid_order_is_wrong_usage(rig):
    rig.orders.error = OrderInvalid("not so")
    with pytest.raises(SettingsError, match="not so"):
        rig.client.repair()


def test_our_mistake_is_logged_and_the_next_call_served(rig):
    rig.orders.error = ValueError("secret")
    with pytest.raises(AdminRefused):
        rig.client.repair()
    assert rig.said == ["an admin call failed: ValueError: secret"]
    rig.orders.error = None
    assert rig.client.repair().looked_at == 3


def test_a_method_that_does_not_exist_is_refused_and_nothing_else(rig):
    with grpc.insecure_channel(f"unix:{rig.path}") as channel:
        call = channel.unary_unary(
            "/coloc.admin.v1.Admin/Reboot", request_serializer=bytes, response_deserializer=bytes
        )
        with pytest.raises(grpc.RpcError) as caught:
            call(b"", timeout=PATIENCE_SECONDS)
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert rig.client.resume_lending().was_paused


def reach(path: Path) -> None:
    """Open the socket to all users, as no daemon ever does."""
    path.parent.chmod(0o755)
    path.chmod(0o666)


def as_stranger(rig: Rig) -> Caller:
    """Call as another user, or without root as this user at a gate for root alone; return the caller."""
    if os.geteuid() != 0:
        rig.gate.admitted = frozenset({0})
        assert rig.say(subject.PREFACE) == b""
        return ME
    talk = (
        "import socket,sys; s=socket.socket(socket.AF_UNIX); s.settimeout(180); s.connect(sys.argv[1])\n"
        "try: s.sendall(b'PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n'); print(s.recv(100))\n"
        "except (BrokenPipeError, ConnectionResetError): print(b'')"
    )
    command = [os.path.realpath(sys.executable), "-I", "-c", talk, str(rig.path)]
    done = subprocess.run(
        command, user=NO_MOVES, group=NO_MOVES, capture_output=True, text=True, check=True, cwd="/"
    )
    assert done.stdout == "b''\n"
    return rig.refused[0]._replace(uid=NO_MOVES)


def test_another_user_is_turned_away_at_the_socket(rig):
    reach(rig.path)
    stranger = as_stranger(rig)
    assert rig.refused == [stranger]
    assert rig.made == []
    assert rig.orders.asked == []


def test_whoever_reaches_the_server_behind_the_gate_is_nobody(rig):
    with grpc.insecure_channel(f"unix:{rig.path}") as channel:
        grpc.channel_ready_future(channel).result(PATIENCE_SECONDS)  # keeps the server alive
        with pytest.raises(AdminRefused, match="calls must come through the admin socket"):
            AdminClient(f"{rig.path}~", timeout_s=20).repair()
    assert rig.orders.asked == []


@pytest.mark.parametrize(
    "name", ["nri-coloc-admin-x", f"nri-coloc-admin-{'0' * 32}"], ids=["a name like ours", "a guess"]
)
def test_a_name_that_looks_like_the_gates_makes_nobody_somebody(name, rig):
    assert rig.gate.caller(f"unix-abstract:{name}") is None
    assert rig.gate.caller(f"unix:{name}") is None


GARBAGE = {
    "nothing": b"",
    "http/1": b"GET / HTTP/1.1\r\n\r\n",
    "zeros": bytes(4096),
    "half a preface": subject.PREFACE[:9],
    "a preface and noise": subject.PREFACE + os.urandom(4096),
    "a preface and a huge frame": subject.PREFACE + b"\xff\xff\xff\x00\x00" + bytes(4),
}


@pytest.mark.parametrize("data", GARBAGE.values(), ids=GARBAGE.keys())
def test_garbage_ends_its_own_connection_and_nothing_else(data, rig):
    rig.say(data)
    assert rig.orders.asked == []
    assert rig.client.resume_lending().was_paused
    assert rig.said == []


def test_who_does_not_speak_http2_costs_no_server(rig):
    rig.say(b"GET / HTTP/1.1\r\n\r\n")
    assert rig.made == []


def test_at_rest_there_is_one_thread_and_no_server(rig):
    rig.client.resume_lending()
    wait_until(lambda: not Path(f"{rig.path}~").exists(), 20, "the server behind the gate to end")
    names = [thread.name for thread in threading.enumerate() if thread.name.startswith("admin")]
    assert names.count("admin") == 1
    wait_until(lambda: rig.gate._server is None, 20, "no server")


def test_more_connections_than_there_is_room_for_are_closed(rig):
    held = [socket.socket(socket.AF_UNIX) for _ in range(subject.MAX_CONNECTIONS)]
    try:
        for one in held:
            one.connect(str(rig.path))
        wait_until(lambda: len(rig.gate._carried) == subject.MAX_CONNECTIONS, 20, "all to be held")
        assert rig.say(subject.PREFACE) == b""
    finally:
        for one in held:
            one.close()
    wait_until(lambda: not rig.gate._carried, 20, "room again")
    assert rig.client.resume_lending().was_paused


def test_a_removed_socket_is_made_again_and_reported(rig):
    rig.path.unlink()
    rig.gate.look()
    assert rig.said == [f"the admin socket {rig.path} was removed; creating it again"]
    assert rig.client.resume_lending().was_paused


def never(_path, _caller_of) -> AdminServer:
    raise AssertionError("nobody calls")


def test_an_impossible_socket_is_reported_once_and_retried(tmp_path):
    said: list[str] = []
    place = tmp_path / "run"
    place.write_text("in the way")
    gate = Gate(str(place / "admin.sock"), never, lambda _: None, said.append)
    gate.look()
    gate.look()
    assert said == [gate.problem]
    place.unlink()
    gate.look()
    assert gate.problem == ""
    gate.close()


def test_a_process_that_reads_the_folder_holds_nothing_back(tmp_path):
    """The kubelet creates the folder with mode 0755, before the daemon closes it to others."""
    tmp_path.chmod(0o755)
    folder = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    gate = Gate(str(tmp_path / "admin.sock"), never, lambda _: None, print)
    gate.look()
    modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir()}
    gate.close()
    os.close(folder)
    assert (gate.problem, modes) == ("", {"admin.sock": 0o600, "admin.sock.lock": 0o600})


def test_one_of_two_daemons_has_the_socket(rig):
    said: list[str] = []
    other = Gate(str(rig.path), never, lambda _: None, said.append)
    other.look()
    assert "another nri-coloc has its socket in" in other.problem
    other.close()
    assert rig.client.resume_lending().was_paused
    rig.gate.close()
    other.look()
    assert other.problem == ""
    other.close()


def test_after_its_end_nobody_answers_and_nothing_is_left(rig):
    rig.client.resume_lending()
    rig.gate.close()
    assert list(rig.path.parent.iterdir()) == []
    with pytest.raises(AdminUnreachable, match="No such file or directory; is it running, are you root"):
        rig.client.resume_lending()


def test_a_file_without_a_listener_is_told_as_such(tmp_path):
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "admin.sock"))
    with pytest.raises(AdminUnreachable, match="Connection refused"):
        AdminClient(str(tmp_path / "admin.sock"), timeout_s=20).repair()


def test_grpc_is_loaded_by_the_first_call_and_not_before():
    code = "import sys, nri_coloc.service.runner; print('grpc' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
