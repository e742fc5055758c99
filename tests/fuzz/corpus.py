"""Kept inputs, and new ones near them: every parser's seeds are files in `corpus/<noun>`.

Each seed is replayed before any input is made up. A made-up input is plain noise, or a seed with changes. In a seed, a
few pieces are cut out, doubled, or added from a list of words with a meaning in some parser. The smallest input that
breaks a parser is left in build/fuzz/<noun>. If it is moved into the corpus, every later run replays it.
"""

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

CORPUS: Final = Path(__file__).parent / "corpus"
FOUND: Final = Path("build/fuzz")
SHARE: Final = 100
"""One made-up input for so many of `--fuzz-inputs`: hypothesis takes a millisecond for each, a plain loop ten µs."""

WORDS: Final = (
    *(
        b"0",
        b"1",
        b"-1",
        b"max",
        b"18446744073709551615",
        b"18446744073709551616",
        b"9" * 5000,
        b"1_0",
        b"+1",
    ),
    *(
        b" ",
        b"\n",
        b"\n\n",
        b"\t",
        b"\r\n",
        b"\0",
        b",",
        b"-",
        b":",
        b"=",
        b"/",
        b"..",
        b'"',
        b"{",
        b"}",
        b"[",
        b"]",
    ),
    *(
        b"\xff\xfe",
        b"\xef\xbb\xbf",
        "é".encode(),
        "٣".encode(),
        "²".encode(),
        b"NaN",
        b"Infinity",
        b"1e999",
        b"null",
    ),
    *(b"true", b"(null)", b"0-8191", b"8192", b"[" * 2000, b"\\ud800", b"a" * 300),
)

Check = Callable[[bytes], None]
"""Fails by an assertion, or by any exception that the parser does not promise."""


def seeds(noun: str) -> list[Path]:
    """Return the kept inputs of a parser."""
    found = sorted(path for path in (CORPUS / noun).iterdir() if path.is_file())
    assert found, f"{CORPUS / noun} holds no seed"
    return found


def replayed(*nouns: str) -> pytest.MarkDecorator:
    """Parametrize a test with every seed of some parsers, as `seed`."""
    found = [path for noun in nouns for path in seeds(noun)]
    return pytest.mark.parametrize("seed", found, ids=[f"{path.parent.name}/{path.name}" for path in found])


@st.composite
def near(draw: st.DrawFn, noun: str) -> bytes:
    """Draw an input that is a seed with a few changed pieces, or noise."""
    data = draw(st.sampled_from(_contents(noun)) | st.binary(max_size=200))
    for _ in range(draw(st.integers(0, 4))):
        data = _edited(data, draw)
    return data


@cache
def _contents(noun: str) -> list[bytes]:
    """Return the seeds' bytes: each made-up input begins with one of them."""
    return [path.read_bytes() for path in seeds(noun)]


def _edited(data: bytes, draw: st.DrawFn) -> bytes:
    at = draw(st.integers(0, len(data)))
    end = min(len(data), at + draw(st.integers(0, 20)))
    piece = draw(st.sampled_from(WORDS) | st.binary(max_size=8) | st.just(data[at:end] * 2))
    return data[:at] + piece + data[end:]


def made_up(noun: str, check: Check, inputs: int, strategy: st.SearchStrategy[bytes] | None = None) -> None:
    """Try inputs near a parser's seeds; the smallest that breaks it is kept in build/fuzz."""

    @settings(
        max_examples=max(inputs // SHARE, 10),
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy if strategy is not None else near(noun))
    def tried(data: bytes) -> None:
        try:
            check(data)
        except Exception as error:
            FOUND.mkdir(parents=True, exist_ok=True)
            (FOUND / noun).write_bytes(data)
            error.add_note(f"the input is in {FOUND / noun}; mend the parser and move it to {CORPUS / noun}")
            raise

    tried()


def parts(data: bytes, count: int) -> Sequence[bytes | None]:
    """Return `count` files out of one input, divided by form feeds; a missing part is a file that cannot be read."""
    found: list[bytes | None] = [*data.split(b"\f")]
    return [*found[:count], *([None] * (count - len(found)))]
