"""Daemon, companion and controller together: the stock scheduler places reclaimed pods by what the node lends."""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise, permutations
from pathlib import Path
from typing import Final

import pytest

from nri_coloc.kubernetes.event_reasons import EventReason
from nri_coloc.kubernetes.presets import DEFAULT, OPEN
from nri_coloc.pods import quantity
from tests.cluster.binaries import PAIRS, Pair
from tests.cluster.cluster import Cluster
from tests.cluster.colocation import (
    COMPANION,
    CONTROLLER,
    DAEMON,
    SOCKET,
    Colocation,
    budget,
    lent,
    reclaimed,
)
from tests.cluster.control_plane import NODE_NAME
from tests.cluster.pods import container, pod
from tests.cluster.product import NAMESPACE
from tests.cluster.running import Pods
from tests.cluster.test_resize import actual_cpu, resize, sized
from tests.rig import RigError, cgroups

GROUP = 65532
BUSY = ("/bin/sh", "-c", "while :; do :; done")
PARTS: Final = ("kubelet", "API server", COMPANION, CONTROLLER, DAEMON)


def walk(steps: Sequence[int]) -> tuple[str, ...]:
    """Return restarts that hold each part after the part so many places before it. Five is prime: a step meets all."""
    count = len(PARTS)
    return (PARTS[0], *(PARTS[step * turn % count] for step in steps for turn in range(1, count + 1)))


WALKS: Final = {PAIRS[0].kubernetes: walk((1, 2)), PAIRS[1].kubernetes: walk((3, 4))}
"""The restarts on each Kubernetes. What a part loses at a restart is what one other part wants from it at that moment:
so each order of two parts is played, on one of the two versions."""


def test_socket_belongs_to_the_companions_group(cluster: Cluster, colocation: Colocation):
    socket = cluster.folder / "at" / SOCKET
    modes = [
        (each.st_uid, each.st_gid, each.st_mode & 0o7777) for each in (socket.parent.stat(), socket.stat())
    ]
    assert modes == [(0, GROUP, 0o750), (0, GROUP, 0o660)]


@pytest.mark.parametrize(("name", "part"), [(COMPANION, "companion"), (CONTROLLER, "controller")])
def test_process_has_no_rights_on_its_host(cluster: Cluster, colocation: Colocation, name: str, part: str):
    process = colocation.process(name, part)
    fields = dict(
        line.split(":\t") for line in (process / "status").read_text().splitlines() if ":\t" in line
    )
    assert fields["Uid"].split() == [str(GROUP)] * 4
    assert [int(fields[key], 16) for key in ("CapEff", "CapPrm", "CapBnd")] == [0, 0, 0]
    own, node = process / "ns", Path("/proc", str(cluster.namespace.pid), "ns")
    kinds = ("net", "pid", "ipc", "mnt")
    assert not [kind for kind in kinds if (own / kind).readlink() == (node / kind).readlink()]


def test_describe_node_shows_lent_amounts(cluster: Cluster, colocation: Colocation, pods: Pods):
    pods.run(reclaimed("job"))

    def is_shown() -> bool:
        """Return whether one description agrees with the node's object, which each report changes."""
        shown = [line.split() for line in cluster.kubectl("describe", "node", NODE_NAME).splitlines()]
        allocatable = colocation.allocatable()
        wanted = [[f"{name}:", allocatable[name]] for name in lent()]
        return all(
            line in shown for line in (*wanted, *([name, each, each] for name, each in lent().items()))
        )

    cluster.wait(is_shown, "the lent amounts in the description of the node")
    cluster.becomes(lambda: colocation.product.container("job")["class"], "reclaimed", "the pod's class")


def test_facts_about_a_pod_reach_the_daemon(cluster: Cluster, colocation: Colocation, pods: Pods):
    pods.run(reclaimed("facts"))
    facts = cluster.wait(lambda: colocation.product.container("facts")["facts"], "facts about the pod")
    assert facts["priority"] == cluster.get("pod", "facts")["spec"]["priority"]
    assert [facts["lent_cpu_milli"], facts["lent_memory_bytes"]] == [10, 33554432]


def test_budget_keeps_one_controller(cluster: Cluster, colocation: Colocation):
    def allowed() -> int:
        status = cluster.get("poddisruptionbudget", CONTROLLER, NAMESPACE)["status"]
        return int(status.get("disruptionsAllowed", -1))

    cluster.wait(lambda: allowed() == 1, "one allowed disruption")
    policies = cluster.get("networkpolicy", namespace=NAMESPACE)["items"]
    assert {each["metadata"]["name"] for each in policies} == {COMPANION, CONTROLLER}


def test_a_kubelet_restart_on_a_closed_node_rejects_no_pod(
    cluster: Cluster, colocation: Colocation, pods: Pods
):
    pods.run(reclaimed("early"))
    before = pods.container_id("early")
    colocation.admin("lending", "off")
    cluster.wait(lambda: OPEN not in colocation.allocatable(), "a closed node")
    pods.create(reclaimed("late"))
    pods.run(pod("online", container(requests={"cpu": "100m"})))
    cluster.restart("kubelet")
    pods.run(pod("online-2", container(requests={"cpu": "100m"})))
    assert pods.status("early")["phase"] == "Running"
    assert pods.container_id("early") == before
    assert pods.status("late")["phase"] == "Pending"
    colocation.admin("lending", "on")
    cluster.wait(lambda: pods.is_running("late"), "the pod that waited for an open node")


def test_kubelet_resizes_a_pod_with_a_raised_quota(cluster: Cluster, colocation: Colocation, pods: Pods):
    log = cluster.folder / "kubelet.log"
    length = log.stat().st_size
    pods.run(pod("busy", sized("100m", command=BUSY), qos_class="shared"))
    for own, size in ((10_000, "200m"), (20_000, "100m")):
        cluster.wait(partial(_exceeds, pods, own), "a raised quota")
        resize(cluster, "busy", sized(size))
        cluster.wait(partial(_has_size, pods, size), f"a resize to {size}")
    assert b"invalid argument" not in log.read_bytes()[length:]


def _exceeds(pods: Pods, own: int) -> bool:
    """Return whether the pod's quota is above the kubelet's own, µs."""
    quota = cgroups.quota(pods.cgroup("busy"))
    return quota is not None and quota[0] > own


def _has_size(pods: Pods, size: str) -> bool:
    return actual_cpu(pods, "busy") == size


def test_the_restarts_hold_every_order():
    assert {order for each in WALKS.values() for order in pairwise(each)} == set(permutations(PARTS, 2))


def test_restarts_in_every_order_lose_nothing(
    cluster: Cluster, colocation: Colocation, pods: Pods, pair: Pair
):
    lose_nothing(cluster, colocation, pods, WALKS[pair.kubernetes])


def lose_nothing(cluster: Cluster, colocation: Colocation, pods: Pods, restarts: Sequence[str]) -> None:
    """Restart the parts, and create a pod after each; all pods run in the end, the first one in its first container."""
    pods.run(reclaimed("job"))
    before = pods.container_id("job")
    for number, part in enumerate(restarts):
        _restart(cluster, colocation, part)
        pods.create(reclaimed(f"job-{number}"))
    colocation.wait_ready()
    names = [f"job-{number}" for number in range(len(restarts))]
    cluster.wait(lambda: all(map(pods.is_running, names)), "the pods that came during the restarts")
    assert pods.container_id("job") == before
    cluster.wait(lambda: _is_near_the_offer(colocation), "a report of the offer")


def _restart(cluster: Cluster, colocation: Colocation, part: str) -> None:
    if part == "kubelet":
        cluster.restart(part)
    elif part == "API server":
        cluster.control_plane.kill_one("kube-apiserver")
        cluster.control_plane.start_one("kube-apiserver")
        cluster.wait(cluster.control_plane.is_up, "the API server")
    else:
        colocation.restart(part)


def _is_near_the_offer(colocation: Colocation) -> bool:
    """Return whether the offer is within a tenth of each reported amount.

    With this rig's watermark an idle machine offers more CPUs than it has. A report has at most the node's.
    """
    offer, allocatable = colocation.product.json("/v1/capacity"), colocation.allocatable()
    milli = min(offer["cpu_milli"], quantity.thousandths(allocatable["cpu"]))
    pairs = ((milli, DEFAULT.cpu), (offer["memory_bytes"], DEFAULT.memory))
    shown = [(amount, quantity.whole_bytes(allocatable[name])) for amount, name in pairs]
    return all(abs(amount - each) * 10 <= each for amount, each in shown)


def is_refused_by_its_budget(colocation: Colocation) -> bool:
    """Order the eviction of the protected pod; return False if no controller answers yet."""
    with pytest.raises(RigError, match="protected was not evicted: ") as refused:
        colocation.admin("evict", "default/protected", "--reason", "the disk is full")
    said = str(refused.value)
    if "no result came" in said:
        return False
    assert "disruption budget" in said
    return True


def test_admin_evicts_a_pod_without_a_budget(cluster: Cluster, colocation: Colocation, pods: Pods):
    protected = reclaimed("protected")
    protected["metadata"]["labels"] = {"app": "protected"}
    pods.run(protected, reclaimed("free"))
    with budget(cluster, "protected"):
        cluster.wait(
            lambda: is_refused_by_its_budget(colocation), "the answer of a controller that leads again"
        )
    printed = colocation.admin("evict", "default/free", "--reason", "the disk is full")
    assert printed == "default/free is being evicted: the API server accepted the eviction\n"
    cluster.wait(
        lambda: (
            "the disk is full" in colocation.event("free", EventReason.EVICTION_ORDERED).get("message", "")
        ),
        "an Event on the pod",
    )
    cluster.wait(
        lambda: "protected" in colocation.event("protected", EventReason.EVICTION_BLOCKED).get("message", ""),
        "an Event on the pod that stays",
    )
    cluster.wait(lambda: not cluster.get("pod", "free"), "the end of the evicted pod")
    assert pods.is_running("protected")


def test_a_drain_empties_the_node(cluster: Cluster, colocation: Colocation, pods: Pods):
    pods.run(reclaimed("one"), reclaimed("two"), pod("online", container(requests={"cpu": "100m"})))
    with pytest.raises(RigError, match="reclaimed pods that still run: "):
        colocation.admin("lending", "off", "--drain", "--grace", "0s")
    cluster.wait(lambda: not (pods.status("one") or pods.status("two")), "an empty node")
    cluster.wait(
        lambda: colocation.admin("lending", "off", "--drain"), "an order that finds nothing to drain"
    )
    assert pods.is_running("online")
    cluster.wait(colocation.product.pids, "the daemon's process")
    colocation.product.kill()
    pods.create(reclaimed("late"))
    colocation.product.wait_ready()
    assert colocation.product.json("/v1/state")["lending"]["switch"] == "drain"
    assert pods.status("late")["phase"] == "Pending"
    colocation.admin("lending", "on")
    cluster.wait(lambda: pods.is_running("late"), "the pod that waited for an open node")
