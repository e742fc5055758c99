"""Restarts of all five parts in every order of two, and in random orders, on each pair (`make soak-cluster`)."""

from collections.abc import Sequence
from random import Random
from typing import Final

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.colocation import Colocation
from tests.cluster.running import Pods
from tests.cluster.test_together import PARTS, lose_nothing, walk

pytestmark = pytest.mark.tier("soak")


def at_random(seed: int, rounds: int = 2) -> tuple[str, ...]:
    """Return restarts that hold each part once in a round."""
    chosen = Random(seed)
    return tuple(part for _ in range(rounds) for part in chosen.sample(PARTS, len(PARTS)))


ORDERS: Final = {
    "neighbours": walk((1, 2)),
    "others": walk((3, 4)),
    **{f"seed {seed}": at_random(seed) for seed in range(4)},
}


@pytest.mark.parametrize("restarts", ORDERS.values(), ids=ORDERS)
def test_restarts_lose_nothing(cluster: Cluster, colocation: Colocation, pods: Pods, restarts: Sequence[str]):
    lose_nothing(cluster, colocation, pods, restarts)
