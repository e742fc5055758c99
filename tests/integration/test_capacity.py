"""Lending on a simulated node whose containers use CPU and memory: the offer, memory limits, and the end."""

import shutil
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from nri_coloc.cli.main import main
from nri_coloc.core.workload import Resources
from nri_coloc.forecast.slow_loop import PERIOD_S
from nri_coloc.sim.memory_use import Held
from nri_coloc.sim.node import Node
from tests.integration.harness import (
    assert_unhurt,
    daemon_of,
    file,
    journal,
    reclaimed,
    reload,
    served,
    shared,
    status,
)
from tests.rig.daemon import Daemon
from tests.rig.waiting import wait_until

LENDING = "reclaim: {enabled: true}\n"
GIB = 1 << 30
SOON_S = 3 * PERIOD_S + 30
"""Three turns of the slow loop, on a machine with something else to do."""

OFFERED = ("cpu_milli", "memory_bytes", "headroom_cpu_milli", "headroom_memory_bytes")
OFFERED_AS_METRICS = ("capacity_cpu_milli", "capacity_memory_bytes", *OFFERED[2:])

BOUNDS = {1: "memory.limit_in_bytes", 2: "memory.max"}
NO_BOUND = {1: "9223372036854771712", 2: "max"}


class Rig:
    def __init__(self, node: Node, daemon: Daemon) -> None:
        self.node, self.daemon = node, daemon

    def capacity(self) -> dict[str, Any]:
        return dict(self.daemon._json("/v1/capacity"))

    def bound(self, container: str) -> str | None:
        """Return the memory limit of a container's pod."""
        pod = self.node.runtime.containers[container].pod.id
        return file(self.node, pod, BOUNDS[self.node.tree.version])

    def resize(self, container: str, limit: int) -> None:
        """Resize as the kubelet does: write the pod's cgroup, and have the runtime write the container's."""
        runtime = self.node.runtime
        self.node.tree.write(
            runtime.containers[container].pod.cgroup, BOUNDS[self.node.tree.version], str(limit)
        )
        runtime.update(container, Resources(memory_limit=limit))

    def await_turns(self, count: int) -> None:
        """Wait until the slow loop has run this many times."""
        for _ in range(count):
            before = self.capacity()["at"]
            wait_until(lambda: self.capacity()["at"] != before, SOON_S, "another turn")  # noqa: B023 - called at once


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def rig(request, tmp_path) -> Iterator[Rig]:
    with Node(tmp_path, cgroup=request.param) as node, daemon_of(node, config=LENDING) as daemon:
        node.start_clock()
        yield Rig(node, served(daemon))


def test_the_offer_follows_the_load_and_says_why(rig):
    web = shared(rig.node, "web", 100)
    rig.node.set_memory(web, Held(anon=4 * GIB))
    rig.node.set_demand(web, 1.0)  # after its memory: a snapshot may be taken at any moment
    calm: dict[str, Any] = {}

    def is_without_web() -> bool:
        calm.update(rig.capacity())
        memory = calm["memory_bytes"] < calm["headroom_memory_bytes"] + GIB < 28 * GIB
        return bool(memory and 0 < calm["cpu_milli"] < 6700)

    wait_until(is_without_web, SOON_S, "an offer without what web uses")
    assert calm["reason"] == "learning"
    assert "most: shop/web" in calm["because"]
    rig.node.set_demand(web, 6.0)
    wait_until(lambda: rig.capacity()["headroom_cpu_milli"] < 2000, SOON_S, "the headroom to fall")
    wait_until(lambda: rig.capacity()["cpu_milli"] < 2000, SOON_S, "the offer to fall")
    assert rig.capacity().keys() == {
        "cpu_milli", "memory_bytes", "headroom_cpu_milli", "headroom_memory_bytes", "online_cpu_milli",
        "reason", "because", "at",
    }  # fmt: skip
    assert_unhurt(rig.daemon)


@pytest.mark.parametrize("sharing", ["overlap", "partition"])
def test_nothing_is_offered_before_the_runtime_has_told_who_there_is(tmp_path, sharing):
    lending = f"reclaim: {{enabled: true, sharing: {sharing}}}\n"
    with Node(tmp_path, cgroup=1) as node, daemon_of(node, config=lending) as daemon:
        daemon.terminate()
        web = shared(node, "web")
        node.set_demand(web, 6.0)
        node.start_clock()
        node.kill_runtime()
        daemon.start()
        wait_until(lambda: status(daemon, "/healthz"), SOON_S, "an answer over HTTP")
        rig = Rig(node, daemon)
        rig.await_turns(3)
        found = rig.capacity()
        assert [found[name] for name in OFFERED] == [0, 0, 0, 0]
        assert found["because"] == "the runtime has not listed its containers yet"
        assert [daemon.metric(f"nri_coloc_{name}") for name in OFFERED_AS_METRICS] == [0, 0, 0, 0]
        node.start_runtime()
        wait_until(lambda: rig.capacity()["memory_bytes"] > 0, SOON_S, "an offer")
        assert "most: shop/web" in rig.capacity()["because"]
        assert_unhurt(daemon)


def test_nobody_is_promised_more_than_an_operator_lets_the_box_have(rig):
    reclaimed(rig.node, "batch")
    wait_until(lambda: rig.capacity()["headroom_cpu_milli"] > 2000, SOON_S, "a headroom of more")
    wait_until(lambda: rig.capacity()["cpu_milli"] > 2000, SOON_S, "an offer of more")
    reload(rig.daemon, f"pools: {{reclaim: {{maxCPUs: 2}}}}\n{LENDING}")
    wait_until(lambda: rig.capacity()["cpu_milli"] == 2000, SOON_S, "an offer up to its maximum")
    assert "no more than the 2000m of pools.reclaim.maxCPUs" in rig.capacity()["because"]
    wait_until(lambda: rig.capacity()["headroom_cpu_milli"] == 2000, SOON_S, "a headroom of that")
    assert_unhurt(rig.daemon)


def test_the_boxs_memory_follows_online_pods_and_restores(rig):
    batch = reclaimed(rig.node, "batch")
    rig.node.set_memory(batch, Held(anon=GIB, inactive_file=GIB))
    wait_until(
        lambda: (rig.bound(batch) or "").isdigit() and int(rig.bound(batch)) < 1 << 40, SOON_S, "a bound"
    )
    before = int(rig.bound(batch))
    assert 28 * GIB < before < 34 * GIB
    web = shared(rig.node, "web")
    rig.node.set_memory(web, Held(anon=20 * GIB))
    wait_until(lambda: int(rig.bound(batch)) < before - 18 * GIB, SOON_S, "a smaller reclaim pool")
    wait_until(lambda: last_told(rig)["after"]["memory.limit"] < before - 18 * GIB, SOON_S, "a record of it")
    assert {"free_bytes", "claimed_bytes", "margin_bytes"} <= last_told(rig)["inputs"].keys()
    rig.daemon.terminate()
    assert int(rig.bound(batch)) < before - 18 * GIB, "the last limits stay"
    state, root = str(rig.daemon.state_dir), str(rig.node.host_root)
    assert main(["restore", "--files-only", "--state-dir", state, "--host-root", root], {}) == 0
    assert rig.bound(batch) == NO_BOUND[rig.node.tree.version]


def test_a_reclaimed_pods_resize_bounds_it_and_becomes_its_original_value(rig):
    batch = reclaimed(rig.node, "batch")
    wait_until(lambda: rig.bound(batch) != NO_BOUND[rig.node.tree.version], SOON_S, "a bound")
    rig.resize(batch, 4 * GIB)
    rig.await_turns(2)
    assert rig.bound(batch) == str(4 * GIB)
    rig.resize(batch, 200 * GIB)
    wait_until(lambda: 28 * GIB < int(rig.bound(batch)) < 34 * GIB, SOON_S, "the CPUs of the reclaim pool")
    rig.daemon.terminate()
    state, root = str(rig.daemon.state_dir), str(rig.node.host_root)
    assert main(["restore", "--files-only", "--state-dir", state, "--host-root", root], {}) == 0
    assert rig.bound(batch) == str(200 * GIB)


def last_told(rig: Rig) -> dict[str, Any]:
    return dict(rig.daemon.audit("reclaim.memory")[-1])


def test_a_daemon_takes_over_after_a_kill(rig):
    batch, other = reclaimed(rig.node, "batch"), reclaimed(rig.node, "other")
    nothing = [NO_BOUND[rig.node.tree.version]] * 2
    wait_until(lambda: not {rig.bound(batch), rig.bound(other)} & {*nothing}, SOON_S, "bounds of both")
    rig.daemon._end(signal.SIGKILL)
    rig.daemon.config.write("reclaim: {enabled: false}\n")
    rig.daemon.start()
    served(rig.daemon)
    wait_until(
        lambda: [rig.bound(batch), rig.bound(other)] == nothing, SOON_S, "what was there before the first"
    )


def test_a_host_group_is_lent_memory_and_restored(rig):
    tree, name = rig.node.tree, BOUNDS[rig.node.tree.version]
    weight = "cpu.shares" if tree.version == 1 else "cpu.weight"
    tree.make("hadoop-yarn")
    before = {file: tree.read("hadoop-yarn", file) for file in ("cpuset.cpus", weight, name)}
    web = shared(rig.node, "web")
    rig.node.set_demand(web, 6.0)
    reload(rig.daemon, "reclaim: {members: [/hadoop-yarn, kubelet/nothing-there]}\n")
    wait_until(lambda: tree.effective("hadoop-yarn").bit_count() <= 2, SOON_S, "the reclaim pool's CPUs")
    wait_until(lambda: tree.read("hadoop-yarn", name) != before[name], SOON_S, "a part of its memory")
    wait_until(lambda: tree.read("hadoop-yarn", weight) in ("1", "2"), SOON_S, "the smallest weight")
    wait_until(
        lambda: any(
            "hadoop-yarn" in r["because"] for r in rig.daemon.audit("pod.limit", reason="box_member")
        ),
        SOON_S,
        "the record of the group",
    )
    wait_until(lambda: 0 <= rig.capacity()["cpu_milli"] <= 2000, SOON_S, "its share, which it can ask for")
    wait_until(lambda: "shop/web" in rig.capacity()["because"], SOON_S, "whose use leaves no more")
    assert rig.daemon.container(web)["cpus"] == "0-7"
    tree.write("hadoop-yarn", weight, "500")
    wait_until(lambda: tree.read("hadoop-yarn", weight) in ("1", "2"), SOON_S, "its weight again")
    assert "repaired in hadoop-yarn: " in rig.daemon.audited("drift.repair", SOON_S, pod="")["because"]
    reload(rig.daemon, LENDING)
    wait_until(
        lambda: {file: tree.read("hadoop-yarn", file) for file in before} == before, SOON_S, "its own values"
    )
    assert_unhurt(rig.daemon)


def test_a_host_group_without_a_cpuset_is_reported_and_left_alone(rig):
    tree = rig.node.tree
    weight = "cpu.shares" if tree.version == 1 else "cpu.weight"
    tree.make("hadoop-yarn")
    before = tree.read("hadoop-yarn", weight)
    sets = [each for each in tree.folder("cpuset.cpus", "hadoop-yarn").iterdir() if "cpuset" in each.name]
    kept = {each: each.read_text() for each in sets}
    for each in sets:
        each.unlink()
    if tree.version == 1:
        shutil.rmtree(tree.folder("cpuset.cpus", "hadoop-yarn"))
    reload(rig.daemon, "reclaim: {members: [hadoop-yarn]}\n")
    record = rig.daemon.audited("pod.limit", SOON_S, reason="no_cpuset")
    assert "hadoop-yarn" in record["because"]
    assert tree.read("hadoop-yarn", weight) == before
    for each, text in kept.items():
        each.parent.mkdir(exist_ok=True)
        each.write_text(text)
    wait_until(lambda: tree.read("hadoop-yarn", weight) in ("1", "2"), SOON_S, "the smallest weight")
    assert_unhurt(rig.daemon)


def test_an_observer_tells_and_writes_nothing(tmp_path):
    with Node(tmp_path) as node, daemon_of(node, config=f"mode: observe\n{LENDING}") as daemon:
        served(daemon)
        rig = Rig(node, daemon)
        batch = reclaimed(node, "batch")
        daemon.audited("reclaim.memory", SOON_S)
        wait_until(lambda: rig.capacity()["cpu_milli"] > 7000, SOON_S, "an offer")
        assert rig.bound(batch) == "max"
        assert journal(daemon) == []
        wait_until(lambda: daemon.check("readings")["ok"], SOON_S, "readings")


def test_metrics_say_what_is_lent_and_what_it_costs_to_know(rig):
    reaches(rig, "nri_coloc_capacity_cpu_milli", 7000)
    reaches(rig, "nri_coloc_capacity_memory_bytes", 28 * GIB)
    reaches(rig, "nri_coloc_headroom_memory_bytes", 28 * GIB)
    reaches(rig, "nri_coloc_picture_seconds_count", 2)


def reaches(rig: Rig, sample: str, least: float) -> None:
    wait_until(lambda: rig.daemon.metric(sample) >= least, SOON_S, f"{sample} of {least}")
