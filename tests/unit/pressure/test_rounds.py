"""pressure.rounds: the choice of the pods that a turn reads."""

import os
from collections import Counter
from pathlib import Path

import pytest

from nri_coloc.core.state import Crowd
from nri_coloc.core.workload import QoSClass, Tolerance
from nri_coloc.host import cgroup_layout
from nri_coloc.host.stall_readings import StallReader
from nri_coloc.pressure.population import Online, Population, Reclaimed
from nri_coloc.pressure.rounds import LOOKS, ROUND, Rounds, looks, round_robin
from nri_coloc.sim.node import Node
from nri_coloc.sim.spec import ContainerRequest, PodRequest
from tests.scenario.versions import VERSIONS


@pytest.mark.parametrize("pods", [1, 8, 9, 20, 110])
def test_turns_name_each_pod_equally_often(pods: int):
    ids = [f"pod-{number}" for number in range(pods)]
    named = Counter(one for turn in range(pods) for one in round_robin(ids, 8, turn))
    assert named == dict.fromkeys(ids, min(8, pods))


def test_a_turn_names_the_next_pods():
    ids = ["a", "b", "c", "d", "e"]
    assert [round_robin(ids, 2, turn) for turn in range(3)] == [["a", "b"], ["c", "d"], ["e", "a"]]


def test_no_pods_are_no_turn():
    assert round_robin([], 8, 3) == []


@pytest.mark.parametrize(("pods", "count"), [(0, 8), (110, 8), (128, 8), (129, 9), (500, 32)])
def test_a_round_has_sixteen_turns_at_most(pods: int, count: int):
    assert looks(pods, LOOKS, ROUND) == count


FILES_OF_USE = {1: 4, 2: 3}
FILES_OF_STALLS = {1: 10, 2: 9}
"""Files of one pod with a container, by the version of cgroups; the stalls' include the use's."""


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("alarmed", [(), ("online-0",)], ids=["calm", "alarmed"])
def test_400_containers_cost_few_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, alarmed: tuple[str, ...]
):
    with Node(tmp_path, cgroup=version) as node:
        sandbox = node.run_pod(PodRequest("pod", "shop"))
        app = node.run_container(sandbox, ContainerRequest("app"))
        path, own = node.runtime.pods[sandbox].cgroup, node.runtime.containers[app].cgroup
        online = Online(path, (path,), (own,), Tolerance.NORMAL, QoSClass.SHARED, may_be_degraded=False)
        many = Population(
            pods={},
            containers=Crowd.of([]),
            online={f"online-{number}": online for number in range(200)},
            reclaimed={f"batch-{number}": Reclaimed(path, None) for number in range(200)},
            cpus=8,
        )
        rounds = Rounds(StallReader(cgroup_layout.detect(str(node.host_root)), str(node.host_root)))
        reads, pread = [0], os.pread

        def counted(descriptor: int, size: int, offset: int) -> bytes:
            reads[0] += 1
            return pread(descriptor, size, offset)

        monkeypatch.setattr(os, "pread", counted)
        for turn in range(1, 51):
            rounds.read(many, {}, float(turn), throttled=(), alarmed=alarmed)
    count = looks(200, LOOKS, ROUND)
    bound = count * FILES_OF_STALLS[version] + (200 if alarmed else count) * FILES_OF_USE[version]
    bound += FILES_OF_STALLS[version] * len(alarmed)
    assert 0.9 * bound < reads[0] / 50 <= bound + 1
