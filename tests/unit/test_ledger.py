"""After a rig was killed, its ledger names the cgroups that it made, and forgets cgroups that are gone."""

from pathlib import Path

import pytest

from tests.rig import kubepods
from tests.rig.kubepods import Ledger

POD = "/kubepods/burstable/pod{}"


@pytest.fixture
def hierarchy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the only cgroup hierarchy."""
    root = tmp_path / "cgroup"
    root.mkdir()
    monkeypatch.setattr(kubepods, "hierarchies", lambda: [root])
    return root


@pytest.fixture
def ledger(hierarchy: Path, tmp_path: Path) -> Ledger:
    return Ledger(tmp_path)


def test_pods_come_before_what_is_above_them_and_lowest_first(ledger: Ledger):
    ledger.add(POD.format(1))
    ledger.add("/kubepods/pod2")
    assert ledger.removable() == [POD.format(1), "/kubepods/pod2", "/kubepods/burstable", "/kubepods"]


def test_what_was_there_before_is_never_removed(ledger: Ledger, hierarchy: Path):
    (hierarchy / "kubepods").mkdir()
    ledger.add(POD.format(1))
    assert ledger.removable() == [POD.format(1), "/kubepods/burstable"]


def test_the_first_pods_parents_are_ours_at_the_second(ledger: Ledger, hierarchy: Path):
    ledger.add(POD.format(1))
    (hierarchy / "kubepods/burstable").mkdir(parents=True)
    ledger.add(POD.format(2))
    assert ledger.removable() == [POD.format(1), POD.format(2), "/kubepods/burstable", "/kubepods"]


def test_an_ended_pods_parents_are_still_ours(ledger: Ledger):
    ledger.add(POD.format(1))
    ledger.add(POD.format(2))
    ledger.strike(POD.format(1))
    assert ledger.cgroups() == [POD.format(2)]
    assert ledger.removable() == [POD.format(2), "/kubepods/burstable", "/kubepods"]


def test_who_is_made_anew_is_noted_anew(ledger: Ledger):
    ledger.add(POD.format(1))
    ledger.strike(POD.format(1))
    ledger.add(POD.format(1))
    assert ledger.cgroups() == [POD.format(1)]


def test_another_process_reads_the_same(ledger: Ledger, tmp_path: Path):
    ledger.add(POD.format(1))
    ledger.add(POD.format(2))
    ledger.strike(POD.format(2))
    assert (
        Ledger(tmp_path).removable()
        == ledger.removable()
        == [POD.format(1), "/kubepods/burstable", "/kubepods"]
    )


def test_an_empty_leftover_is_taken_away(hierarchy: Path):
    (hierarchy / "kubepods" / "besteffort").mkdir(parents=True)
    kubepods.take_away_leftover()
    assert not (hierarchy / "kubepods").exists()


def test_cgroups_with_a_pod_are_no_leftover(hierarchy: Path):
    (hierarchy / "kubepods" / "besteffort" / "pod1").mkdir(parents=True)
    kubepods.take_away_leftover()
    assert (hierarchy / "kubepods" / "besteffort" / "pod1").is_dir()
