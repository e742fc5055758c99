"""Short functions for a runtime's messages, and a check that a connection still works."""

import re
from typing import NamedTuple

from nri_coloc._pb import nri_pb2
from nri_coloc.sim.node import Node
from tests.integration.harness import QOS, assert_unhurt
from tests.rig.daemon import Daemon
from tests.rig.raw_runtime import RawPlugin

RECORD = "coloc.nri.io/record"
FIRST_PAUSE_S = 0.5
"""After this at most a lost connection is tried again the first time, after a second the second time.

The daemon says in the audit how long it waits: a clock here would tell how long the machine stood still, too.
"""


def pauses(daemon: Daemon) -> list[float]:
    """Return the logged pauses in seconds, one for each lost connection."""
    said = [re.search(r"reconnecting in ([0-9.]+) s$", r["because"]) for r in daemon.audit("runtime.lost")]
    return [float(words[1]) for words in said if words]


def tries_at_once(daemon: Daemon) -> bool:
    """Return whether the daemon logged an immediate retry after it lost the runtime last."""
    daemon.audited("runtime.lost")
    return pauses(daemon)[-1] <= FIRST_PAUSE_S


class Lasting(NamedTuple):
    """Hold one daemon with one connection for all attacks that must not close it."""

    node: Node
    daemon: Daemon
    plugin: RawPlugin


def a_pod(name: str = "web", **fields: object) -> nri_pb2.PodSandbox:
    pod = nri_pb2.PodSandbox(id=f"pod-{name}", name=name, uid=f"uid-{name}", namespace="shop")
    pod.linux.cgroup_parent = f"/kubepods/burstable/pod{name}"
    pod.annotations.update(fields.pop("annotations", {}))  # type: ignore[call-overload]  # fields are of mixed kinds here
    for field, value in fields.items():
        setattr(pod, field, value)
    return pod


def a_container(name: str = "app", on: str = "web", milli: int = 2000) -> nri_pb2.Container:
    container = nri_pb2.Container(id=f"{on}-{name}", pod_sandbox_id=f"pod-{on}", name=name)
    container.linux.cgroups_path = f"/kubepods/burstable/pod{on}/{on}-{name}"
    container.linux.resources.cpu.shares.value = milli * 1024 // 1000
    return container


def is_served(daemon: Daemon, plugin: RawPlugin) -> None:
    """Assert that the connection works: a dedicated container is created and released, with right answers."""
    pod = a_pod("probe", annotations={QOS: "dedicated"})
    container = a_container(on="probe")
    answer = plugin.hook("CreateContainer", pod=pod, container=container)
    assert answer.adjust.linux.resources.cpu.cpus
    plugin.hook("StopContainer", pod=pod, container=container)
    assert_unhurt(daemon)
