"""Go can read every message that the product writes: the rule of the first 4096 bytes, at every size."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_coloc.nri import multiplexer
from nri_coloc.sim.go_reader import GoReader
from nri_coloc.ttrpc import frames

LARGEST = frames.MESSAGE_LIMIT + frames.HEADER_SIZE
EDGES = [10, 11, *range(4085, 4098), *range(8182, 8194), LARGEST - 1, LARGEST]
SIZES = st.one_of(st.sampled_from(EDGES), st.integers(10, 20_000), st.integers(10, LARGEST))


def message(size: int, stream: int = 1) -> bytes:
    return frames.frame(stream, frames.REQUEST, bytes(size - frames.HEADER_SIZE))


def lengths(data: bytes) -> list[int]:
    found, at = [], 0
    while at < len(data):
        _, length = multiplexer.HEADER.unpack_from(data, at)
        found.append(length)
        at += multiplexer.HEADER.size + length
    assert at == len(data)
    return found


@pytest.mark.parametrize("size", [0, 1, *EDGES, 5 << 20])
def test_a_message_has_at_most_two_bounded_frames(size):
    written = lengths(multiplexer.frame(1, bytes(size)))
    assert written == ([size] if size <= 4096 else [4096, size - 4096])


@given(
    st.lists(st.tuples(st.sampled_from([1, 2]), SIZES), min_size=1, max_size=6),
    st.sampled_from([0, 1 << 16, 1 << 23]),
)
def test_go_reads_every_message_that_we_frame(sent, pooled):
    """Frames of the two connections alternate, and the pool of slices returns any buffer."""
    reader = GoReader(pooled=pooled)
    data = b"".join(multiplexer.frame(connection, message(size)) for connection, size in sent)
    found = [(read.connection, len(read.body) + frames.HEADER_SIZE) for read in reader.receive_data(data)]
    assert sorted(found) == sorted(sent)


@given(SIZES)
def test_what_is_framed_is_what_a_trunk_reads(size):
    sent = message(size)
    assert b"".join(part for _, part in multiplexer.Trunk().receive_data(multiplexer.frame(2, sent))) == sent
