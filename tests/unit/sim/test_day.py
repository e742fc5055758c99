"""sim/day.py: the script can be played on every machine, and nothing of it depends on a plugin."""

import pytest

from nri_coloc.sim.day import HOURS, SCRIPT, Day
from nri_coloc.sim.node import Node


def test_the_script_is_in_order_and_ends_before_midnight():
    hours = [step.hour for step in SCRIPT]
    assert hours == sorted(hours)
    assert hours[-1] < HOURS


@pytest.mark.parametrize("cgroup", [1, 2], ids=["v1", "v2"])
@pytest.mark.parametrize("machine", ["1cpu", "8cpu", "legacy"])
def test_a_day_passes_without_a_plugin(machine, cgroup, tmp_path):
    with Node(tmp_path, machine, cgroup=cgroup) as node:
        day = Day(node)
        for hour in range(26):
            day.advance(hour)
            node.tick(hour)
        left = {container.name for container in node.runtime.containers.values()}
        assert left == {
            "batch/etl-2/worker",
            "batch/etl-3/worker",
            "kube-system/node-agent/agent",
            "shop/cart/app",
            "shop/search/app",
        }
        assert node.runtime.failures == []


def test_load_follows_the_hour(tmp_path):
    with Node(tmp_path) as node:
        day = Day(node)
        day.advance(8)
        node.tick(0)
        by_path = node.workload.tick(1).by_path
        cart = node.container("shop/cart/app").cgroup
        morning = by_path[cart]
        day.advance(10.9)
        assert node.workload.tick(2).by_path[cart] > morning
