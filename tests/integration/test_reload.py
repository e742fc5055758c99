"""A new configuration while the daemon runs: a valid one moves only the values that differ, any other nothing."""

import json
from collections.abc import Iterator

import pytest

from nri_coloc.core import cpuset
from nri_coloc.core.workload import Resources
from nri_coloc.sim.node import Node
from nri_coloc.sim.spec import ContainerRequest, PodRequest, native
from tests.integration.harness import (
    QOS,
    assert_unhurt,
    daemon_of,
    dedicated,
    file,
    reclaimed,
    reload,
    served,
    settled,
    shared,
    status,
)
from tests.rig.daemon import Daemon
from tests.rig.waiting import wait_until

BATCH = 'classes: {rules: [{namespace: "batch-*", class: reclaimed}]}\n'


def test_a_valid_one_moves_who_is_affected_and_nobody_else(node, daemon):
    owner, neighbour = dedicated(node), shared(node)
    untouched = file(node, owner, "cpuset.cpus")
    reload(daemon, 'node: {reservedCPUs: "6-7"}\n')
    wait_until(lambda: cpuset.render(node.cpus(neighbour)) == "2-5", 20, "the neighbour to leave")
    assert cpuset.render(node.cpus(owner)) == "0-1"
    assert file(node, owner, "cpuset.cpus") == untouched
    assert daemon.metric('nri_coloc_config_reload_total{result="valid"}') >= 1
    assert assert_unhurt(daemon)["pools"]["reserved"]["cpus"] == "6-7"


def test_the_same_text_again_moves_nobody(node, daemon):
    shared(node)
    before = settled(daemon)
    resized = len(daemon.audit("pool.resize"))
    reload(daemon, "")
    assert assert_unhurt(daemon) == before
    assert len(daemon.audit("pool.resize")) == resized


def test_settings_beyond_the_machine_are_named(daemon):
    reload(daemon, 'node: {reservedCPUs: "99", reservedMemory: 1Ei}\n')
    wait_until(lambda: daemon.check("config")["detail"].count("node.reserved") == 2, 20, "the remarks")
    cpus, memory = daemon.state()["remarks"]
    assert cpus.startswith("node.reservedCPUs reserves no CPU: CPUs 99 are not online")
    assert memory.startswith("node.reservedMemory leaves no memory to lend")
    assert (daemon.check("config")["ok"], cpus in daemon.log()) == (True, True)


INVALID = {
    "half written": "node:\n  reservedCPUs: [0,",
    "an unknown key": "nodes: {}\n",
    "a bad value": "mode: maybe\n",
    "binary": "\x00\x01\x02",
    "a bomb": "a: &a [x,x]\nb: &b [*a,*a]\n",
    "brackets": "[" * 100_000,
    "a list": "- 1\n",
    "all CPUs reserved": 'node: {reservedCPUs: "0-7"}\n',
    "more CPUs than there are": "node: {reservedCPUs: 64}\n",
    "an unknown time zone": "schedule: {timeZone: Europe/Berlni, windows: [{lend: 0}]}\n",
    "a time zone as a path": "schedule: {timeZone: ../../etc/passwd}\n",
    "a time zone of 1 MB": f"schedule: {{timeZone: {'a' * (1 << 19)}}}\n",
    "a window without time": "schedule: {windows: [{from: 06:00, to: 06:00}]}\n",
    "33 windows": f"schedule: {{windows: [{', '.join(['{lend: 0}'] * 33)}]}}\n",
    "a grace without unit": "schedule: {grace: 10}\n",
    "too large": "# " + "x" * (1 << 20),
}


ONE_RESERVED = 'node: {reservedCPUs: "7"}\n'


@pytest.fixture(scope="module")
def unimpressed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """Yield one daemon for all configurations that must change nothing."""
    folder = tmp_path_factory.mktemp("unimpressed")
    with Node(folder, cgroup=1) as node, daemon_of(node, config=ONE_RESERVED) as daemon:
        served(daemon)
        shared(node)
        settled(daemon)
        yield daemon


@pytest.mark.parametrize("text", INVALID.values(), ids=INVALID.keys())
def test_an_invalid_one_changes_nothing_and_is_reported_everywhere(text, unimpressed):
    before = unimpressed.state()
    counted = unimpressed.metric('nri_coloc_config_reload_total{result="invalid"}')
    record = reload(unimpressed, text, "invalid")
    assert assert_unhurt(unimpressed) == before
    assert "nothing was changed" in str(record["because"])
    assert unimpressed.metric('nri_coloc_config_reload_total{result="invalid"}') == counted + 1
    check = unimpressed.check("config")
    assert (check["ok"], bool(check["detail"])) == (False, True)
    assert status(unimpressed, "/readyz") == 503
    assert "the configuration is invalid" in unimpressed.log()
    reload(unimpressed, ONE_RESERVED)
    assert unimpressed.check("config")["ok"]
    assert unimpressed.state() == before


def test_a_missing_file_changes_nothing_until_it_returns(tmp_path):
    with Node(tmp_path, cgroup=1) as node, daemon_of(node, config=ONE_RESERVED) as daemon:
        served(daemon)
        link = daemon.config.file.parent / "..data"
        target = link.readlink()
        link.unlink()
        wait_until(lambda: not daemon.check("config")["ok"], 20, "the file to be missed")
        assert "cannot be read" in daemon.check("config")["detail"]
        assert assert_unhurt(daemon)["pools"]["reserved"]["cpus"] == "7"
        link.symlink_to(target)
        wait_until(lambda: daemon.check("config")["ok"], 20, "the file to be found again")
        assert assert_unhurt(daemon)["pools"]["reserved"]["cpus"] == "7"


def test_a_file_that_becomes_a_folder_is_reported(tmp_path):
    with Node(tmp_path, cgroup=1) as node, daemon_of(node) as daemon:
        served(daemon)
        daemon.config.file.unlink()
        daemon.config.file.mkdir()
        wait_until(lambda: not daemon.check("config")["ok"], 20, "the folder to be noticed")
        assert_unhurt(daemon)


def test_a_rule_reclaims_live_pods_and_its_end_restores(node, daemon):
    pod_id = node.run_pod(PodRequest("etl", "batch-7", shares=1024))
    container_id = node.run_container(pod_id, ContainerRequest("app", native(500), oom_score_adj=950))
    disk, pid = (
        "blkio.bfq.weight" if node.tree.version == 1 else "io.weight",
        node.runtime.containers[container_id].pid,
    )
    weight, former = (
        ("cpu.shares", "1024") if node.tree.version == 1 else ("cpu.weight", node.tree.weight(1024)[1])
    )
    cpus = file(node, pod_id, "cpuset.cpus")
    dedicated(node)
    reload(daemon, BATCH)
    assert daemon.container(container_id)["class"] == "reclaimed"
    wait_until(lambda: file(node, pod_id, weight) in ("1", "2"), 20, "the smallest weight")
    wait_until(lambda: file(node, pod_id, "cpuset.cpus") == "2-7", 20, "the reclaim pool's CPUs")
    wait_until(
        lambda: (file(node, container_id, disk) or "").split()[-1:] == ["10"],
        20,
        "the reclaim cgroup's I/O weight",
    )
    wait_until(
        lambda: node.processes.oom_score_adj(pid) == 1000, 20, "the reclaimed container's oom_score_adj"
    )
    reload(daemon, "")
    assert daemon.container(container_id)["class"] == "shared"
    wait_until(lambda: file(node, pod_id, weight) == former, 20, "the weight to come back")
    wait_until(lambda: (file(node, pod_id, "cpuset.cpus") or "").strip() == cpus, 20, "its CPUs to come back")
    wait_until(lambda: cpuset.render(node.cpus(container_id)) == "2-7", 20, "its container to stay in share")
    wait_until(
        lambda: (file(node, container_id, disk) or "").split()[-1:] == ["100"],
        20,
        "its I/O weight to come back",
    )
    wait_until(lambda: node.processes.oom_score_adj(pid) == 950, 20, "the kubelet's score to come back")
    assert_unhurt(daemon)


TUNED = """classes:
  shared: {cpuShares: 4096, ioWeight: 300, oomScoreAdj: 321, memoryHigh: 64Mi, memoryLow: 32Mi, memoryMin: 16Mi}
"""


def _values(node: Node, container_id: str) -> dict[str, str]:
    """Return the values that a class can set of a container: by file, by process, and in the runtime's spec."""
    names = (
        "cpu.shares",
        "cpu.weight",
        "io.weight",
        "blkio.bfq.weight",
        "memory.high",
        "memory.low",
        "memory.min",
    )
    found = {name: (file(node, container_id, name) or "").strip().removeprefix("default ") for name in names}
    container = node.runtime.containers[container_id]
    found["spec"] = str(container.resources.cpu.shares.value)
    found["score"] = str(node.processes.oom_score_adj(container.pid))
    return found


@pytest.mark.parametrize("early", [True, False], ids=["ran before", "came later"])
def test_what_a_class_sets_no_more_is_what_it_was_before(lasting, early):
    node, daemon = lasting.emptied("" if early else TUNED), lasting.daemon
    like_it = shared(node, "untouched", milli=500)
    container_id = node.run_container(
        node.run_pod(PodRequest("web", "shop", annotations={QOS: "shared"})),
        ContainerRequest("app", Resources(shares=2, memory_limit=128 << 20), oom_score_adj=950),
    )
    reload(daemon, TUNED)
    wait_until(lambda: _values(node, container_id)["spec"] == "4096", 20, "the class's shares")
    assert node.runtime.containers[like_it].resources.cpu.shares.value == 512, "it has a request of its own"
    reload(daemon, "")
    most = str(sum(each["memory_bytes"] for each in daemon.state()["node"]["numa"]))
    was = {"spec": "2", "score": "950", "memory.low": "0", "memory.min": "0", "memory.high": most}
    was |= {"cpu.shares": "2", "cpu.weight": "1", "io.weight": "100", "blkio.bfq.weight": "100"}
    wait_until(
        lambda: all(was[name] == text for name, text in _values(node, container_id).items() if text),
        20,
        "its own values",
    )
    assert node.runtime.containers[like_it].resources.cpu.shares.value == 512
    assert_unhurt(daemon)


LENT = {"kubernetes.io/batch-cpu": 500, "kubernetes.io/batch-memory": 64 << 20}


def _bounds(node: Node, container_id: str) -> tuple[int, int, str, str]:
    """Return quota and memory limit of a container: in the runtime's spec, and in its files."""
    resources = node.runtime.containers[container_id].resources
    cpu, memory = ("cpu.cfs_quota_us", "memory.limit_in_bytes")
    if node.tree.version == 2:
        cpu, memory = ("cpu.max", "memory.max")
    quota, limit = ((file(node, container_id, name) or "").split()[0] for name in (cpu, memory))
    return (resources.cpu.quota.value, resources.memory.limit.value, quota, limit)


def test_who_comes_online_keeps_nothing_of_what_it_was_lent(lasting):
    node, daemon = lasting.emptied(), lasting.daemon
    lent = json.dumps({"containers": {"app": {"requests": LENT, "limits": LENT}}})
    batch = reclaimed(node, annotations={"node.koordinator.sh/extended-resource-spec": lent})
    assert _bounds(node, batch) == (50_000, 64 << 20, "50000", str(64 << 20))
    reload(daemon, "classes: {rules: [{namespace: shop, class: shared}]}\n")
    assert daemon.container(batch)["class"] == "shared"
    none = "-1" if node.tree.version == 1 else "max"
    wait_until(lambda: _bounds(node, batch) == (-1, -1, none, none), 20, "no quota and no limit")
    assert_unhurt(daemon)


def test_the_kubelet_can_resize_who_came_into_the_box(lasting):
    node, daemon = lasting.emptied(), lasting.daemon
    pod_id = node.run_pod(PodRequest("etl", "batch-7", shares=512))
    app = node.run_container(pod_id, ContainerRequest("app", native(500)))
    assert node.runtime.containers[app].resources.cpu.cpus == "0-7"
    reload(daemon, BATCH)
    dedicated(node)
    wait_until(
        lambda: cpuset.render(node.cpus(app)) == "2-7", 20, "the reclaim pool to leave the dedicated CPUs"
    )
    node.runtime.update(app, native(250))
    assert node.runtime.containers[app].resources.cpu.shares.value == 256
    assert cpuset.render(node.cpus(app)) == "2-7"
    assert_unhurt(daemon)


def test_what_only_a_restart_changes_is_said(node, daemon):
    record = reload(daemon, "telemetry: {http: '127.0.0.1:1', auditRing: 7}\n")
    assert "only a restart changes" in str(record["because"])
    assert status(daemon, "/healthz") == 200


def test_observing_begins_and_ends_by_a_reload(node, daemon):
    owner = dedicated(node)
    reload(daemon, "mode: observe\n")
    watched = shared(node)
    batch = reclaimed(node, "batch")
    assert cpuset.render(node.cpus(owner)) == "0-1"
    assert cpuset.render(node.cpus(watched)) == "0-7"
    assert assert_unhurt(daemon)["mode"] == "observe"
    reload(daemon, "mode: enforce\n")
    wait_until(lambda: cpuset.render(node.cpus(watched)) == "2-7", 20, "what was only watched to be placed")
    wait_until(lambda: cpuset.render(node.cpus(batch)) == "2-7", 20, "the reclaim pool to be limited")
    weight = ("cpu.shares", "2") if node.tree.version == 1 else ("cpu.weight", "1")
    box = node.pod("shop/batch")
    wait_until(
        lambda: file(node, box, weight[0]) == weight[1], 20, "its weight, which is written after its CPUs"
    )
    assert_unhurt(daemon)


def test_one_that_is_written_in_place_counts_once_it_is_whole(node, daemon):
    read = len(daemon.audit("config.reload"))
    with daemon.config.file.open("w") as writer:
        for line in ("strict: true\n", "mode: observe\n"):
            writer.write(line)
            writer.flush()
    wait_until(lambda: daemon.state()["mode"] == "observe", 20, "the whole file to be in force")
    wait_until(lambda: len(daemon.audit("config.reload")) > read, 20, "a record of it")
    assert len(daemon.audit("config.reload")) == read + 1, "and never half of it"


def test_containers_created_while_observing_get_values_when_enforcing(node, daemon):
    reload(daemon, "mode: observe\n")
    pod_id = node.run_pod(PodRequest("web", "shop", annotations={QOS: "reclaimed"}))
    container_id = node.run_container(pod_id, ContainerRequest("app", oom_score_adj=300))
    pid = node.runtime.containers[container_id].pid
    assert node.processes.oom_score_adj(pid) == 300
    reload(daemon, "mode: enforce\n")
    wait_until(lambda: node.processes.oom_score_adj(pid) == 1000, 20, "the class's oom score")
    assert_unhurt(daemon)
