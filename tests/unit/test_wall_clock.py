"""Modules that read the wall clock, each for a time of day or a time for people; durations are monotonic."""

import ast
from pathlib import Path
from typing import Final

PACKAGE = Path(__file__).resolve().parents[2] / "nri_coloc"
READS: Final = {"time.time", "time.time_ns", "datetime.now", "time.gmtime", "time.CLOCK_REALTIME"}
ALLOWED: Final = {
    "cli/demo.py": "the lines' times",
    "cli/top.py": "the age of the answer, for people",
    "forecast/slow_loop.py": "the hour of the day",
    "kubernetes/api.py": "the API server's clock, until its first answer",
    "kubernetes/companion.py": "the stamp of a report",
    "kubernetes/event_writer.py": "the times of Events",
    "kubernetes/leadership.py": "the times in the Lease, for people",
    "service/audit.py": "the times of records",
    "service/companion_state.py": "the hours ahead",
    "service/http.py": "the time of the page",
    "service/offer_view.py": "the time of the snapshot, for people",
    "service/parts/ground.py": "the schedule's windows; an order's grace and a cool-down after a reboot",
    "service/settings_orders.py": "the end of a pause, for people",
    "sim/runtime.py": "the times of containers",
}


def _reads(file: Path) -> bool:
    found = (each for each in ast.walk(ast.parse(file.read_text())) if isinstance(each, ast.Attribute))
    return any(ast.unparse(each) in READS for each in found)


def test_durations_are_of_a_monotonic_clock():
    files = (file for file in PACKAGE.rglob("*.py") if "_pb" not in file.parts)
    assert {str(file.relative_to(PACKAGE)) for file in files if _reads(file)} == ALLOWED.keys()
