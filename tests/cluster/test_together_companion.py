"""The companion beside the real kubelet and scheduler: its report's floor, and companions that the daemon refuses."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from typing import Any, Final

from nri_coloc.kubernetes import messages
from nri_coloc.kubernetes.presets import DEFAULT, OPEN
from nri_coloc.pods import quantity
from tests.cluster.cluster import Cluster
from tests.cluster.colocation import COMPANION, HASTY, Colocation, lent, reclaimed
from tests.cluster.control_plane import NODE_NAME
from tests.cluster.pods import container, pod
from tests.cluster.product import NAMESPACE
from tests.cluster.running import Pods, is_ready
from tests.cluster.test_together_evicts import copies, scheduled
from tests.rig import kubepods

ONLY_NEWEST = True
NARROW: Final = "schedule: {outside: 5, grace: 0s}"
"""The node lends a twentieth of its offer, which is less than LARGE."""

LARGE_MILLI: Final = 303
"""Less than a wide node lends, also beside much other work."""

LARGE: Final = lent(cpu=str(LARGE_MILLI))
LARGE_PART: Final = 10
"""A tenth of the node's memory is more than a narrow node lends, and less than a wide one."""

STAYS: Final = ("/bin/sh", "-c", "trap '' TERM; while :; do sleep 1; done")
HOUR_S: Final = 3600
SECOND: Final = "second-companion"
HTTP_PORT: Final = 9746
OTHER: Final = messages.PROTOCOL + 1
OF_OTHER_VERSION: Final = f"from nri_coloc.kubernetes import messages\nmessages.PROTOCOL = {OTHER}\n"


def lent_cpu(colocation: Colocation) -> int:
    """Return the lent CPU that the node shows, milli-CPU."""
    return quantity.whole_bytes(colocation.allocatable()[DEFAULT.cpu])


def lent_memory(colocation: Colocation) -> int:
    """Return the lent memory that the node shows, bytes."""
    return quantity.whole_bytes(colocation.allocatable()[DEFAULT.memory])


def is_narrow(colocation: Colocation) -> bool:
    return 0 < lent_cpu(colocation) < LARGE_MILLI


def test_a_terminating_pod_counts_in_the_floor(cluster: Cluster, colocation: Colocation, pods: Pods):
    app = container(requests=LARGE, limits=LARGE, command=STAYS)
    pods.run(pod("leaving", app, qos_class="reclaimed", terminationGracePeriodSeconds=HOUR_S))
    cluster.kubectl("delete", "pod", "leaving", "--wait=false")
    try:
        colocation.configure(NARROW)
        floor = (LARGE_MILLI, None)
        cluster.becomes(
            lambda: (lent_cpu(colocation), colocation.allocatable().get(OPEN)), floor, "the floor"
        )
        assert pods.status("leaving")["phase"] == "Running"
    finally:
        # it ignores SIGTERM, and the runtime starts nothing beside a plugin that registers during a stop
        kubepods.kill(pods.cgroup("leaving"))
        cluster.delete("pod", "leaving", now=True)
    cluster.wait(partial(is_narrow, colocation), "the report without the pod")
    colocation.configure()


def test_a_pod_bound_too_late_is_rejected_once(cluster: Cluster, colocation: Colocation):
    """The test binds the pod to the node, as a scheduler does that has not seen the newest report yet.

    Memory decides: other work on the machine changes the lent CPU by more than the schedule does. The node lends much
    first, or the report that answers an earlier test's configuration might follow the lower one.
    """
    large = quantity.whole_bytes(colocation.allocatable()["memory"]) // LARGE_PART
    amounts = {DEFAULT.memory: str(large), OPEN: "1"}
    cluster.wait(lambda: lent_memory(colocation) >= large, "a wide report")
    colocation.configure(NARROW)
    cluster.wait(lambda: 0 < lent_memory(colocation) < large, "a lower report")
    template = pod("late", container(requests=amounts, limits=amounts), qos_class="reclaimed")
    with replicated(cluster, template):
        first = cluster.wait(partial(waiting, cluster), "a pod that fits on no node")
        before = len(reported(colocation))
        bind(cluster, first)
        second = cluster.wait(partial(waiting, cluster, but=first), "its successor")
        status = cluster.get("pod", first)["status"]
        assert (status["phase"], status["reason"]) == ("Failed", f"OutOf{DEFAULT.memory}")
        rejection = cluster.wait(lambda: colocation.event(first, status["reason"]), "the kubelet's Event")
        assert f"requested: {large}" in rejection["message"]
        assert {each["metadata"]["name"] for each in copies(cluster, "late")} == {first, second}
        assert all(amount < large for amount in (*reported(colocation)[before:], lent_memory(colocation)))
        colocation.configure()
        cluster.wait(
            lambda: any(is_ready(each["status"]) for each in copies(cluster, "late")), "a pod that fits"
        )


@contextmanager
def replicated(cluster: Cluster, template: dict[str, Any]) -> Iterator[None]:
    """Let a ReplicaSet keep one pod like this one, for the time of a block."""
    name = template["metadata"]["name"]
    template["metadata"]["labels"] = {"app": name}
    spec = {"template": {key: template[key] for key in ("metadata", "spec")}}
    cluster.apply(
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": name}}, **spec},
        }
    )
    try:
        yield
    finally:
        cluster.kubectl("delete", "replicaset", name, "--cascade=foreground")


def waiting(cluster: Cluster, but: str = "") -> str:
    """Return a pod, other than `but`, for which the scheduler finds too little lent memory; "" for none."""
    words = f"Insufficient {DEFAULT.memory}"
    found = [each for each in copies(cluster, "late") if words in scheduled(each).get("message", "")]
    return next((str(each["metadata"]["name"]) for each in found if each["metadata"]["name"] != but), "")


def bind(cluster: Cluster, name: str) -> None:
    """Bind a pod to the node."""
    target = {"apiVersion": "v1", "kind": "Node", "name": NODE_NAME}
    found = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
    path = f"/api/v1/namespaces/default/pods/{name}/binding"
    cluster.kubectl("create", f"--raw={path}", "-f", "-", stdin=json.dumps(found))


def reported(colocation: Colocation) -> list[int]:
    """Return the lent memory of each report of the companion that changed something, bytes."""
    lines = colocation.log(f"daemonset/{COMPANION}").splitlines()
    found = (re.search(r" reported .*memory_bytes=(\d+)", line) for line in lines)
    return [int(each[1]) for each in found if each]


def test_a_second_companion_is_turned_away(cluster: Cluster, colocation: Colocation, pods: Pods):
    pods.run(reclaimed("job"))
    before = pods.placed("job"), containers(colocation)
    spec = cluster.get("daemonset", COMPANION, NAMESPACE)["spec"]["template"]["spec"]
    pods.create({**pod(SECOND, namespace=NAMESPACE), "spec": spec})
    is_told = partial(tells, cluster, "another companion of this node is connected")
    cluster.wait(lambda: is_told(cluster.get("pod", SECOND, NAMESPACE)), "the reason in its readiness")
    assert " reported " not in colocation.log(SECOND)
    colocation.wait_ready()
    assert (pods.placed("job"), containers(colocation)) == before


def test_a_companion_of_another_version_is_refused(cluster: Cluster, colocation: Colocation, pods: Pods):
    pods.run(reclaimed("job"))
    before = pods.placed("job"), colocation.product.pids()
    colocation.run_companion(OF_OTHER_VERSION + HASTY.read_text())
    try:
        is_told = partial(tells, cluster, f"speaks protocol {OTHER}, the daemon")
        cluster.wait(lambda: any(map(is_told, colocation.pods(COMPANION))), "the reason in its readiness")
        assert " reported " not in colocation.log(f"daemonset/{COMPANION}")
        colocation.product.wait_ready()
        assert (pods.placed("job"), colocation.product.pids()) == before
        assert {DEFAULT.cpu, OPEN} <= set(colocation.allocatable())
    finally:
        colocation.run_companion(HASTY.read_text())
    colocation.wait_ready()


def tells(cluster: Cluster, sentence: str, companion: Mapping[str, Any]) -> bool:
    """Return whether a companion's pod is not ready and names this reason."""
    status, text = cluster.namespace.get(HTTP_PORT, "/readyz", host=companion["status"]["podIP"])
    return status == HTTPStatus.SERVICE_UNAVAILABLE and sentence in text and not is_ready(companion["status"])


def containers(colocation: Colocation) -> list[str]:
    """Return the ids of the containers of the companion's DaemonSet."""
    found = [state for each in colocation.pods(COMPANION) for state in each["status"]["containerStatuses"]]
    return [state["containerID"] for state in found]
