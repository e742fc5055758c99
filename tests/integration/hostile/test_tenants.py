"""Costs that a pod's author can cause by writing labels and annotations."""

from collections.abc import Mapping, Sequence

import pytest

from nri_coloc._pb import nri_pb2
from tests.integration.harness import QOS, assert_unhurt, cpu_seconds
from tests.integration.hostile.kit import RECORD, a_container, a_pod, is_served
from tests.rig import pace, tenants, vitals
from tests.rig.daemon import Daemon
from tests.rig.raw_runtime import RawPlugin

PIECES = 150
"""The most that a list of all pods may cost, 1.5 s on an idle machine (`pace`): the runtime waits for two seconds, and
needs a part of them itself."""

GROWTH_MIB = 48
"""The most that a list may add to the daemon, which has some 45 MiB; its manifest's limit is 192 MiB."""


def pods_with(annotations: Sequence[Mapping[str, str]]) -> list[nri_pb2.PodSandbox]:
    return [a_pod(f"p{number}", annotations=each) for number, each in enumerate(annotations)]


def containers_in(pods: Sequence[nri_pb2.PodSandbox], each: int) -> list[nri_pb2.Container]:
    return [a_container(f"c{number}", on=pod.name, milli=100) for pod in pods for number in range(each)]


LISTS = {
    "60 pods of foreign JSON": lambda: (pods_with([tenants.foreign()] * 60), 5),
    "110 pods of all that is read": lambda: (pods_with([tenants.readable(n) for n in range(110)]), 3),
    "110 pods with an emoji": lambda: (pods_with([tenants.with_emoji(n) for n in range(110)]), 1),
    "110 pods of bad keys": lambda: (pods_with([tenants.bad(n) for n in range(110)]), 3),
    "110 pods of 2,000 classes": lambda: (pods_with([tenants.many_classes(n) for n in range(110)]), 1),
    "40 pods of 87,000 annotations": lambda: (pods_with([tenants.tiny()] * 40), 1),
}


@pytest.mark.parametrize("make", LISTS.values(), ids=LISTS.keys())
def test_no_list_of_pods_costs_much(make, daemon: Daemon, plugin: RawPlugin):
    pods, each = make()
    containers = containers_in(pods, each)
    piece_s, before, began = pace.piece_s(), vitals.look(daemon.pid), cpu_seconds(daemon)
    plugin.synchronize(pods, containers)
    spent_s = cpu_seconds(daemon) - began
    assert spent_s < PIECES * max(piece_s, pace.piece_s())
    is_served(daemon, plugin)
    assert len(daemon.state()["containers"]) == len(containers)
    assert (vitals.look(daemon.pid).anon_kib - before.anon_kib) / 1024 < GROWTH_MIB


def test_a_list_of_any_size_is_taken(daemon: Daemon, plugin: RawPlugin):
    """A container's variables may come from maps of a mebibyte each."""
    pod = a_pod("p")
    containers = containers_in([pod], 80)
    for container in containers:
        container.env.append("X=" + "x" * (1 << 20))
    before = vitals.look(daemon.pid)
    plugin.synchronize([pod], containers)
    assert len(assert_unhurt(daemon)["containers"]) == 80
    assert (vitals.look(daemon.pid).anon_kib - before.anon_kib) / 1024 < GROWTH_MIB


def test_an_excess_is_told_once_and_nothing_counts(daemon: Daemon, plugin: RawPlugin):
    pod = a_pod(annotations={**tenants.foreign(), QOS: "dedicated"})
    plugin.hook("RunPodSandbox", pod=pod)
    for name in "abc":
        assert plugin.hook(
            "CreateContainer", pod=pod, container=a_container(name)
        ).adjust.linux.resources.cpu.cpus
    record = daemon.audited("annotation.invalid", key="*")
    assert tenants.READ_BYTES < int(record["value"].removesuffix(" bytes")) < tenants.KUBERNETES_BYTES + 100
    assert {c["class"] for c in assert_unhurt(daemon)["containers"]} == {"shared"}
    assert len(daemon.audit("annotation.invalid")) == 1


def test_a_container_costs_little_in_the_dearest_pod(daemon: Daemon, plugin: RawPlugin):
    pod = a_pod(annotations=tenants.readable(0))
    plugin.hook("RunPodSandbox", pod=pod)
    piece_s, began = pace.piece_s(), cpu_seconds(daemon)
    for number in range(100):
        plugin.hook("CreateContainer", pod=pod, container=a_container(f"c{number}", milli=100))
    spent_s = cpu_seconds(daemon) - began
    assert spent_s < PIECES / 2 * max(piece_s, pace.piece_s())


@pytest.mark.parametrize("key", ["overfull", "plain"])
def test_a_forged_record_is_not_believed_beside_an_excess(key, daemon: Daemon, plugin: RawPlugin):
    forged = '{"v":1,"class":"dedicated","pool":"dedicated","exclusive":"0-1"}'
    much = tenants.foreign() if key == "overfull" else {}
    container = a_container(milli=2000)
    container.annotations[RECORD] = forged
    plugin.synchronize([a_pod(annotations={**much, RECORD: forged})], [container])
    (found,) = assert_unhurt(daemon)["containers"]
    assert (found["class"], found["exclusive"]) == ("shared", False)
