"""Any checkpoint gives a usable forecast, or the reason why it gives none."""

import os
import zlib
from pathlib import Path
from typing import Final

from nri_coloc.core.settings import ReclaimTuning
from nri_coloc.forecast import checkpoint
from tests.fuzz import corpus

NOUN: Final = "checkpoint"
NOW_S: Final = 1.7e9
TUNING: Final = ReclaimTuning()


def check(data: bytes) -> None:
    """Read the bytes as they are, and again with a valid head: only then does the parser read the body."""
    text = os.fsdecode(data)
    body = text.partition("\n")[2]
    vouched = f"{zlib.crc32(body.encode(errors='replace')):08x} {len(body)}"
    for candidate in (text, f"nri-coloc-forecast {checkpoint.VERSION} {vouched}\n{body}"):
        found = checkpoint.read(candidate, NOW_S, TUNING)
        if found.forecast is None:
            assert found.reason
            assert len(found.reason) <= 200
            continue
        again = checkpoint.write(found.forecast, NOW_S)
        assert checkpoint.read(again, NOW_S, TUNING).forecast is not None, "what was read cannot be written"


@corpus.replayed(NOUN)
def test_a_kept_checkpoint_is_read_or_refused(seed: Path):
    check(seed.read_bytes())


def test_any_checkpoint_is_read_or_refused(fuzz_inputs: int):
    corpus.made_up(NOUN, check, fuzz_inputs)


def test_the_kept_checkpoints_are_not_all_refused():
    found = [checkpoint.read(path.read_text(), NOW_S, TUNING).forecast for path in corpus.seeds(NOUN)]
    assert any(forecast and forecast.histories for forecast in found)
