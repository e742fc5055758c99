"""The simulated node, on both versions of cgroups, and the bed on it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nri_coloc.core.settings import Tuning
from nri_coloc.sim.node import Node
from tests.scenario.eviction.bed import (
    EVICTS,
    Bed,
)
from tests.scenario.versions import VERSIONS


@pytest.fixture(params=VERSIONS)
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Node]:
    with Node(tmp_path / "node", "8cpu", cgroup=request.param) as found:
        yield found


@pytest.fixture
def make(node: Node) -> Callable[..., Bed]:
    def bed(tuning: Tuning = EVICTS, **pods: float) -> Bed:
        made = Bed(node, tuning)
        for name, held in pods.items():
            made.pod(name)
            made.holds(name, held)
        return made

    return bed
