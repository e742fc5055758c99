"""The rig itself starts, runs pods as a node would, and leaves nothing behind."""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import grpc
import pytest

from nri_coloc import errors
from nri_coloc.runtime.cri import ContainerFacts, CriClient
from tests.rig import RigError, cgroups, cleanup, kubepods, packages, versions
from tests.rig.configuration import Options
from tests.rig.containerd import Containerd
from tests.rig.cri import Cri
from tests.rig.waiting import comes, wait_until

pytestmark = pytest.mark.containerd


@pytest.mark.bears_load
def test_it_comes_up_in_the_version_that_was_asked_for(containerd: Containerd, cri: Cri):
    assert packages.upstream(cri.version()) >= ((1, 7) if containerd.version == "1.7" else (2, 1))
    assert cri.version().startswith(containerd.version)


@pytest.mark.bears_load
def test_versions_are_recorded(containerd: Containerd):
    recorded = versions.record(containerd)
    assert recorded.items() <= json.loads(versions.RECORD.read_text()).items()
    assert recorded[f"containerd-{containerd.version}"] == containerd.package.version


@pytest.mark.bears_load
def test_limits_arrive_in_the_cgroup(cri: Cri):
    pod = cri.run_pod("web")
    container = cri.run_container(
        pod, "app", shares=512, quota=50_000, period=100_000, memory=64 << 20, cpus="0", oom=600
    )
    cgroup = cri.cgroup(container)
    assert cgroups.cpus(cgroup) == cgroups.effective_cpus(cgroup) == frozenset({0})
    assert cgroups.quota(cgroup) == (50_000, 100_000)
    assert cgroups.memory_limit(cgroup) == 64 << 20
    assert cgroups.shares(cgroup) == (None if cgroups.is_v2() else 512)
    assert cgroups.allowed_cpus(cri.pid(container)) == frozenset({0})
    assert cgroups.oom_score_adj(cri.pid(container)) == 600


@pytest.mark.bears_load
def test_an_update_arrives_in_the_cgroup(cri: Cri):
    container = cri.run_container(cri.run_pod("web"), "app", shares=512)
    cri.update(container, shares=256, cpus="0")
    assert cgroups.cpus(cri.cgroup(container)) == frozenset({0})
    assert cri.status(container).status.resources.linux.cpu_shares == 256


@pytest.mark.bears_load
@pytest.mark.parametrize(
    "parent",
    [kubepods.GUARANTEED, kubepods.BURSTABLE, kubepods.BESTEFFORT],
    ids=lambda path: path.split("/")[-2],
)
def test_a_pod_has_the_cgroup_of_its_class(cri: Cri, parent: str):
    pod = cri.run_pod("web", cgroup_parent=parent)
    container = cri.run_container(pod, "app")
    assert cri.cgroup(container) == f"{parent.format(uid=pod.uid)}/{container}"
    assert cri.pid(container) in cgroups.pids(cri.cgroup(container))


@pytest.mark.bears_load
def test_a_command_runs_inside(cri: Cri):
    container = cri.run_container(cri.run_pod("web"), "app")
    assert cri.execute(container, "/bin/cat", "/etc/passwd").startswith("root:")


def test_containers_live_through_a_kill_of_containerd(containerd: Containerd, cri: Cri):
    container = cri.run_container(cri.run_pod("web"), "app")
    pid = cri.pid(container)
    containerd.kill()
    assert pid in cgroups.pids(cri.cgroup(container))
    containerd.start()
    assert cri.list_containers() == [container]
    assert cri.pid(container) == pid


@pytest.mark.bears_load
def test_a_stopped_pod_takes_its_cgroups_along(cri: Cri):
    pod = cri.run_pod("web")
    cri.run_container(pod, "app")
    cri.remove_all()
    assert kubepods.folders(pod.cgroup) == []


@pytest.mark.parametrize("state", ["running", "killed"])
def test_nothing_is_left_behind(own_containerd: Callable[[Options], Containerd], state: str):
    containerd = own_containerd(Options())
    with containerd.cri() as cri:
        pod = cri.run_pod("web")
        pid = cri.pid(cri.run_container(pod, "app"))
        before = cleanup.traces(containerd.folder)
    assert any("cgroup" in remains for remains in cleanup.leftovers(before))
    if state == "killed":
        containerd.kill()
    containerd.stop()
    assert cleanup.leftovers(before) == []
    assert kubepods.folders(pod.cgroup) == []
    # an orphan stays a zombie until the machine's first process reaps it
    assert comes(lambda: cgroups.oom_score_adj(pid) is None, 5)


def test_a_plugin_is_launched_by_containerd(own_containerd: Callable[[Options], Containerd], tmp_path: Path):
    script = f'#!/bin/sh\nenv > "{tmp_path}/launched"\nexec sleep 1000\n'
    options = Options(plugins={"50-probe": script}, plugin_registration_timeout="500ms")
    # 1.7 does not start if a launched plugin does not register in time; 2.x continues without it
    with suppress(RigError):
        own_containerd(options)
    launched = tmp_path / "launched"
    wait_until(lambda: launched.exists() and "NRI_PLUGIN_SOCKET=3" in launched.read_text(), 30, "its words")


@pytest.mark.bears_load
def test_the_product_lists_what_the_runtime_runs(containerd: Containerd, cri: Cri):
    pod = cri.run_pod("web")
    running, created = cri.run_container(pod, "app"), cri.create_container(pod, "next")
    client = CriClient(str(containerd.cri_socket))
    assert client.list_containers() == {
        running: ContainerFacts(pod.id, "app", "running"),
        created: ContainerFacts(pod.id, "next", "created"),
    }
    client.close()


@pytest.mark.bears_load
def test_the_product_updates_one_container(containerd: Containerd, cri: Cri):
    container = cri.run_container(cri.run_pod("web"), "app", shares=512)
    client = CriClient(str(containerd.cri_socket))
    client.update_resources(container, cpus="0")
    client.update_resources(container)
    assert cgroups.cpus(cri.cgroup(container)) == frozenset({0})
    assert cgroups.shares(cri.cgroup(container)) in (512, None)
    client.close()


def test_refusals_and_losses_are_the_products_own_errors(containerd: Containerd):
    client = CriClient(str(containerd.cri_socket))
    with pytest.raises(errors.RuntimeRefused, match="UpdateContainerResources") as refusal:
        client.update_resources("nobody", cpus="0")
    assert isinstance(refusal.value.__cause__, grpc.RpcError)
    containerd.kill()
    assert _is_lost(client)
    containerd.start()
    wait_until(lambda: not _is_lost(client), 30, "the client to connect again")
    client.close()


def _is_lost(client: CriClient) -> bool:
    try:
        client.list_containers()
    except errors.TransportLost:
        return True
    return False
