"""After a push, a container's files must show the pushed values."""

from dataclasses import replace

import pytest

from nri_coloc.core.knobs import Knobs
from nri_coloc.core.state import Assignment
from nri_coloc.core.workload import Phase
from nri_coloc.runtime.verification import Verification
from tests.unit.parts import a_node, create

PUSHED = Knobs(cpus="0-3", shares=1024, quota=50_000, period=100_000, memory_limit=(1 << 20) + 5)


class Files(dict[str, str]):
    def text(self, path: str, controller: str, name: str) -> str | None:
        assert path == "kubepods/podweb/app"
        return self.get(name)

    def remember(self, path: str, changes: Knobs) -> None:
        """Keep nothing."""

    def arrived(self) -> None:
        """Note nothing."""


def app(phase: Phase = Phase.RUNNING) -> Assignment:
    node = a_node()
    create(node, "app")
    assignment = node.state.containers["app"]
    return replace(assignment, container=replace(assignment.container, phase=phase))


@pytest.mark.parametrize(
    ("version", "files"),
    [
        (1, {"cpu.shares": "1024", "cpu.cfs_quota_us": "50000", "memory.limit_in_bytes": "1048576"}),
        (2, {"cpu.weight": "1", "cpu.max": "50000 100000", "memory.max": "1048576"}),
        (1, {}),
    ],
)
def test_what_was_pushed_or_is_gone_is_well(version, files):
    assert Verification(Files(files), version).differing(app(), PUSHED) == ""


@pytest.mark.parametrize(
    ("version", "name", "text"),
    [
        (1, "cpu.shares", "2"),
        (1, "cpu.cfs_quota_us", "-1"),
        (2, "cpu.max", "max 100000"),
        (2, "cpu.max", "5000 100000"),
        (2, "memory.max", "max"),
        (1, "memory.limit_in_bytes", "9223372036854771712"),
        (1, "cpu.shares", "9" * 5000),
    ],
)
def test_what_is_otherwise_is_said(version, name, text):
    said = Verification(Files({name: text}), version).differing(app(), PUSHED)
    assert said.startswith(f"{name} shows {text.split()[0]}, pushed was ")


def test_a_limit_that_was_taken_away_shows_as_none():
    assert Verification(Files({"cpu.max": "max 100000"}), 2).differing(app(), Knobs(quota=-1)) == ""


def test_before_it_runs_only_its_spec_was_changed():
    assert Verification(Files({"cpu.shares": "7"}), 1).differing(app(Phase.STARTING), PUSHED) == ""
