"""A checkpoint is believed only if every part of it is valid."""

import json
import zlib
from typing import Any

import pytest

from nri_coloc.core.settings import ReclaimTuning
from nri_coloc.forecast import checkpoint, expectations, histogram
from nri_coloc.forecast.expectations import Forecast
from nri_coloc.forecast.histogram import MEMORY_BYTES
from nri_coloc.forecast.use import Use
from nri_coloc.pods.replicas import OnlinePod
from tests.unit.lending.kit import GIB

NOON = 20_000 * 86_400.0
TUNING = ReclaimTuning()
WEB = {"a": OnlinePod("shop/web")}


def lived() -> Forecast:
    seen = Forecast()
    for step in range(100):
        uses = {"a": Use("shop/web", 100 + 7 * step, GIB + step), "b": Use("shop/quiet")}
        seen = expectations.observe(seen, uses, NOON + 61.0 * step, TUNING)
    return seen


TEXT = checkpoint.write(lived(), NOON)


def sealed(body: str) -> str:
    """Return a checkpoint whose first line is valid for any body."""
    return f"nri-coloc-forecast 1 {zlib.crc32(body.encode()):08x} {len(body)}\n{body}"


def with_series(**changed: Any) -> str:
    body = json.loads(TEXT.partition("\n")[2])
    body["workloads"]["shop/web"]["cpu"].update(changed)
    return sealed(json.dumps(body))


def reason(text: str, now_s: float = NOON) -> str:
    found = checkpoint.read(text, now_s, TUNING)
    assert found.forecast is None
    return found.reason


def test_what_was_written_is_read_as_the_same_expectations():
    before, after = lived(), checkpoint.read(TEXT, NOON, TUNING).forecast
    assert after is not None
    expected = [
        expectations.expect(seen, {"c": OnlinePod("shop/web")}, NOON, TUNING) for seen in (before, after)
    ]
    assert expected[0].cpu_milli["c"] == expected[1].cpu_milli["c"] > 700
    assert expected[0].memory_bytes["c"] == expected[1].memory_bytes["c"]
    assert after.histories["shop/web"].cpu.hours == before.histories["shop/web"].cpu.hours
    assert after.histories.keys() == before.histories.keys()


def test_written_again_it_is_the_same_text():
    after = checkpoint.read(TEXT, NOON, TUNING).forecast
    assert after is not None
    assert checkpoint.write(after, NOON) == TEXT


def test_nothing_of_the_present_comes_back():
    after = checkpoint.read(TEXT, NOON, TUNING).forecast
    assert after is not None
    assert (after.peaks, after.latest, after.observed) == ({}, {}, expectations.NEVER)


def test_a_forecast_of_nothing_is_a_text_too():
    assert checkpoint.read(checkpoint.write(Forecast(), NOON), NOON, TUNING) == (Forecast(), "")


def test_256_full_workloads_stay_far_below_the_limit():
    history = lived().histories["shop/web"]
    series = history.memory
    full = expectations.Series(
        histogram.of(MEMORY_BYTES, ((n, 1 / 3) for n in range(204)), NOON), series.hours
    )
    worst = expectations.History(full, full, 1e6 / 3, NOON)
    names = (f"{n:03}".rjust(63, "n") + "/" + "w" * 253 for n in range(256))
    assert len(checkpoint.write(Forecast(dict.fromkeys(names, worst)), NOON)) < checkpoint.MOST_CHARACTERS / 2


@pytest.mark.parametrize(
    ("story", "text", "why"),
    [
        ("nothing", "", "is no forecast of this program"),
        ("another file", '{"a": 1}\n', "is no forecast of this program"),
        ("another program's", "x 1 00000000 0\n", "is no forecast of this program"),
        ("an older version", TEXT.replace(" 1 ", " 0 ", 1), "is of version 0, this program's is 1"),
        ("truncated", TEXT[:-1], "is truncated"),
        ("cut in its first line", TEXT[:20], "is no forecast of this program"),
        ("a flipped character", TEXT[:-3] + ("0" if TEXT[-3] != "0" else "1") + TEXT[-2:], "is damaged"),
        ("huge", "x" * (checkpoint.MOST_CHARACTERS + 1), "is longer than"),
        ("no text that could be encoded", "nri-coloc-forecast 1 00000000 1\n\ud800", "is damaged"),
    ],
)
def test_what_is_not_whole_is_refused(story, text, why):
    assert reason(text).startswith(why)


@pytest.mark.parametrize(
    "body",
    [
        "",
        "[]",
        "{}",
        '{"saved_s": 0}',
        '{"saved_s": "x", "workloads": {}}',
        '{"saved_s": NaN, "workloads": {}}',
        '{"saved_s": 1e999, "workloads": {}}',
        '{"saved_s": 1, "workloads": []}',
        '{"saved_s": 1, "workloads": {"a": []}}',
        "[" * 100_000,
    ],
)
def test_a_whole_text_of_another_shape_is_refused(body):
    assert reason(sealed(body)).startswith("cannot be understood")


@pytest.mark.parametrize(
    "changed",
    [
        {"weights": [[-1, 1.0]]},
        {"weights": [[10_000, 1.0]]},
        {"weights": [["0", 1.0]]},
        {"weights": [[0, -1.0]]},
        {"weights": [[0, 1e30]]},
        {"weights": [[0]]},
        {"weights": 7},
        {"last_s": "never"},
        {"hour": 1.5},
        {"peaks": [0]},
        {"peaks": [-2] * 25},
        {"peaks": [2**63] * 25},
    ],
    ids=str,
)
def test_values_that_cannot_be_are_refused(changed):
    assert reason(with_series(**changed)).startswith("cannot be understood")


def test_one_of_a_former_life_long_ago_is_refused():
    assert reason(TEXT, NOON + 8 * 86_400.0) == "is 8.0 days old"


def test_a_checkpoint_from_the_future_counts():
    assert checkpoint.read(TEXT, NOON - 1e9, TUNING).forecast is not None
