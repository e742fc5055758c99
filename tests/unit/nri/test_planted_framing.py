"""Planted mistakes in framing make the simulated runtime, which reads as Go does, fail as containerd would."""

from collections.abc import Callable

import pytest

from nri_coloc._pb import nri_pb2
from nri_coloc.nri import multiplexer
from nri_coloc.sim.adaptation import UpdatesAsked
from nri_coloc.sim.go_reader import GoFailure, GoOutOfMemory, GoPanic, GoQueueOverflow
from tests.unit.nri.pair import RESOURCES, Pair

Frame = Callable[[int, bytes], bytes]

RIGHT = multiplexer.frame


def framed(connection: int, *parts: bytes) -> bytes:
    return b"".join(multiplexer.HEADER.pack(connection, len(part)) + part for part in parts)


def in_one_frame(connection: int, message: bytes) -> bytes:
    """Return one frame: a mistake, because Go reads a head through a buffer of 4096 bytes."""
    return framed(connection, message)


def in_crumbs(connection: int, message: bytes) -> bytes:
    """Return frames of 32 bytes: a mistake, because Go queues no more than 256 frames."""
    return framed(connection, *(message[at : at + 32] for at in range(0, len(message), 32)))


class Joined:
    """Frames every two messages as one: a mistake, because a frame must end where its message does."""

    def __init__(self) -> None:
        self._held = b""

    def __call__(self, connection: int, message: bytes) -> bytes:
        message, self._held = self._held + message, b"" if self._held else message
        return b"" if self._held else RIGHT(connection, message)


class Plugin:
    """A plugin that serves, and pushes updates."""

    def __init__(self) -> None:
        self.pair = Pair().serve()

    def push(self, count: int) -> int:
        """Let the runtime read a push of `count` updates, about 90 bytes each; return the updates that it found."""
        updates = [
            nri_pb2.ContainerUpdate(
                container_id=f"{number:064}", linux=nri_pb2.LinuxContainerUpdate(resources=RESOURCES)
            )
            for number in range(count)
        ]
        found = self.pair.runtime.receive_data(self.pair.session.update_containers(updates, 0)[1])
        return sum(len(each.updates) for each in found if isinstance(each, UpdatesAsked))


@pytest.fixture
def plugin() -> Plugin:
    return Plugin()


def plant(monkeypatch: pytest.MonkeyPatch, mistake: Frame) -> None:
    monkeypatch.setattr(multiplexer, "frame", mistake)


def test_without_a_mistake_all_is_read(plugin):
    counts = [1, 300, 600, 1]
    assert [plugin.push(count) for count in counts] == counts


@pytest.mark.parametrize(
    ("mistake", "end"),
    [(in_one_frame, GoOutOfMemory), (in_crumbs, GoQueueOverflow)],
    ids=["one frame", "crumbs"],
)
def test_a_message_in_wrong_frames_is_the_end(mistake, end, plugin, monkeypatch):
    plant(monkeypatch, mistake)
    with pytest.raises(end):
        plugin.push(300)


def test_a_straddling_frame_is_the_end(plugin, monkeypatch):
    plant(monkeypatch, Joined())
    plugin.push(300)
    with pytest.raises(GoOutOfMemory):
        plugin.push(1)


def test_a_straddling_frame_crashes_the_runtime(plugin, monkeypatch):
    plugin.push(600)
    plant(monkeypatch, Joined())
    plugin.push(300)
    with pytest.raises(GoPanic):
        plugin.push(1)


def test_short_messages_hide_a_mistake_of_long_ones(plugin, monkeypatch):
    plant(monkeypatch, in_one_frame)
    plugin.push(1)
    with pytest.raises(GoFailure):
        plugin.push(300)
