"""How many examples a property test makes up: as many as hypothesis' profile says, or a multiple of it.

`make test-fast` tries a few of each property; `make test` and CI try all (`choose`).
"""

import os
from typing import Final

import hypothesis

_PROFILES: Final = {"nri-coloc": 100, "nri-coloc-few": 10}


def choose(*, few: bool) -> None:
    """Load the profile of this run, before the tests are imported."""
    for name, examples in _PROFILES.items():
        # the time of an example shows how busy the machine is; benchmarks/ measures speed
        hypothesis.settings.register_profile(
            name,
            max_examples=examples,
            deadline=None,
            suppress_health_check=[hypothesis.HealthCheck.too_slow],
            derandomize=os.environ.get("CI") == "true",
        )
    hypothesis.settings.load_profile("nri-coloc-few" if few else "nri-coloc")


def times(factor: float) -> int:
    """Return a multiple of the profile's number, for the decorator of a test."""
    return round(factor * hypothesis.settings().max_examples)
