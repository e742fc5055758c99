"""Write histories as a text that outlives the daemon, and read it back if every character is right.

The first line names the format, its version, and CRC-32 and length of the rest. The rest is one JSON object. A text
that is truncated, damaged, of another version or too old gives a reason instead of a forecast. The reader then starts
to learn from nothing, which is slow and safe. Only histories are kept, nothing of the present: after a start nothing
is advertised before the first measurement.
"""

import json
import zlib
from collections.abc import Iterator
from math import isfinite
from typing import Any, Final, NamedTuple, NoReturn

from nri_coloc.core.settings import ReclaimTuning
from nri_coloc.forecast import histogram, hours
from nri_coloc.forecast.expectations import Forecast, History, Series
from nri_coloc.forecast.histogram import CPU_MILLI, MEMORY_BYTES, Histogram, Scale
from nri_coloc.forecast.hours import Hours

VERSION: Final = 1
"""Raised if an older reader would misread the text, or if the buckets change their meaning."""

MOST_CHARACTERS: Final = 4 << 20
"""Three times the worst size of 256 histories; a longer text is not read."""

_NAME: Final = "nri-coloc-forecast"
_DIGITS: Final = 5
"""Significant digits of a weight: far more than a percentile can tell apart."""


class Loaded(NamedTuple):
    """A forecast; or None and the reason, in words that follow "the checkpoint"."""

    forecast: Forecast | None
    reason: str = ""


def write(forecast: Forecast, now_s: float) -> str:
    """Return the text of all histories; ASCII, with a newline at the end."""
    workloads = {name: _written(history) for name, history in sorted(forecast.histories.items())}
    body = json.dumps({"saved_s": now_s, "workloads": workloads}, separators=(",", ":")) + "\n"
    return f"{_NAME} {VERSION} {_checksum(body)} {len(body)}\n{body}"


def read(text: str, now_s: float, tuning: ReclaimTuning) -> Loaded:
    """Return the forecast that a text holds; never raises for any text."""
    if len(text) > MOST_CHARACTERS:
        return Loaded(None, f"is longer than {MOST_CHARACTERS} characters")
    head, _, body = text.partition("\n")
    wrong = _wrong_with(head.split(" "), body)
    if wrong:
        return Loaded(None, wrong)
    try:
        found = json.loads(body, parse_constant=_refuse)
        saved_s = _seconds(found["saved_s"])
        histories = {str(name): _history(told) for name, told in found["workloads"].items()}
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        return Loaded(None, f"cannot be understood: {type(error).__name__}: {error}"[:200])
    if now_s - saved_s > tuning.forecast.forget_s:
        return Loaded(None, f"is {(now_s - saved_s) / 86_400.0:.1f} days old")
    return Loaded(Forecast(histories))


def _wrong_with(head: list[str], body: str) -> str:
    if len(head) != 4 or head[0] != _NAME:
        return "is no forecast of this program"
    _, version, checksum, length = head
    if version != str(VERSION):
        return f"is of version {version[:20]}, this program's is {VERSION}"
    if length != str(len(body)):
        return f"is truncated: {len(body)} of {length[:20]} characters"
    return "" if checksum == _checksum(body) else "is damaged: its checksum is wrong"


def _checksum(body: str) -> str:
    return f"{zlib.crc32(body.encode(errors='replace')):08x}"


# --- writing ---------------------------------------------------------------------------------------------


def _written(history: History) -> dict[str, Any]:
    return {
        "seen_s": history.seen_s,
        "last_s": history.last_s,
        "cpu": _written_series(history.cpu),
        "memory": _written_series(history.memory),
    }


def _written_series(series: Series) -> dict[str, Any]:
    """Return a series with weights as seen from the last sample, which then weighs 1."""
    uses = series.uses
    weights = histogram.faded(uses, uses.age)
    return {
        "last_s": uses.last_s,
        "weights": [[n, float(f"{w:.{_DIGITS}g}")] for n, w in enumerate(weights) if w],
        "hour": series.hours.newest,
        "peaks": list(series.hours.peaks),
    }


# --- reading ---------------------------------------------------------------------------------------------


def _history(told: dict[str, Any]) -> History:
    return History(
        _series(told["cpu"], CPU_MILLI),
        _series(told["memory"], MEMORY_BYTES),
        max(0.0, _seconds(told["seen_s"])),
        _seconds(told["last_s"]),
    )


def _series(told: dict[str, Any], scale: Scale) -> Series:
    return Series(_uses(told, scale), _hours(told))


def _uses(told: dict[str, Any], scale: Scale) -> Histogram:
    if told["last_s"] is None:
        return histogram.empty(scale)
    return histogram.of(scale, _weights(told["weights"], len(scale.edges)), _seconds(told["last_s"]))


def _weights(told: list[list[Any]], count: int) -> Iterator[tuple[int, float]]:
    for bucket, weight in told:
        # a sum of weights that each halve in a half-life of many samples stays far below this
        if type(bucket) is not int or not 0 <= bucket < count or not 0.0 <= float(weight) < 1e9:
            raise ValueError(f"weight {weight!r:.20} of bucket {bucket!r:.20}")
        yield bucket, float(weight)


def _hours(told: dict[str, Any]) -> Hours:
    newest, peaks = told["hour"], told["peaks"]
    if type(newest) is not int or len(peaks) != hours.LENGTH or min(peaks) < hours.UNKNOWN:
        raise ValueError("hours are malformed")
    return hours.of(newest, peaks)


def _seconds(told: Any) -> float:
    seconds = float(told)
    if not isfinite(seconds):
        raise ValueError("time is not finite")
    return seconds


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a number")
