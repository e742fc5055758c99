"""`restore` on cgroup v2 leaves every setting as the kubelet alone makes it, and the runtime's spec agrees."""

from typing import Any, Final

import pytest

from nri_coloc.cli.main import main
from tests.rig import settings
from tests.vm.node import SYNCHRONISED_SECONDS, Container, Node, cpus, read, until

Settings = dict[str, dict[str, str]]
WEB: Final[dict[str, Any]] = {
    "cpus": 2,
    "memory": 64 << 20,
    "qos_class": "dedicated",
    "numa": "single",
    "io_weight": "300",
    "memory_high": "50%",
    "cpu_burst": "50",
}
BATCH: Final[dict[str, Any]] = {"kube_qos": "besteffort", "oom": 1000}
NEIGHBOUR: Final[dict[str, Any]] = {"cpus": 0.5, "oom": 900}


def look(container: Container) -> Settings:
    """Return every setting of a pod, its sandbox and its container, by the role of each cgroup in the pod."""
    pod = container.pod_path
    named = {pod: "pod", f"{pod}/{container.pod.id}": "sandbox", container.path: "container"}
    return {named.get(path, path): in_force(path, files) for path, files in settings.below(pod).items()}


def in_force(path: str, files: dict[str, str]) -> dict[str, str]:
    """Return sets as they act: once a cgroup with tasks has a set of its own, it cannot be without one."""
    return files | {f"/{name}": read(path, f"{name}.effective") for name in ("cpuset.cpus", "cpuset.mems")}


def spec(container: Container) -> dict[str, Any]:
    found: dict[str, Any] = container.cri.info(container.id)["runtimeSpec"]["linux"]["resources"]
    return found


@pytest.fixture(scope="module")
def twins(node: Node) -> dict[str, Settings]:
    """Return the settings that a kubelet alone gives the two pods that come while the plugin runs."""
    node.plugin.kill()
    found = {}
    for name, wanted in {"web": WEB, "batch": BATCH}.items():
        twin = node.pod(f"{name}-alone", **wanted)
        found[name] = look(twin)
        node.remove(twin)
    return found


def test_files_and_specs_are_as_a_kubelet_alone_leaves_them(node: Node, twins: dict[str, Settings]):
    neighbour = node.pod("neighbour", **NEIGHBOUR)
    before, score = look(neighbour), neighbour.oom_score_adj
    node.plugin.start()
    node.plugin.wait_synchronised(SYNCHRONISED_SECONDS)
    web, batch = node.pod("web", **WEB), node.pod("batch", **BATCH)
    until(lambda: neighbour.cpus == cpus("0-7") - web.cpus, "the neighbour on the other CPUs")
    until(lambda: spec(neighbour)["cpu"].get("cpus"), "its spec to say so")
    assert web.cgroup("memory.high") == str(32 << 20)
    node.plugin.kill()
    assert main(["restore", *node.plugin.places()], {}) == 0
    assert settings.differing(before, look(neighbour)) == []
    assert settings.differing(twins["web"], look(web)) == []
    assert settings.differing(twins["batch"], look(batch)) == []
    assert neighbour.oom_score_adj == score
    assert cpus(spec(neighbour)["cpu"]["cpus"]) == cpus(spec(web)["cpu"]["cpus"]) == cpus("0-7")
    assert spec(web).get("unified", {}).get("memory.high", "max") == "max"
    web.update(shares=1024)
    weight = {"/cpu.weight": "", "/cpu.weight.nice": ""}
    after = look(web)["container"] | weight
    assert settings.differing({"": twins["web"]["container"] | weight}, {"": after}) == [], (
        "runc brings nothing back"
    )
