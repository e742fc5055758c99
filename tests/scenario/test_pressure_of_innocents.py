"""Three hours of pods that hurt no other pod: noise makes one verdict at most, on any disk.

`python -m benchmarks verdicts` plays more of them. Of 36 runs (seeds 600 to 611, three disks) two have two verdicts,
and the mean is 0.5. The disks of one seed share all draws but the waits for the disk, so a verdict on CPU or memory
comes on each of them.
"""

import pytest

from tests.scenario.innocents import DISKS, begun, hours, turns
from tests.unit.pressure.kit import Bench


def verdicts(seed: int, latency_s: float) -> set[tuple[str, str, int]]:
    """Return the hurts of three hours that have a verdict: victim, resource, and the turn in which the hurt began."""
    found = turns(Bench(), hours(seed, latency_s))
    return {
        (one.victim, one.resource.value, begun(judged, one)) for _, judged in found for one in judged.verdicts
    }


@pytest.mark.parametrize(
    "latency_s",
    [
        pytest.param(DISKS["hdd"], marks=pytest.mark.tier("test")),
        DISKS["ssd"],
        pytest.param(DISKS["nvme"], marks=pytest.mark.tier("test")),
    ],
    ids=DISKS,
)
def test_innocents_of_this_seed_have_one_verdict_at_most(latency_s: float):
    assert len(verdicts(0, latency_s)) <= 1
