"""A hurt that rises over a minute or two is found, and an online pod that only has more work is not.

Demand and latency drift and single seconds scatter as in `innocents.py`.
"""

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from nri_coloc.pressure.verdict import Resource
from tests.scenario.innocents import INNOCENTS, online, steady
from tests.unit.pressure.kit import MIB, Bench, Doing

LEARNS_S = 300
SSD_S = 0.001
WORSE = 5.0
"""Multiple of its usual wait that the online pod waits beside the whole hog."""

SEEDS = range(6)


def hog(part: float) -> Doing:
    return Doing(cpu=20 + 1900 * part, read=(2 + 200 * part) * MIB, operations=100 + 3000 * part)


def beside(calm: Doing, resource: Resource, part: float) -> Doing:
    """Return an online pod's second beside a part of the hog."""
    times = 1 + (WORSE - 1) * part
    if resource is Resource.CPU:
        return replace(calm, cpu_stall=min(0.98, calm.cpu_stall * times))
    return replace(calm, io_stall=min(0.98, calm.io_stall * times))


def is_found(seed: int, resource: Resource, rises_s: int) -> bool:
    """Return whether a verdict names a hog that takes so long to come to its full use, within a minute more."""
    draw, node = random.Random(seed), Bench()
    web, innocent = online(draw, SSD_S, 0.05), steady(draw)
    named = set()
    for second in range(-LEARNS_S, rises_s + 60):
        part = min(1.0, max(0.0, (second + 1) / rises_s))
        now = {"web": beside(next(web), resource, part)}, {"hog": hog(part), "steady": next(innocent)}
        for verdict in node.second(*now).verdicts:
            if verdict.resource is resource and second >= 0:
                named |= {one.pod_id for one in verdict.evidence.culprits}
    return "hog" in named


@pytest.mark.parametrize("resource", [Resource.CPU, Resource.IO])
def test_a_hurt_that_rises_for_a_minute_is_found(resource: Resource):
    assert sum(is_found(seed, resource, 60) for seed in SEEDS) >= len(SEEDS) - 1


@pytest.mark.parametrize("resource", [Resource.CPU, Resource.IO])
def test_a_sudden_hurt_is_found(resource: Resource):
    assert all(is_found(seed, resource, 1) for seed in SEEDS)


def growing(draw: random.Random) -> Iterator[Doing]:
    """Yield an online pod whose work grows eightfold in ten minutes; its waits grow with it."""
    for second, calm in enumerate(online(draw, SSD_S, 0.05)):
        times = 1 + 7 * min(1.0, max(0, second - LEARNS_S) / 600)
        yield replace(
            calm,
            cpu=calm.cpu * times,
            cpu_stall=min(0.9, calm.cpu_stall * times),
            io_stall=min(0.9, calm.io_stall * times),
            read=calm.read * times,
            operations=calm.operations * times,
        )


@pytest.mark.parametrize("seed", SEEDS)
def test_more_own_work_is_no_hurt_by_others(seed: int):
    draw, node = random.Random(seed), Bench()
    web, batch = growing(draw), {name: kind(draw) for name, kind in INNOCENTS.items()}
    found = []
    for _ in range(LEARNS_S + 900):
        judged = node.second({"web": next(web)}, {name: next(one) for name, one in batch.items()})
        found += [(one.resource, one.evidence.culprits) for one in judged.verdicts]
    assert not found
