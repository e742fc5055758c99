"""The reasons of Events that take minutes or a slow daemon, in `kubectl describe` (`make soak-cluster`)."""

from pathlib import Path
from typing import Final

import pytest

from nri_coloc.kubernetes.event_reasons import EventReason
from tests.cluster.cluster import Cluster
from tests.cluster.colocation import Colocation, lent
from tests.cluster.pods import ONE_CPU, container, pod
from tests.cluster.running import Pods
from tests.cluster.test_together_describe import described
from tests.rig import prompt_daemon

pytestmark = pytest.mark.tier("soak")

ONLY_NEWEST = True
DAEMON_PROGRAM: Final = Path(prompt_daemon.__file__)
BUSY: Final = ("/bin/sh", "-c", "while :; do :; done & while :; do :; done")
LITTLE: Final = "schedule: {outside: 5, grace: 0s}"
"""A twentieth of the offer: less than one CPU may be lent."""


def test_describe_shows_a_late_placement(cluster: Cluster, colocation: Colocation, pods: Pods):
    pods.run(pod(prompt_daemon.SLOW_POD, container(requests=ONE_CPU), qos_class="dedicated"))
    described(cluster, "pod", prompt_daemon.SLOW_POD, EventReason.PLACED_LATE)
    assert colocation.product.owner(prompt_daemon.SLOW_POD)["cpus"]


def test_describe_shows_a_pod_without_cpu(cluster: Cluster, colocation: Colocation, pods: Pods):
    amounts = lent(cpu="300")
    pods.run(pod("hungry", container(requests=amounts, limits=amounts, command=BUSY), qos_class="reclaimed"))
    with colocation.configured(LITTLE):
        pods.run(pod("online", container(requests=ONE_CPU, command=BUSY)))
        described(cluster, "pod", "hungry", EventReason.SUPPRESSED, EventReason.STARVED)
