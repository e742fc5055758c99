"""Two copies on one state folder, as in a rolling update: one acts, the other waits and takes over."""

from pathlib import Path

import pytest

from nri_coloc.core import cpuset
from nri_coloc.sim.node import Node
from tests.integration.harness import (
    assert_unhurt,
    daemon_of,
    dedicated,
    ends_well,
    file,
    journal,
    reclaimed,
    served,
    shared,
    status,
)
from tests.rig.waiting import wait_until


@pytest.fixture
def node(tmp_path: Path):
    with Node(tmp_path, cgroup=1) as node:
        yield node


def waits(daemon) -> bool:
    return "another nri-coloc holds the lock" in daemon.check("connected").get("detail", "")


def test_the_second_copy_waits_unready_and_takes_over(node):
    with daemon_of(node) as first:
        served(first)
        owner = dedicated(node)
        with daemon_of(node, state_dir=first.state_dir) as second:
            wait_until(lambda: waits(second), 20, "the second to wait")
            assert (status(second, "/healthz"), status(second, "/readyz")) == (200, 503)
            assert node.runtime.plugins.names == ["50-nri-coloc"]
            first.kill()
            served(second)
            assert second.container(owner)["cpus"] == "0-1"
            neighbour = shared(node)
            assert cpuset.render(node.cpus(neighbour)) == "2-7"
            assert_unhurt(second)


def test_a_waiting_copys_end_is_unnoticed_by_the_first(node):
    with daemon_of(node) as first:
        served(first)
        with daemon_of(node, state_dir=first.state_dir) as second:
            wait_until(lambda: waits(second), 20, "the second to wait")
            assert ends_well(second)
        dedicated(node)
        assert_unhurt(first)


def test_a_waiting_successor_knows_originals_that_were_noted_meanwhile(node):
    with daemon_of(node) as first:
        served(first)
        with daemon_of(node, state_dir=first.state_dir) as second:
            wait_until(lambda: waits(second), 20, "the second to wait")
            reclaimed(node)
            pod_id = node.pod("shop/batch")
            first.kill()
            originals = {entry["file"]: entry["was"] for entry in journal(first)}
            served(second)
            dedicated(node)
            wait_until(lambda: file(node, pod_id, "cpuset.cpus") == "2-7", 20, "the heir to act")
            assert originals
            assert originals.items() <= {entry["file"]: entry["was"] for entry in journal(second)}.items()
