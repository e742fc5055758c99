"""A dedicated container without CPUs gets its CPUs when they are free, beside a simulated runtime.

The node has 8 CPUs: cores 0-1, 2-3, 4-5, 6-7.
"""

from typing import Any

import pytest

from nri_coloc.core import cpuset
from nri_coloc.errors import RuntimeRefused
from nri_coloc.sim.node import Node
from nri_coloc.sim.spec import ContainerRequest, native
from tests.integration.harness import (
    assert_unhurt,
    daemon_of,
    dedicated,
    pod,
    reclaimed,
    reload,
    served,
    shared,
)
from tests.rig.daemon import Daemon
from tests.rig.waiting import becomes, wait_until

EIGHT = cpuset.parse("0-7")
APP = ContainerRequest("app", native(2000, 2000))
BROKEN = ContainerRequest("app", native(7000, 7000), broken="mount /data: not a directory")


def waits_for(daemon: Daemon) -> dict[str, str]:
    return {c["pod"]: c["waits_for"] for c in daemon.state()["containers"] if c["waits_for"]}


def owns(node: Node, daemon: Daemon, container_id: str, count: int = 2) -> dict[str, Any]:
    """Wait until a container has CPUs of its own by its files and the runtime's spec; return the audit's record."""

    def has() -> bool:
        shown = daemon.container(container_id)
        spec = node.runtime.containers[container_id].resources.cpu.cpus
        written = cpuset.render(node.cpus(container_id))
        return (
            shown["exclusive"]
            and shown["cpus"] == written == spec
            and node.cpus(container_id).bit_count() == count
        )

    wait_until(has, 20, "CPUs of its own")
    return daemon.audited("container.update", 20, container_id=container_id, reason="cpus_freed")


def test_the_next_attempt_has_the_cpus_of_one_that_failed(node, daemon):
    web = pod(node, "web", "dedicated")
    with pytest.raises(RuntimeRefused, match="not a directory"):
        node.run_container(web, BROKEN)
    second = node.run_container(web, ContainerRequest("app", native(7000, 7000)))
    assert daemon.audited("container.admit", 20, container_id=second)["reason"] != "no_free_cpus"
    assert daemon.container(second)["exclusive"]
    daemon.audited("container.release", 20, reason="superseded")
    assert_unhurt(daemon)


def test_one_that_came_while_no_cpu_was_free_is_placed_later(node, daemon):
    neighbour, batch = shared(node), reclaimed(node)
    first = dedicated(node, "first", 7000)
    late = dedicated(node, "late")
    becomes(lambda: waits_for(daemon), {"late": "2 CPUs of its own"})
    becomes(lambda: daemon.metric("nri_coloc_waiting_containers"), 1)
    node.runtime.stop(first)
    assert owns(node, daemon, late)["inputs"]["n"] == 2
    becomes(lambda: (node.cpus(neighbour) | node.cpus(batch)) & node.cpus(late), 0)
    becomes(lambda: (waits_for(daemon), daemon.metric("nri_coloc_waiting_containers")), ({}, 0))
    assert_unhurt(daemon)


def test_pods_come_one_a_second_the_oldest_first(node, daemon):
    first = dedicated(node, "first", 7000)
    late = [dedicated(node, name) for name in ("a", "b", "c")]
    node.runtime.stop(first)
    records = [owns(node, daemon, one) for one in late]
    assert [r["pod"] for r in sorted(records, key=lambda r: r["seq"])] == ["a", "b", "c"]
    assert_unhurt(daemon)


def test_sidecars_move_with_their_main_container(node, daemon):
    first = dedicated(node, "first", 7000)
    web = pod(node, "web", "dedicated")
    main = node.run_container(web, APP)
    side = node.run_container(web, ContainerRequest("side", native(100)))
    node.runtime.stop(first)
    owns(node, daemon, main)
    becomes(lambda: node.cpus(side), node.cpus(main))


def test_a_refused_growth_is_made_good(node, daemon):
    first, web = dedicated(node, "first", 5000), dedicated(node, "web")
    node.runtime.update(web, native(4000, 4000))
    becomes(lambda: waits_for(daemon), {"web": "2 more CPUs of its own"})
    node.runtime.stop(first)
    owns(node, daemon, web, 4)


def test_a_reserve_that_is_lifted_gives_cpus_back(node, daemon):
    web = dedicated(node)
    reload(daemon, "node: {reservedCPUs: 0-6}")
    wait_until(lambda: waits_for(daemon), 20, "the reserve to take its CPUs")
    reload(daemon, "")
    owns(node, daemon, web)


def test_cpus_that_were_offline_are_given_back(tmp_path):
    with Node(tmp_path) as node, daemon_of(node) as daemon:
        served(daemon)
        neighbour, web = shared(node), dedicated(node)
        node.plug(1)
        wait_until(lambda: waits_for(daemon) == {"web": "2 CPUs of its own"}, 20, "its CPUs to go")
        node.plug(EIGHT)
        owns(node, daemon, web)
        becomes(lambda: node.cpus(neighbour), EIGHT & ~node.cpus(web))
        assert_unhurt(daemon)


class TestRestarts:
    @staticmethod
    def again(daemon: Daemon) -> None:
        daemon.kill()
        daemon.start()
        served(daemon)

    def test_it_keeps_what_it_got(self, node, daemon):
        first, late = dedicated(node, "first", 7000), dedicated(node, "late")
        shared(node)
        node.runtime.stop(first)
        owns(node, daemon, late)
        had = node.cpus(late)
        self.again(daemon)
        assert (daemon.container(late)["exclusive"], node.cpus(late)) == (True, had)
        node.kill_runtime()
        node.start_runtime()
        daemon.wait_synchronised()
        assert (daemon.container(late)["exclusive"], node.cpus(late)) == (True, had)

    def test_it_still_waits(self, node, daemon):
        first, late = dedicated(node, "first", 7000), dedicated(node, "late")
        self.again(daemon)
        becomes(lambda: waits_for(daemon), {"late": "2 CPUs of its own"})
        node.runtime.stop(first)
        owns(node, daemon, late)

    def test_a_failed_attempt_owns_nothing(self, node, daemon):
        web = pod(node, "web", "dedicated")
        node.runtime.create(web, ContainerRequest("app", native(7000, 7000)))
        second = node.run_container(web, ContainerRequest("app", native(7000, 7000)))
        self.again(daemon)
        (known,) = daemon.state()["containers"]
        assert (known["id"], known["exclusive"]) == (second, True)
        daemon.wait_ready()
