"""The reader of frames fails as Go does on the three mistakes that it exists to find."""

import pytest

from nri_coloc.nri import multiplexer
from nri_coloc.sim.go_reader import (
    BUFFER_SIZE,
    QUEUE_LENGTH,
    GoOutOfMemory,
    GoPanic,
    GoQueueOverflow,
    GoReader,
)
from nri_coloc.ttrpc import frames


def message(size: int, stream: int = 1) -> bytes:
    """Return a ttrpc message of `size` bytes in all."""
    return frames.frame(stream, frames.REQUEST, bytes(size - frames.HEADER_SIZE))


def raw(payload: bytes, connection: int = 2) -> bytes:
    return multiplexer.HEADER.pack(connection, len(payload)) + payload


def sizes(reader: GoReader, data: bytes) -> list[int]:
    return [len(found.body) + frames.HEADER_SIZE for found in reader.receive_data(data)]


@pytest.mark.parametrize("size", [10, 11, 4096, 4097, 8191, 8192, 8193, 100_000])
def test_our_framing_is_read_as_it_was_meant(size):
    reader = GoReader()
    assert sizes(reader, multiplexer.frame(2, message(size)) + multiplexer.frame(2, message(50, 3))) == [
        size,
        50,
    ]


def test_what_comes_in_pieces_is_put_together():
    reader, data = GoReader(), multiplexer.frame(1, message(9000))
    assert [size for byte in data for size in sizes(reader, bytes([byte]))] == [9000]


def test_empty_frames_and_strangers_are_dropped():
    assert sizes(GoReader(), raw(b"") + raw(b"x" * 9000, 7) + raw(b"x", 0) + raw(message(20))) == [20]


def test_two_small_messages_in_one_small_frame_happen_to_survive():
    assert sizes(GoReader(), raw(message(20) + message(30, 3))) == [20, 30]


def test_an_oversized_message_is_skipped_when_its_frames_are_small():
    reader = GoReader()
    oversized = frames.HEADER.pack(frames.MESSAGE_LIMIT + 1, 1, frames.REQUEST, 0)
    body = bytes(frames.MESSAGE_LIMIT + 1)
    found = reader.receive_data(raw(oversized))
    for at in range(0, len(body), BUFFER_SIZE):
        found += reader.receive_data(raw(body[at : at + BUFFER_SIZE]))
    found += reader.receive_data(raw(message(20, 3)))
    assert [(read.stream, read.oversized) for read in found] == [(1, len(body)), (3, 0)]


def test_an_oversized_message_is_fatal_when_its_rest_is_one_frame():
    oversized = frames.HEADER.pack(frames.MESSAGE_LIMIT + 1, 1, frames.REQUEST, 0)
    with pytest.raises(GoOutOfMemory):
        GoReader().receive_data(raw(oversized) + raw(bytes(frames.MESSAGE_LIMIT + 1)))


def test_planted_mistake_a_first_frame_over_4096_is_out_of_memory():
    with pytest.raises(GoOutOfMemory):
        GoReader().receive_data(raw(message(4097)))


def test_planted_mistake_two_messages_in_one_frame_are_out_of_memory():
    joined = message(10_000) + message(20, 3)
    with pytest.raises(GoOutOfMemory):
        GoReader().receive_data(raw(joined[:4096]) + raw(joined[4096:]))


def test_planted_two_messages_in_one_frame_crash_the_process():
    reader = GoReader()
    assert sizes(reader, multiplexer.frame(2, message(20_000))) == [20_000]
    joined = message(10_000, 3) + message(20, 5)
    with pytest.raises(GoPanic):
        reader.receive_data(raw(joined[:4096]) + raw(joined[4096:]))


def test_planted_mistake_many_tiny_frames_overflow_the_queue():
    data = message(64 * (QUEUE_LENGTH + 1))
    tiny = b"".join(raw(data[at : at + 64]) for at in range(0, len(data), 64))
    with pytest.raises(GoQueueOverflow):
        GoReader().receive_data(tiny)


def test_tiny_frames_survive_as_long_as_the_queue_holds_them():
    data = message(64 * QUEUE_LENGTH)
    tiny = b"".join(raw(data[at : at + 64]) for at in range(0, len(data), 64))
    assert sizes(GoReader(), tiny) == [len(data)]
