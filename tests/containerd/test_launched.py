"""Launched by containerd itself through its `plugin_path`: the same placement, without a socket to connect to."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.rig import cgroups, workloads
from tests.rig.configuration import Options
from tests.rig.containerd import Containerd
from tests.rig.cri import Cri
from tests.rig.daemon import READY_SECONDS, fetch
from tests.rig.lane import free_port
from tests.rig.waiting import becomes, wait_until
from tests.rig.workloads import NODE_CPUS

pytestmark = pytest.mark.containerd

PROGRAM = Path(sys.executable).parent / "nri-coloc"
NAME = "50-nri-coloc"
REGISTERS_WITHIN = (
    "60s"  # containerd's own 5 s are too few for a start on a busy machine; benchmarks/ measures a start
)
OwnContainerd = Callable[[Options], Containerd]


@pytest.mark.bears_load
def test_a_launched_plugin_places_containers(own_containerd: OwnContainerd, tmp_path: Path):
    with _launched(own_containerd, tmp_path) as cri:
        neighbour, web, batch = workloads.shared(cri), workloads.dedicated(cri), workloads.reclaimed(cri)
        assert len(web.first_cpus()) == 1
        assert neighbour.cpus == batch.first_cpus() == NODE_CPUS - web.first_cpus()
        assert cgroups.shares(batch.pod.cgroup) in (2, None)
        cri.remove_pod(web.pod.id)
        wait_until(lambda: neighbour.cpus == NODE_CPUS, 30, "the CPUs to come back")


@pytest.mark.bears_load
def test_a_launched_plugin_gets_ready(own_containerd: OwnContainerd, tmp_path: Path):
    port = free_port()
    with _launched(own_containerd, tmp_path, http=f"127.0.0.1:{port}") as cri:
        web = workloads.dedicated(cri)
        wait_until(lambda: '"ready": true' in fetch(port, "/readyz"), READY_SECONDS, "readiness")
        assert web.id in fetch(port, "/v1/state")


@pytest.mark.bears_load
def test_it_needs_no_arguments_at_all(own_containerd: OwnContainerd, tmp_path: Path):
    with _launched(own_containerd, tmp_path, arguments=False) as cri:
        assert len(workloads.dedicated(cri).first_cpus()) == 1


@pytest.mark.bears_load
def test_the_configuration_that_containerd_hands_over_counts(own_containerd: OwnContainerd, tmp_path: Path):
    config = 'classes:\n  rules: [{namespace: "batch-*", class: reclaimed}]\n'
    with _launched(own_containerd, tmp_path, config=config) as cri:
        batch = workloads.run(cri, "batch", namespace="batch-7", request=0.1, oom=300)
        assert cgroups.shares(batch.pod.cgroup) in (2, None)
        assert cgroups.oom_score_adj(cri.pid(batch.id)) == 1000
        assert cgroups.shares(workloads.shared(cri).pod.cgroup) in (1024, None)


@pytest.mark.bears_load
def test_sockets_and_ports_in_that_configuration_count_too(own_containerd: OwnContainerd, tmp_path: Path):
    port = free_port()
    telemetry = f"telemetry: {{http: '127.0.0.1:{port}', auditRing: 2}}\n"
    with _launched(own_containerd, tmp_path, config=telemetry, http="") as cri:
        web = workloads.dedicated(cri)
        wait_until(lambda: web.id in fetch(port, "/v1/state"), READY_SECONDS, "the port of its configuration")
        becomes(lambda: len(json.loads(fetch(port, "/v1/audit"))["records"]), 2)


@pytest.mark.bears_load
def test_it_can_be_told_to_observe(own_containerd: OwnContainerd, tmp_path: Path):
    with _launched(own_containerd, tmp_path, config="mode: observe\n") as cri:
        assert workloads.dedicated(cri).first_cpus() == NODE_CPUS


@pytest.mark.bears_load
def test_an_invalid_configuration_is_reported_and_the_defaults_hold(
    own_containerd: OwnContainerd, tmp_path: Path
):
    with _launched(own_containerd, tmp_path, config="mode: maybe\n") as cri:
        assert len(workloads.dedicated(cri).first_cpus()) == 1
        wait_until(lambda: '"reason": "invalid"' in _audit(tmp_path), 30, "the audit to say so")


def test_cpus_stay_owned_when_containerd_and_with_it_the_plugin_restart(
    own_containerd: OwnContainerd, tmp_path: Path
):
    containerd = _launching(own_containerd, tmp_path)
    with containerd.cri() as cri:
        web, neighbour = workloads.dedicated(cri), workloads.shared(cri)
        owned = web.first_cpus()
        containerd.kill()
        wait_until(lambda: "daemon.stop" in _audit(tmp_path), 30, "the plugin to end with its runtime")
        containerd.start()
        second = workloads.dedicated(cri, "second", request=1)
        assert second.first_cpus().isdisjoint(owned)
        assert web.cpus == owned
        assert neighbour.cpus == NODE_CPUS - owned


@contextmanager
def _launched(
    own_containerd: OwnContainerd, folder: Path, config: str = "", **settings: Any
) -> Iterator[Cri]:
    with _launching(own_containerd, folder, config, **settings).cri() as cri:
        yield cri


def _launching(
    own_containerd: OwnContainerd,
    folder: Path,
    config: str = "",
    *,
    arguments: bool = True,
    http: str = "off",
) -> Containerd:
    """Return a containerd that launches the plugin; `config` is the text that it passes to the plugin."""
    script = _WITH_ARGUMENTS if arguments else _WITHOUT
    for name, value in {
        "PROGRAM": PROGRAM,
        "FOLDER": folder,
        "HTTP": f"--http {http}" if http else "",
    }.items():
        script = script.replace(f"@{name}@", str(value))
    configs = {f"{NAME}.conf": config} if config else {}
    return own_containerd(
        Options(plugins={NAME: script}, plugin_configs=configs, plugin_registration_timeout=REGISTERS_WITHIN)
    )


def _audit(folder: Path) -> str:
    path = folder / "audit"
    return path.read_text() if path.exists() else ""


_WITH_ARGUMENTS = """\
#!/bin/sh
at="${0%/nriplugins/*}"
exec "@PROGRAM@" run @HTTP@ --state-dir "@FOLDER@/state" --admin-socket "@FOLDER@/admin/admin.sock" \\
    --nri-socket "$at/nri.sock" --cri-socket "$at/containerd.sock" >>"@FOLDER@/audit" 2>>"@FOLDER@/log"
"""

# the default places are the machine's own, so the plugin gets a mount and a network namespace here
_WITHOUT = """\
#!/bin/sh
exec unshare --mount --net /bin/sh -c 'mount -t tmpfs none /var/lib && exec "@PROGRAM@"' \\
    >>"@FOLDER@/audit" 2>>"@FOLDER@/log"
"""
