"""repair/neighbours.py: creations that the runtime undid, and registered drivers, are recognised."""

from pathlib import Path

import pytest

from nri_coloc.host import kubelet
from nri_coloc.repair.neighbours import KEPT, REMEMBERED_S, Creations, driver_words


def answered(*ids: str) -> Creations:
    creations = Creations()
    for each in ids:
        creations.answered(each, f"shop/{each}/app")
    return creations


def test_an_undone_creation_is_named():
    creations = answered("web")
    creations.ended("web", 100.0)
    assert "undid 1 creations" in creations.words(101.0)
    assert "the last of shop/web/app" in creations.words(101.0)
    assert "runtime.draCPUDriver: true" in creations.words(101.0)


def test_a_creation_that_was_taken_is_none():
    creations = answered("web")
    creations.created("web")
    creations.ended("web", 100.0)
    assert creations.words(101.0) == ""


def test_a_later_attempt_shows_another_cause():
    creations = Creations()
    for attempt in ("first", "second"):
        creations.answered(attempt, "shop/web/app")
    creations.answered("other", "shop/db/db")
    creations.ended("first", 100.0)
    creations.ended("other", 100.0)
    creations.created("second")
    assert "undid 1 creations" in creations.words(101.0)
    assert "the last of shop/db/db" in creations.words(101.0)


def test_an_answer_without_cpus_is_none():
    creations = answered()
    creations.ended("web", 100.0)
    assert creations.words(101.0) == ""


def test_an_undone_creation_counts_once_and_for_a_while():
    creations = answered("web")
    creations.ended("web", 100.0)
    creations.ended("web", 100.0)
    assert "undid 1 creations" in creations.words(100.0 + REMEMBERED_S - 1)
    assert creations.words(100.0 + REMEMBERED_S) == ""


def test_as_many_are_kept_as_may_be():
    creations = answered(*map(str, range(KEPT + 1)))
    for number in range(KEPT + 1):
        creations.ended(str(number), 100.0)
    assert f"undid {KEPT} creations" in creations.words(100.0)


@pytest.mark.parametrize("name", ["dra.cpu-reg.sock", "dra.cpu-0b1c-reg.sock"])
def test_a_registered_driver_is_found(tmp_path, name):
    folder = tmp_path / kubelet.PLUGINS.lstrip("/")
    folder.mkdir(parents=True)
    (folder / name).touch()
    assert kubelet.driver_socket(str(tmp_path)) == f"{kubelet.PLUGINS}/{name}"
    assert "runtime.draCPUDriver: true" in driver_words(kubelet.driver_socket(str(tmp_path)))


def test_other_drivers_are_none(tmp_path: Path):
    folder = tmp_path / kubelet.PLUGINS.lstrip("/")
    assert kubelet.driver_socket(str(tmp_path)) == driver_words("") == ""
    folder.mkdir(parents=True)
    (folder / "gpu.example.com-reg.sock").touch()
    assert kubelet.driver_socket(str(tmp_path)) == ""
