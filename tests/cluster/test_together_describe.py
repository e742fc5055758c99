"""The reasons of Events, where people look first: `kubectl describe` of the pod, and of the node."""

import time
from functools import partial
from typing import Final

from nri_coloc.kubernetes.event_reasons import EventReason
from nri_coloc.kubernetes.event_writer import COMPONENT
from tests.cluster.cluster import Cluster
from tests.cluster.colocation import Colocation
from tests.cluster.control_plane import NODE_NAME
from tests.cluster.pods import ONE_CPU, container, pod
from tests.cluster.running import Pods
from tests.rig import cgroups

ONLY_NEWEST = True
TIME: Final = "%Y-%m-%dT%H:%M:%SZ"
RESERVED: Final = f"node: {{reservedCPUs: '{','.join(map(str, sorted(cgroups.online())[1:]))}'}}"
"""All CPUs but the first are reserved, and the first stays in `share`."""

WRONG: Final = "reclaimed: {}"
LENDING: Final = {
    EventReason.LENDING_ENDING: ("off", "--grace", "1h"),
    EventReason.LENDING_DRAINING: ("off", "--drain", "--grace", "0s"),
    EventReason.LENDING_OFF: ("off",),
    EventReason.LENDING_ON: ("on",),
}
"""The order that causes each Event of lending, one after another."""


def described(cluster: Cluster, kind: str, name: str, *reasons: EventReason) -> dict[str, str]:
    """Wait until `kubectl describe` shows these reasons of ours; return the message of each."""

    def shown() -> dict[str, str]:
        lines = cluster.kubectl("describe", kind, name).partition("\nEvents:")[2].splitlines()
        ours = [line.partition(f" {COMPONENT} ") for line in lines if f" {COMPONENT} " in line]
        found = {head.split()[1]: message.strip() for head, _, message in ours}
        return found if found.keys() >= set(map(str, reasons)) else {}

    return cluster.wait(shown, f"{', '.join(reasons)} in the description of {kind} {name}")


def test_describe_shows_a_refused_annotation(cluster: Cluster, colocation: Colocation, pods: Pods):
    app = container(requests={"cpu": "100m"})
    pods.run(pod("invalid", app, qos_class="dedicatd"), pod("denied", app, qos_class="system"))
    found = described(cluster, "pod", "invalid", EventReason.ANNOTATION_INVALID)
    assert '"dedicatd" does not count; shared holds instead' in found[EventReason.ANNOTATION_INVALID]
    found = described(cluster, "pod", "denied", EventReason.ANNOTATION_DENIED)
    assert "classes.system.allowNamespaces: kube-system" in found[EventReason.ANNOTATION_DENIED]


def test_describe_shows_the_way_to_own_cpus(cluster: Cluster, colocation: Colocation, pods: Pods):
    with colocation.configured(RESERVED):
        pods.run(pod("owner", container(requests=ONE_CPU), qos_class="dedicated"))
        found = described(cluster, "pod", "owner", EventReason.NO_FREE_CPUS)
        assert found[EventReason.NO_FREE_CPUS].startswith("container app: ")
    described(cluster, "pod", "owner", EventReason.NO_FREE_CPUS, EventReason.CPUS_ASSIGNED)
    assert colocation.product.owner("owner")["cpus"]


def test_describe_shows_each_state_of_lending(cluster: Cluster, colocation: Colocation):
    since = time.strftime(TIME, time.gmtime())
    for reason, order in LENDING.items():
        colocation.admin("lending", *order)
        cluster.wait(partial(is_told, colocation, reason, since), f"the Event {reason}")
    described(cluster, "node", NODE_NAME, *LENDING)


def test_describe_shows_a_wrong_configuration(cluster: Cluster, colocation: Colocation):
    since = time.strftime(TIME, time.gmtime())
    with colocation.configured(WRONG):
        cluster.wait(partial(is_told, colocation, EventReason.MISCONFIGURED, since), "the Event")
        found = described(cluster, "node", NODE_NAME, EventReason.MISCONFIGURED)
        assert "reclaimed: unknown key" in found[EventReason.MISCONFIGURED]


def is_told(colocation: Colocation, reason: EventReason, since: str) -> bool:
    """Return whether a reason occurred on the node since a time of the API."""
    return str(colocation.event(NODE_NAME, reason).get("lastTimestamp", "")) >= since
