"""hooks/trunk.py: the socket is connected, retried with pauses, and closed after a late Synchronize."""

import socket
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Any, cast

import pytest

from nri_coloc.core.workload import KnownKeys
from nri_coloc.errors import TransportLost
from nri_coloc.hooks import trunk
from nri_coloc.hooks.trunk import Trunk
from nri_coloc.nri import codec, events
from nri_coloc.nri.calls import HookKind
from nri_coloc.nri.session import Session
from nri_coloc.runtime import connection
from nri_coloc.runtime.connection import SEND_TIMEOUT_S, Connection
from nri_coloc.runtime.listing import Listing
from tests.rig.raw_runtime import RawPlugin, RawRuntime
from tests.rig.waiting import PATIENCE_SECONDS
from tests.unit.parts import a_node, a_report


def test_connecting_and_sending_give_up_in_time(tmp_path: Path):
    path = str(tmp_path / "nri.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(1)
        with connection.connect_to(path) as connected:
            kept = connected.getsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.calcsize("ll"))
    assert struct.unpack("ll", kept) == (SEND_TIMEOUT_S, 0)


def test_a_listeners_full_queue_is_an_error_without_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(connection, "SEND_TIMEOUT_S", 1)
    path = str(tmp_path / "nri.sock")
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as guest:
        listener.bind(path)
        listener.listen(0)
        guest.connect(path)
        with pytest.raises(BlockingIOError):
            connection.connect_to(path)


class NotingSocket(socket.socket):
    """A socket that notes the interpreter's switch interval, seconds, when it is read."""

    noted = 0.0

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        self.noted = sys.getswitchinterval()
        return super().recv(bufsize, flags)


def test_a_hooks_thread_soon_gets_the_interpreter():
    runtime, ours = socket.socketpair()
    with runtime, NotingSocket(fileno=ours.detach()) as reader:
        runtime.sendall(b"hook")
        assert trunk._wait_for_bytes(reader) == b"hook"
        assert reader.noted == pytest.approx(trunk.HOOK_FIRST_S)
    assert sys.getswitchinterval() == pytest.approx(trunk.UNDISTURBED_S)


def test_who_reads_from_a_lost_connection_is_no_longer_waited_for():
    with socket.socket(socket.AF_UNIX) as unconnected, pytest.raises(OSError, match=r"not connected|Invalid"):
        trunk._wait_for_bytes(unconnected)
    assert sys.getswitchinterval() == pytest.approx(trunk.UNDISTURBED_S)


# ---- how often ----


class Waits:
    """Fake of the event that ends the loop: it keeps the pauses, and ends the loop after `most` of them."""

    def __init__(self, most: int) -> None:
        self.seconds: list[float] = []
        self._most = most

    def is_set(self) -> bool:
        return len(self.seconds) >= self._most

    def wait(self, seconds: float) -> bool:
        self.seconds.append(seconds)
        return self.is_set()

    def set(self) -> None:
        self._most = 0


def nobody() -> socket.socket:
    raise FileNotFoundError("there is no such socket")


def somebody_who_leaves() -> socket.socket:
    theirs, ours = socket.socketpair()
    theirs.close()
    return ours


def a_trunk(connect: Callable[[], socket.socket], hooks: Any = None) -> Trunk:
    report, _ = a_report(a_node())
    return Trunk(Connection(report, once=False), connect, ("nri-coloc", "50"), cast("Any", hooks), report)


def run(subject: Trunk) -> None:
    subject.run(lambda _configured: None, once=False)


def waits(count: int, connect: Callable[[], socket.socket]) -> list[float]:
    """Return the pauses between tries, seconds, after the loop has ended."""
    subject, found = a_trunk(connect), Waits(count)
    subject._stopping = cast("Any", found)
    run(subject)
    subject.stop()
    return found.seconds


@pytest.mark.parametrize(
    "connect", [nobody, somebody_who_leaves], ids=["nobody listens", "it leaves at once"]
)
def test_retries_begin_within_one_second_and_are_ten_apart_at_most(connect):
    found = waits(12, connect)
    assert 0 < found[0] <= 1
    assert max(found) <= connection.RETRY_CAP_S == 10
    assert min(found[6:]) >= connection.RETRY_CAP_S / 2


def test_tries_are_not_in_step_with_those_of_other_nodes():
    assert len({round(seconds, 6) for seconds in waits(30, nobody)[10:]}) > 10


def test_after_a_long_wait_a_loss_is_mended_soon():
    tried: list[None] = []

    def comes_at_last() -> socket.socket:
        tried.append(None)
        return nobody() if len(tried) < 10 else somebody_who_leaves()

    found = waits(10, comes_at_last)
    assert found[8] > 1
    assert found[9] <= 1


# ---- when we leave ----


class Empty:
    """Fake hooks of a node without pods."""

    def listing(self) -> Listing:
        return Listing(codec.Reader(KnownKeys()))

    def learn(self, listed: Listing) -> None:
        """Place nothing."""

    def serve(self, hook: events.Hook, answers: Connection, *_: Any) -> None:
        answers.answer(hook.call, None)


@pytest.fixture
def runtime(tmp_path: Path):
    with RawRuntime(tmp_path / "nri.sock") as listening:
        subject = a_trunk(lambda: connection.connect_to(str(tmp_path / "nri.sock")), Empty())
        thread = Thread(target=run, args=(subject,), daemon=True)
        thread.start()
        yield listening
        subject.stop()
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()


def synchronised_late(plugin: RawPlugin, nri_version: str) -> None:
    """Let a runtime give the plugin one nanosecond for its answer."""
    plugin.configure(runtime_version="v1.7.24" if not nri_version else "v2.4.0", nri_version=nri_version)
    assert plugin.call("Synchronize", timeout_nano=1).code == 0


def test_a_silent_drop_after_a_late_synchronize_is_noticed(runtime):
    with runtime.accept(PATIENCE_SECONDS) as plugin:
        synchronised_late(plugin, "")
        assert plugin.ends(PATIENCE_SECONDS)
    with runtime.accept(PATIENCE_SECONDS) as again:
        assert again.take_registration().plugin_name == "nri-coloc"


def test_a_runtime_that_closes_after_late_synchronize_is_left(runtime):
    with runtime.accept(PATIENCE_SECONDS) as plugin:
        synchronised_late(plugin, "v0.12.1")
        assert plugin.call(HookKind.RUN_POD_SANDBOX.value).code == 0


def test_a_synchronize_in_time_keeps_an_old_runtime(runtime):
    with runtime.accept(PATIENCE_SECONDS) as plugin:
        plugin.welcome(runtime_version="v1.7.24", nri_version="")
        assert plugin.call("StateChange").code == 0


def reading(session: Any) -> trunk._Reading:
    return trunk._Reading(session, lambda _configured: None)


class CountingSocket:
    """A socket with one read; at the next read it counts the other references to those bytes, and ends."""

    def __init__(self, read: bytes) -> None:
        self._read = read
        self.holders = -1

    def recv(self, _size: int) -> bytes:
        if self.holders == -1:
            self.holders = 0
            return self._read
        self.holders = sys.getrefcount(self._read) - len(("ours", "the call's"))
        return b""


def test_a_hooks_leftovers_are_freed_before_the_next():
    connection: Any = CountingSocket(struct.pack(">II4x", 7, 4))
    with pytest.raises(TransportLost, match="closed the connection"):
        a_trunk(nobody)._read(connection, reading(Session("coloc", "10")))
    assert connection.holders == 0


class SlowHooks:
    """Hooks that take one call and wait until the test lets them go on."""

    def __init__(self) -> None:
        self.began, self.goes_on = Event(), Event()
        self.served = 0

    def serve(self, *_: object) -> None:
        self.served += 1
        self.began.set()
        assert self.goes_on.wait(PATIENCE_SECONDS)


class TwoHooks:
    """A session that finds two hooks in any data."""

    def receive_data(self, _: bytes) -> list[events.Hook]:
        nobody: Any = None
        return [events.Hook(nobody, HookKind.STOP_CONTAINER, nobody, None, None)] * 2

    def data_to_send(self) -> bytes:
        return b""


def test_an_ending_trunk_finishes_the_present_hook_alone():
    hooks = SlowHooks()
    ours = a_trunk(nobody, hooks)
    assert ours.ended(0.0)
    thread = Thread(target=ours._take, args=(b"two", reading(TwoHooks())))
    thread.start()
    assert hooks.began.wait(PATIENCE_SECONDS)
    ours.stop()
    assert not ours.ended(0.0)
    hooks.goes_on.set()
    assert ours.ended(PATIENCE_SECONDS)
    thread.join(PATIENCE_SECONDS)
    assert hooks.served == 1
