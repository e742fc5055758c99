"""`nri-coloc restore` writes the original value into every file that the daemon wrote."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from nri_coloc.core.workload import Resources
from nri_coloc.sim.node import Node
from nri_coloc.sim.spec import ContainerRequest, PodRequest, native
from tests.integration.harness import (
    ON_V2,
    QOS,
    Done,
    daemon_of,
    dedicated,
    file,
    journal,
    pod,
    reclaimed,
    reload,
    restore_of,
    served,
    shared,
)
from tests.rig.daemon import Daemon
from tests.rig.waiting import wait_until

MI = 1 << 20
GRACE_S = 5.0
"""What the DaemonSet allows for the end. Putting everything back takes half a second, and two on a machine that does
much else: gRPC is loaded for it.
"""


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def node(tmp_path: Path, request: pytest.FixtureRequest):
    with Node(tmp_path, cgroup=request.param) as node:
        yield node


@pytest.fixture
def restore(node: Node, daemon: Daemon, capfd: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """Return the command, for this node's daemon and its runtime."""
    return restore_of(node, daemon, capfd)


POD_FILES = ("cpuset.cpus", "cpu.shares", "cpu.weight", "io.weight", "io.bfq.weight", "blkio.bfq.weight")
CLASSES = ("kubepods", "kubepods/burstable", "kubepods/besteffort")


def values(node: Node, paths: list[str]) -> dict[str, str | None]:
    """Return the values in the cgroups that we may write, without the newlines that a v1 or a simulated file keeps."""
    names = (*POD_FILES, "memory.min", "memory.low")
    found = {f"{path}/{name}": node.tree.read(path, name) for path in paths for name in names}
    return {name: text and text.strip().removeprefix("default ") for name, text in found.items()}


def a_node_that_was_touched(node: Node, daemon: Daemon) -> tuple[list[str], dict[str, str | None]]:
    """Return the paths of pods that ran before the daemon started, and the values in their cgroups at that time."""
    protected = {"coloc.nri.io/memory-min": str(MI), QOS: "shared"}
    first = node.run_pod(PodRequest("a", "shop", annotations=protected, shares=512))
    node.run_container(first, ContainerRequest("app", native(100), oom_score_adj=500))
    reclaimed(node)
    web = pod(node, "web", "dedicated")
    paths = [*CLASSES, *(one.cgroup for one in node.runtime.pods.values())]
    before = values(node, paths)
    daemon.start()
    served(daemon)
    node.run_container(web, ContainerRequest("app", native(2000, 2000)))
    wait_until(lambda: values(node, paths) != before, 20, "the daemon to write something")
    wait_until(
        lambda: node.tree.read(node.runtime.pods[node.pod("shop/batch")].cgroup, "cpuset.cpus") == "2-7",
        20,
        "the box",
    )
    return paths, before


@pytest.fixture
def daemon(node: Node) -> Iterator[Daemon]:
    """Yield a daemon that is not started yet; its state folder exists."""
    daemon = daemon_of(node)
    daemon.state_dir.mkdir()
    with closing(daemon):
        yield daemon


def test_pods_and_classes_have_their_former_values_again(node, daemon, restore):
    paths, before = a_node_that_was_touched(node, daemon)
    daemon.terminate()
    done = restore()
    assert (done.code, done.err) == (0, "")
    assert values(node, paths) == before
    assert "0 refused" in done.out
    assert journal(daemon) == []


def test_a_second_time_there_is_nothing_to_do(node, daemon, restore):
    paths, before = a_node_that_was_touched(node, daemon)
    daemon.kill()
    restore()
    done = restore()
    assert (done.code, done.out) == (
        0,
        "0 restored, 0 gone, 0 refused\nspecs of containers: 0 restored, 0 not\n",
    )
    assert values(node, paths) == before


@ON_V2
def test_it_refuses_beside_a_running_daemon(node, daemon, restore):
    daemon.start()
    served(daemon)
    reclaimed(node)
    before = journal(daemon)
    done = restore()
    assert done.code == 2
    assert "stop it first" in done.err
    assert journal(daemon)[: len(before)] == before, "it may have noted more since"


@ON_V2
def test_a_torn_journal_gives_back_the_whole_lines(node, daemon, restore):
    paths, before = a_node_that_was_touched(node, daemon)
    daemon.kill()
    with (daemon.state_dir / "restore.jsonl").open("ab") as file:
        file.write(b'{"file":"/sys/fs/cgroup/kubepods/cpu.sh')
    assert restore().code == 0
    assert values(node, paths) == before


@ON_V2
def test_lines_that_are_no_entries_are_counted_and_kept(node, daemon, restore):
    paths, before = a_node_that_was_touched(node, daemon)
    daemon.kill()
    path = daemon.state_dir / "restore.jsonl"
    whole = path.read_bytes()
    garbage = (
        b'\x00\xff{"file"\n[]\n7\n{"file":"/x"}\n{"file":7,"was":7}\n{"file":"/a\\u0000b","was":"1"}\n'
        + b"[" * 10**5
    )
    path.write_bytes(garbage + b"\n" + whole)
    done = restore()
    assert "without an entry" in done.err
    assert "Traceback" not in done.err
    assert values(node, paths) == before
    assert path.with_name("restore.jsonl.kept-1").read_bytes().startswith(garbage)


@ON_V2
def test_an_impossible_value_is_reported_and_kept(node, daemon, restore):
    reclaimed(node)
    cgroup = node.runtime.pods[node.pod("shop/batch")].cgroup
    file = node.tree.folder("cpuset.cpus", cgroup) / "cpuset.cpus"
    shown = str(file).removeprefix(str(node.host_root))
    entry = {"file": shown, "was": "from 0 to 7"}
    (daemon.state_dir / "restore.jsonl").write_text(json.dumps(entry) + "\n")
    done = restore()
    assert done.code == 1
    assert shown in done.err
    assert "Traceback" not in done.err
    assert journal(daemon) == [entry]


@ON_V2
def test_without_a_state_folder_it_says_so(daemon, restore):
    daemon.state_dir.rmdir()
    done = restore()
    assert done.code == 2
    assert "--state-dir" in done.err
    assert not daemon.state_dir.exists()


def test_what_was_given_back_once_is_not_given_back_again(node, daemon, restore):
    """A pod has left the reclaim cgroups; values that the kubelet wrote since then are the kubelet's."""
    request = PodRequest("mixed", "shop", annotations={QOS: "reclaimed"}, shares=1024)
    daemon.start()
    served(daemon)
    pod_id = node.run_pod(request)
    cgroup = node.runtime.pods[pod_id].cgroup
    name = "cpu.shares" if node.tree.version == 1 else "cpu.weight"
    node.run_container(pod_id, ContainerRequest("batch"))
    daemon.config.write("classes: {rules: []}\nmode: enforce\n")
    request.annotations[QOS] = "shared"  # type: ignore[index]  # a dict, declared read-only
    node.kill_runtime()
    node.start_runtime()
    wait_until(
        lambda: node.tree.read(cgroup, name) == node.tree.weight(1024)[1], 20, "the weight to come back"
    )
    node.tree.write(cgroup, *node.tree.weight(4096))
    daemon.terminate()
    assert restore().code == 0
    assert node.tree.read(cgroup, name) == node.tree.weight(4096)[1]


@ON_V2
def test_root_is_not_needed_to_be_told_that_there_is_nothing(node, daemon, restore):
    (daemon.state_dir / "restore.jsonl").unlink(missing_ok=True)
    done = restore()
    assert (done.code, done.out) == (
        0,
        "0 restored, 0 gone, 0 refused\nspecs of containers: 0 restored, 0 not\n",
    )
    assert [path.name for path in daemon.state_dir.iterdir()] == ["lock"]


def test_at_its_end_the_daemon_restores_if_it_is_configured_to(node, daemon):
    daemon.config.write("reclaim: {enabled: false, features: [restore-on-exit]}\n")
    paths, before = a_node_that_was_touched(node, daemon)
    assert daemon.terminate(GRACE_S) == 0
    assert values(node, paths) == before
    assert journal(daemon) == []


def test_a_resize_just_before_the_end_is_restored(node, daemon):
    daemon.config.write("reclaim: {features: [restore-on-exit]}\n")
    sandbox = node.run_pod(PodRequest("batch", "shop", annotations={QOS: "reclaimed"}, shares=512))
    batch = node.run_container(sandbox, ContainerRequest("app", native(500)))
    cgroup, name = node.runtime.pods[sandbox].cgroup, ("cpu.shares", "cpu.weight")[node.tree.version - 1]
    before = node.tree.read(cgroup, name)
    daemon.start()
    served(daemon)
    wait_until(lambda: node.tree.read(cgroup, name) not in ("", before), 20, "the least weight")
    node.runtime.update(batch, native(1000))
    node.tree.write(cgroup, name, "777")
    assert daemon.terminate(GRACE_S) == 0
    assert (node.tree.read(cgroup, name) or "").strip() == "777"


@pytest.fixture
def resized_while_stopped(node: Node, daemon: Daemon) -> tuple[str, str]:
    """Resize a reclaimed pod after the daemon was killed; return the pod's id and the kubelet's CPU weight."""
    sandbox = pod(node, "batch", "reclaimed", milli=100)
    node.run_container(sandbox, ContainerRequest("app", native(100)))
    daemon.start()
    served(daemon)
    daemon.wait_written()
    daemon.kill()
    node.resize_pod(sandbox, 2048)
    return sandbox, node.tree.weight(2048)[1]


def weight_of(node: Node, sandbox: str) -> str:
    name = ("cpu.shares", "cpu.weight")[node.tree.version - 1]
    return (file(node, sandbox, name) or "").strip()


def test_the_next_process_keeps_a_resize_while_stopped(node, daemon, restore, resized_while_stopped):
    sandbox, weight = resized_while_stopped
    daemon.start()
    served(daemon)
    daemon.wait_written()
    daemon.kill()
    restore()
    assert weight_of(node, sandbox) == weight


def test_restore_keeps_a_resize_while_stopped(node, restore, resized_while_stopped):
    sandbox, weight = resized_while_stopped
    restore()
    assert weight_of(node, sandbox) == weight


@ON_V2
def test_an_observers_end_restores_nothing_of_earlier_processes(node, daemon):
    paths, before = a_node_that_was_touched(node, daemon)
    daemon.kill()
    left = values(node, paths)
    daemon.config.write("mode: observe\nreclaim: {enabled: false, features: [restore-on-exit]}\n")
    daemon.start()
    served(daemon)
    assert daemon.terminate(GRACE_S) == 0
    assert values(node, paths) == left != before


def test_bursts_of_pods_that_ran_before_and_after_are_given_back(node, daemon, restore):
    bursting = {"coloc.nri.io/cpu-burst": "100"}
    web = pod(node, "bursting", annotations=bursting)
    node.run_container(web, ContainerRequest("app", native(1000, 1000)))
    cgroup = node.runtime.pods[web].cgroup
    name = "cpu.cfs_burst_us" if node.tree.version == 1 else "cpu.max.burst"
    daemon.start()
    served(daemon)
    wait_until(lambda: node.tree.read(cgroup, name) == "100000", 20, "the pod's burst")
    daemon.kill()
    assert restore().code == 0
    assert (node.tree.read(cgroup, name) or "").strip() == "0"


# ---- the runtime's specs ----


def spec_of(node: Node, container_id: str) -> dict[str, object]:
    """Return the values of a runtime's spec that an update can carry."""
    resources = node.runtime.containers[container_id].resources
    cpu = resources.cpu
    return {
        "cpus": cpu.cpus,
        "shares": cpu.shares.value,
        "quota": cpu.quota.value,
        "memory": resources.memory.limit.value,
    }


@pytest.fixture
def created(node: Node, daemon: Daemon) -> dict[str, str]:
    """Return containers that were created while the daemon ran, by name; then the daemon is killed."""
    daemon.start()
    served(daemon)
    amounts = {"kubernetes.io/batch-cpu": 500, "kubernetes.io/batch-memory": 64 * MI}
    lent = json.dumps({"containers": {"app": {"requests": amounts, "limits": amounts}}})
    annotations = {"node.koordinator.sh/extended-resource-spec": lent}
    found = {
        "web": dedicated(node),
        "neighbour": shared(node),
        "batch": reclaimed(node, annotations=annotations),
    }
    daemon.kill()
    return found


NATIVE = {
    "web": {"shares": 2048, "quota": 200_000, "memory": 0},
    "neighbour": {"shares": 102, "quota": 0, "memory": 0},
    "batch": {"shares": 2, "quota": -1, "memory": -1},
}


def test_containers_of_our_time_have_what_the_kubelet_asked_for(node, created, restore):
    assert spec_of(node, created["batch"]) == {"cpus": "", "shares": 512, "quota": 50_000, "memory": 64 * MI}
    done = restore()
    assert (done.code, done.err) == (0, "")
    assert "sent to the runtime: shop/batch/app: shares=2, quota=-1, memory.limit=-1" in done.out
    for name, wanted in NATIVE.items():
        cpus = "" if name == "batch" else "0-7"
        assert spec_of(node, created[name]) == {**wanted, "cpus": cpus}, name
    cgroups = {name: node.runtime.containers[k].cgroup for name, k in created.items()}
    for cgroup in cgroups.values():
        assert node.tree.effective(cgroup) == 0xFF
    shown = {name: node.tree.read(cgroup, node.tree.weight(2)[0]) for name, cgroup in cgroups.items()}
    assert shown == {name: node.tree.weight(int(NATIVE[name]["shares"]))[1] for name in NATIVE}
    again = restore()
    assert (again.code, again.out.splitlines()[-1]) == (0, "specs of containers: 0 restored, 0 not")


SETTINGS = "classes: {shared: {memoryHigh: %dMi, oomScoreAdj: %d}}\n"


def values_of_files(node: Node, container_id: str) -> dict[str, str | int | None]:
    container = node.runtime.containers[container_id]
    score = node.processes.oom_score_adj(container.pid)
    return {"memory.high": node.tree.read(container.cgroup, "memory.high"), "oom_score_adj": score}


@ON_V2
@pytest.mark.parametrize("restored", [True, False], ids=["restored", "killed"])
def test_the_next_life_brings_what_no_push_carries(node, daemon, restore, restored):
    daemon.config.write(SETTINGS % (256, 990))
    daemon.start()
    served(daemon)
    app = shared(node)
    assert values_of_files(node, app) == {"memory.high": str(256 * MI), "oom_score_adj": 990}
    daemon.kill()
    if restored:
        assert restore().code == 0
        assert values_of_files(node, app) == {"memory.high": "max", "oom_score_adj": 1000}
    daemon.config.write(SETTINGS % (512, 970))
    daemon.start()
    served(daemon)
    wanted = {"memory.high": str(512 * MI), "oom_score_adj": 970}
    wait_until(lambda: values_of_files(node, app) == wanted, 20, "the present settings")
    daemon.kill()
    assert restore().code == 0
    assert values_of_files(node, app) == {"memory.high": "max", "oom_score_adj": 1000}


ONLINE = "classes: {rules: [{namespace: shop, class: shared}]}\n"


def test_a_pod_unreclaimed_by_reload_may_use_all_cpus(node, daemon, restore):
    daemon.start()
    served(daemon)
    batch = reclaimed(node)
    dedicated(node)
    cgroup = node.runtime.containers[batch].cgroup
    wait_until(
        lambda: node.tree.effective(cgroup) == 0xFC, 20, "the reclaim pool to leave the dedicated CPUs"
    )
    reload(daemon, ONLINE)
    wait_until(lambda: spec_of(node, batch)["cpus"] == "2-7", 20, "its pool's CPUs in its spec")
    daemon.kill()
    done = restore()
    assert (done.code, done.err) == (0, "")
    assert node.tree.effective(cgroup) == 0xFF
    assert spec_of(node, batch) == {**NATIVE["neighbour"], "shares": 2, "cpus": "0-7"}


def test_what_was_lent_is_nobodys_original(node, created, daemon, restore):
    daemon.start()
    served(daemon)
    reload(daemon, ONLINE)
    batch = created["batch"]
    wait_until(lambda: spec_of(node, batch)["memory"] == -1, 20, "no limit in its spec")
    daemon.kill()
    noted = {entry["file"].rpartition("/")[2] for entry in journal(daemon) if batch in entry["file"]}
    assert noted.isdisjoint({"cpu.max", "memory.max", "memory.swap.max"})
    assert noted.isdisjoint({"cpu.cfs_quota_us", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"})
    assert restore().code == 0
    bounds = [file(node, batch, name) for name in ("memory.limit_in_bytes", "memory.max")]
    assert [text for text in bounds if text] == ["-1" if node.tree.version == 1 else "max"]


def test_shares_of_a_reloaded_class_are_the_kubelets_again(node, daemon, restore):
    daemon.start()
    served(daemon)
    app = node.run_container(pod(node, "web", "shared"), ContainerRequest("app", Resources(shares=2)))
    reload(daemon, "classes: {shared: {cpuShares: 4096}}\n")
    wait_until(lambda: spec_of(node, app)["shares"] == 4096, 20, "the class's shares in the spec")
    daemon.kill()
    assert restore().code == 0
    name, least = node.tree.weight(2)
    assert (spec_of(node, app)["shares"], file(node, app, name)) == (2, least)


def test_without_a_runtime_files_only_accepts_leftover_specs(node, created, daemon, restore):
    node.kill_runtime()
    done = restore()
    assert done.code == 1
    assert "specs could not be read" in done.err
    assert "Traceback" not in done.err
    assert restore("--files-only").code == 0
    node.start_runtime()
    assert restore().code == 0
    assert spec_of(node, created["batch"])["shares"] == 2


def test_an_earlier_containers_spec_is_restored_without_a_record(node, daemon, restore):
    neighbour, web = shared(node), pod(node, "web", "dedicated")
    before = spec_of(node, neighbour)
    daemon.start()
    served(daemon)
    node.run_container(web, ContainerRequest("app", native(2000, 2000)))
    wait_until(lambda: spec_of(node, neighbour)["cpus"] == "2-7", 20, "the push or the reply")
    daemon.kill()
    assert restore().code == 0
    assert spec_of(node, neighbour) == {**before, "cpus": "0-7"}


def test_at_its_end_the_daemon_tells_the_runtime_too(node, daemon):
    daemon.config.write("reclaim: {enabled: false, features: [restore-on-exit]}\n")
    daemon.start()
    served(daemon)
    neighbour, _ = shared(node), dedicated(node)
    wait_until(lambda: spec_of(node, neighbour)["cpus"] == "2-7", 20, "the push or the reply")
    assert daemon.terminate(GRACE_S) == 0
    assert spec_of(node, neighbour)["cpus"] == "0-7"


def test_shares_restored_already_stay_the_kubelets(node, daemon, restore):
    daemon.config.write("classes: {shared: {cpuShares: 4096}}\n")
    daemon.start()
    served(daemon)
    app = node.run_container(pod(node, "web", "shared"), ContainerRequest("app", Resources(shares=2)))
    assert spec_of(node, app)["shares"] == 4096
    reload(daemon, "")
    name, least = node.tree.weight(2)
    wait_until(lambda: spec_of(node, app)["shares"] == 2, 20, "the kubelet's shares in the spec")
    wait_until(lambda: node.tree.read(node.runtime.containers[app].cgroup, name) == least, 20, "its weight")
    daemon.kill()
    assert restore().code == 0
    assert (spec_of(node, app)["shares"], node.tree.read(node.runtime.containers[app].cgroup, name)) == (
        2,
        least,
    )
