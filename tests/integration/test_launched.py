"""The program as a runtime launches a plugin: a descriptor and three variables, right and wrong ones."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nri_coloc._pb import nri_pb2
from nri_coloc.cli import main
from nri_coloc.sim.node import Node
from tests.integration.harness import QOS
from tests.rig.daemon import PROJECT
from tests.rig.lane import free_port
from tests.rig.raw_runtime import RawPlugin
from tests.rig.waiting import PATIENCE_SECONDS

ENDS_S = PATIENCE_SECONDS


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with Node(tmp_path, cgroup=1) as node:
        yield node


@contextmanager
def launched(
    node: Node, folder: Path, **environment: str
) -> Iterator[tuple[RawPlugin, subprocess.Popen[str]]]:
    """Start the program as containerd starts a plugin: descriptor 3, three variables, no arguments."""
    ours, theirs = socket.socketpair()
    state, port = folder / "state", free_port()
    flags = f"--host-root {node.host_root} --state-dir {state} --http 127.0.0.1:{port}"
    flags += f" --admin-socket {folder}/admin/admin.sock"
    script = f"exec 3<&{theirs.fileno()}; exec {sys.executable} -m nri_coloc run {flags}"
    variables = {"NRI_PLUGIN_NAME": "coloc", "NRI_PLUGIN_IDX": "33", "NRI_PLUGIN_SOCKET": "3", **environment}
    process = subprocess.Popen(
        ["bash", "-c", script],
        cwd=PROJECT,
        env={"PATH": os.environ["PATH"], **variables},
        pass_fds=[theirs.fileno()],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    theirs.close()
    try:
        with RawPlugin(ours) as plugin:
            yield plugin, process
    finally:
        process.kill()
        process.communicate()


def asked(milli: int = 1000) -> dict[str, object]:
    pod = nri_pb2.PodSandbox(id="p", name="web", namespace="batch-1", annotations={QOS: "dedicated"})
    container = nri_pb2.Container(id="c", pod_sandbox_id="p", name="app")
    container.linux.resources.cpu.shares.value = milli * 1024 // 1000
    return {"pod": pod, "container": container}


def test_a_launched_daemon_uses_its_name_descriptor_and_text(node, tmp_path):
    with launched(node, tmp_path) as (plugin, process):
        name = plugin.take_registration()
        assert (name.plugin_name, name.plugin_idx) == ("coloc", "33")
        plugin.configure(config='node: {reservedCPUs: "0-3"}\n')
        answer = plugin.hook("CreateContainer", **asked(2000))
        assert answer.adjust.linux.resources.cpu.cpus == "4-5"
        plugin.socket.close()
        assert process.wait(ENDS_S) == 0
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()


def test_launched_with_a_bad_text_the_defaults_hold(node, tmp_path):
    with launched(node, tmp_path) as (plugin, process):
        plugin.configure(config="node: [")
        assert plugin.hook("CreateContainer", **asked(2000)).adjust.linux.resources.cpu.cpus == "0-1"
        plugin.socket.close()
        assert process.wait(ENDS_S) == 0


@pytest.mark.parametrize(
    "descriptor",
    ["three", "-1", "99", "99999999999999999999", "9" * 5000, "0x3", "\u0663", "0"],
    ids=[
        "a word",
        "negative",
        "not open",
        "too large",
        "far too large",
        "hexadecimal",
        "arabic",
        "no socket",
    ],
)
def test_launched_with_no_socket_it_ends_with_a_sentence(descriptor, node, tmp_path, capfd):
    flags = ("--http", "off", "--host-root", str(node.host_root), "--state-dir", str(tmp_path / "s"))
    assert main.main(("run", *flags), {"NRI_PLUGIN_SOCKET": descriptor}) == 2
    said = capfd.readouterr().err
    assert "NRI_PLUGIN_SOCKET" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(("name", "index"), [("bad name", "1"), ("", ""), ("../x", "xx"), ("a\nb", "999")])
def test_an_impossible_launch_name_is_replaced_by_its_own(name, index, node, tmp_path):
    with launched(node, tmp_path, NRI_PLUGIN_NAME=name, NRI_PLUGIN_IDX=index) as (plugin, _):
        registered = plugin.take_registration()
        assert (registered.plugin_name, registered.plugin_idx) == ("nri-coloc", "50")
