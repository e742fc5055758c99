"""Waits of the cluster's rig: an answer that fails or lacks a key is a later one, and the failure shows the last."""

from itertools import chain, repeat
from typing import Any

import pytest

from tests.cluster import cluster as rig
from tests.cluster.cluster import Cluster
from tests.rig import RigError


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setattr(rig, "POLL_SECONDS", 0.0)
    return object.__new__(Cluster)  # a wait needs no node


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rig, "patience", lambda _: 0.0)


def asked(*answers: Any) -> Any:
    """Return a look with these answers, the last one again and again; an exception is raised."""
    coming = chain(answers, repeat(answers[-1]))

    def look() -> Any:
        answer = next(coming)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return look


@pytest.mark.parametrize(
    "early", [RigError("busy"), OSError("no cgroup"), KeyError("pools"), 0, {}], ids=repr
)
def test_wait_returns_the_first_true_answer(cluster: Cluster, early: object):
    assert cluster.wait(asked(early, {"cpus": "1"}), "its CPUs") == {"cpus": "1"}


@pytest.mark.parametrize(
    ("last", "shown"), [(RigError("busy"), "RigError('busy')"), ({}, "{}")], ids=["error", "answer"]
)
@pytest.mark.usefixtures("impatient")
def test_vain_wait_shows_the_last_answer(cluster: Cluster, last: object, shown: str):
    with pytest.raises(AssertionError) as failed:
        cluster.wait(asked(last), "a pod")
    assert str(failed.value) == f"waited 0 s in vain for a pod; at last: {shown}"


def test_wait_lets_another_error_through(cluster: Cluster):
    with pytest.raises(ZeroDivisionError):
        cluster.wait(asked(ZeroDivisionError()), "a pod")


@pytest.mark.usefixtures("impatient")
def test_value_that_stays_another_is_shown(cluster: Cluster):
    cluster.becomes(asked("a", "b"), "a", "a letter")
    with pytest.raises(AssertionError, match=r"seen='b', wanted='a'"):
        cluster.becomes(asked("b"), "a", "a letter")
