"""The colocation benchmark turns played days into rows, curves and a picture."""

import json
from array import array
from pathlib import Path

import pytest
from PIL import Image

from benchmarks.colocation import curves, picture, report
from benchmarks.colocation.turn import Day, Look, percentile

SECONDS = 4.0


def day(times_ms: list[float], busy: int = 100, done: int = 0, online_us: int = 0) -> Day:
    """Return a day of evenly spaced requests, on a node that is busy for `busy` of 100 ticks a second.

    online_us: CPU time that the server used, µs a second.
    """
    count = len(times_ms)
    arrivals = array("q", (int(SECONDS * 1e9 * i / count) for i in range(count)))
    looks = tuple(
        Look(
            at=s / 4,
            busy=s * busy // 4,
            whole=s * 25,
            stolen=0,
            known_us=s * busy * 2500,
            online_us=s * online_us // 4,
            done=s * done // 4,
            lent=1,
        )
        for s in range(int(SECONDS) * 4 + 1)
    )
    return Day(arrivals, array("q", (int(ms * 1e6) for ms in times_ms)), looks)


def steady(ms: float, slow_ms: float) -> list[float]:
    """Return the times of 1,000 requests, ms: 998 take `ms`, the slowest two take `slow_ms`."""
    return [ms] * 998 + [slow_ms] * 2


def test_a_percentile_is_the_first_time_few_requests_exceed():
    assert percentile(range(0, 100_000_000, 1_000_000), 0.5) == 50.0
    assert percentile([7_000_000], 0.999) == 7.0


def test_a_row_compares_each_round_with_the_same_round_alone():
    days = {
        "alone": [day(steady(1, 2)), day(steady(2, 4)), day(steady(1, 1))],
        "ours": [day(steady(1, 3)), day(steady(2, 6)), day(steady(1, 9))],
    }
    found = report.rows("busy", days)
    assert found["alone"].p999_ratio == 1.0
    assert (found["ours"].p99_ratio, found["ours"].p999_ratio) == (1.0, 1.5)
    assert found["ours"].requests == 3000


def test_a_row_shows_node_use_and_work_done():
    found = report.rows("disk", {"plain": [day([1.0] * 100, busy=90, done=3 << 20)]})
    assert found["plain"].node_use == pytest.approx(0.9, abs=0.01)
    assert found["plain"].done_a_second == pytest.approx(3.0, abs=0.01)
    assert found["plain"].unit == "MiB written"


def test_a_row_tells_what_a_request_cost_the_server():
    found = report.rows("busy", {"ours": [day([1.0] * 1000, online_us=100_000)]})
    assert found["ours"].request_us == pytest.approx(400, rel=0.01)


def test_curves_follow_the_day_and_have_a_value_for_each_step():
    slow_at_the_end = [1.0] * 900 + [8.0] * 100
    found = curves.curves([day(slow_at_the_end, busy=50)], SECONDS)
    assert len(found.at_s) == len(found.p99_ms) == curves.STEPS
    assert (found.p99_ms[0], found.p99_ms[-1]) == (1.0, 8.0)
    assert all(use == pytest.approx(0.5, abs=0.05) for use in found.node_use)
    assert found.requests_a_second[0] == pytest.approx(250, rel=0.1)


def test_kinds_measured_one_by_one_share_one_file_and_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(report, "JSON", tmp_path / "found.json")
    monkeypatch.setattr(picture, "PNG", tmp_path / "found.png")
    days = {"alone": [day(steady(1, 2))], "ours": [day(steady(1, 3))]}
    over_time = {name: curves.curves(played, SECONDS) for name, played in days.items()}
    for kind in ("busy", "disk"):
        found = report.write({"rounds": 1}, kind, report.rows(kind, days), over_time)
    assert list(json.loads(report.JSON.read_text())) == ["busy", "disk"]
    picture.draw(found)
    with Image.open(picture.PNG) as drawn:
        assert drawn.size[0] > 2 * picture.WIDTH
        assert len(drawn.getcolors(1 << 24) or []) > 10


def test_use_beyond_pods_and_load_was_strangers():
    quiet = day([1.0], busy=80)
    assert quiet.strangers == 0.0
    first, *_, last = quiet.looks
    noisy = Day(quiet.arrivals, quiet.took, (first, last._replace(known_us=last.known_us // 2)))
    assert noisy.strangers == pytest.approx(0.4, abs=0.01)
