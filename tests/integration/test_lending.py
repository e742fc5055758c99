"""The lending loop in the daemon: lent CPUs follow the online pods' use, on the simulated node's own clock.

The reclaim pool is read from the pods' own cpuset files. A burst is the simulated containers' demand.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from nri_coloc.core import cpuset
from nri_coloc.core.workload import KubeQoS
from nri_coloc.sim.node import Node
from nri_coloc.sim.spec import ContainerRequest
from tests.integration import harness
from tests.integration.harness import Lasting
from tests.rig.waiting import poll, wait_until

LENDING = "reclaim: {enabled: true}\n"
EVERYTHING = "0-7"
CPUS = 8
FLOOR = 2
"""One core: this machine has two threads on each."""

GROWS_WITHIN_S = 30
TOLD_WITHIN_S = 3
"""A record is written a part of a second after what it tells."""

CALM = 0.1
"""CPUs that web uses when it is calm: a clock that is held up moves counters in lumps, which look like bursts."""


@pytest.fixture(params=[1, 2], ids=["cgroup-v1", "cgroup-v2"])
def lending(request: pytest.FixtureRequest, tmp_path) -> Iterator[Lasting]:
    with Node(tmp_path, "8cpu", cgroup=request.param) as node:
        node.start_clock()
        with harness.daemon_of(node, config=LENDING) as daemon:
            harness.served(daemon)
            yield Lasting(node, daemon)
            harness.assert_unhurt(daemon)


def online(node: Node, demand: float = CALM) -> str:
    container = harness.shared(node, "web", 4000)
    node.set_demand(container, demand)
    return container


def hungry(node: Node, name: str = "batch") -> str:
    container = harness.reclaimed(node, name)
    node.set_demand(container, CPUS)
    return container


def box(node: Node, container: str) -> int:
    """Return the number of CPUs that a reclaimed container's pod has, by its own file."""
    pod = node.runtime.containers[container].pod.id
    return cpuset.parse(harness.file(node, pod, "cpuset.cpus") or "").bit_count()


def lent(node: Node, container: str, least: int = CPUS - 2) -> None:
    wait_until(lambda: box(node, container) >= least, GROWS_WITHIN_S, f"a box of {least} CPUs")


def tells_of_the_burst(record: dict[str, Any]) -> bool:
    """Return whether a record holds the figures of the loop; other records are written before anything was measured."""
    return record["reason"] == "headroom" and "online_high_milli" in record.get("inputs", {})


def test_what_online_pods_leave_unused_is_lent(lending: Lasting):
    online(lending.node)
    batch = hungry(lending.node)
    lent(lending.node, batch)
    pod = lending.node.runtime.containers[batch].pod.id
    wait_until(
        lambda: (
            lending.daemon.state()["pools"]["reclaim"]["cpus"]
            == harness.file(lending.node, pod, "cpuset.cpus")
        ),
        GROWS_WITHIN_S,
        "the state and the file to agree",
    )


def test_a_burst_takes_the_cpus_back_and_they_return_after_it(lending: Lasting):
    web, batch = online(lending.node), hungry(lending.node)
    lent(lending.node, batch)
    lending.node.set_demand(web, CPUS)
    wait_until(lambda: box(lending.node, batch) == FLOOR, 20, "a box at its floor")
    wait_until(
        lambda: any(map(tells_of_the_burst, lending.daemon.audit("reclaim.suppress"))), 20, "its record"
    )
    lending.node.set_demand(web, CALM)
    lent(lending.node, batch)


def test_without_reclaimed_pods_the_pool_is_what_share_is(lending: Lasting):
    online(lending.node, CPUS)
    wait_until(
        lambda: lending.daemon.metric("nri_coloc_tick_late_seconds_count") > 3, 20, "some ticks of the loop"
    )
    assert lending.daemon.state()["pools"]["reclaim"]["cpus"] == EVERYTHING


def test_the_first_reclaimed_container_finds_a_sized_reclaim_pool(lending: Lasting):
    node = lending.node
    online(node, CPUS)
    # the headroom is nothing too before the first measurement
    wait_until(lambda: lending.daemon.capacity()["online_cpu_milli"] > 7000, GROWS_WITHIN_S, "measured use")
    pod = harness.pod(node, "mixed", annotations={f"{harness.QOS}.app": "reclaimed"})
    answer = node.runtime.containers[node.run_container(pod, ContainerRequest("app"))].resources.cpu.cpus
    assert cpuset.parse(answer).bit_count() == FLOOR


def test_a_besteffort_system_pod_is_left_alone_at_the_floor(lending: Lasting):
    node = lending.node
    agent = node.run_container(
        harness.pod(node, "agent", kube=KubeQoS.BEST_EFFORT, namespace="kube-system"), ContainerRequest("app")
    )
    pod = node.runtime.containers[agent].pod.id
    before = [harness.file(node, k, name) for k in (pod, agent) for name in ("cpuset.cpus", "cpu.weight")]
    web, batch = online(node, CPUS), hungry(node)
    wait_until(lambda: box(node, batch) == FLOOR, GROWS_WITHIN_S, "a box at its floor")
    node.set_demand(web, CALM)
    lent(node, batch)
    assert before == [
        harness.file(node, k, name) for k in (pod, agent) for name in ("cpuset.cpus", "cpu.weight")
    ]


def test_a_restart_leaves_the_box_as_large_as_it_was(lending: Lasting):
    online(lending.node)
    batch = hungry(lending.node)
    lent(lending.node, batch)
    lending.daemon.kill()
    before, seen = box(lending.node, batch), set()

    def is_found() -> bool:
        size = box(lending.node, batch)
        is_told = any(map(tells_of_the_found, lending.daemon.audit()))
        if not is_told:  # later it may be a measured size
            seen.add(size)
        return is_told

    lending.daemon.start()
    wait_until(is_found, GROWS_WITHIN_S, "a record of the found size")
    assert seen <= {before}
    record = next(filter(tells_of_the_found, lending.daemon.audit()))
    assert cpuset.parse(record["after"]["cpus"]).bit_count() == before
    harness.served(lending.daemon)


def tells_of_the_found(record: dict[str, Any]) -> bool:
    return (record["event"], record["reason"], record["pool"]) == ("pool.resize", "restored", "reclaim")


def test_the_capacity_follows_the_load_and_says_why(lending: Lasting):
    web, batch = online(lending.node), hungry(lending.node)
    lent(lending.node, batch)
    daemon = lending.daemon
    wait_until(
        lambda: daemon.capacity()["headroom_cpu_milli"] >= 5000,
        GROWS_WITHIN_S,
        "a capacity of the unused CPUs",
    )
    calm = daemon.capacity()
    lending.node.set_demand(web, CPUS)
    wait_until(
        lambda: lending.daemon.capacity()["headroom_cpu_milli"] < 1000,
        20,
        "a capacity that follows the burst",
    )
    assert lending.daemon.capacity()["reason"]
    assert lending.daemon.capacity()["online_cpu_milli"] > calm["online_cpu_milli"]


def test_somebody_elses_hand_on_the_box_is_put_right(lending: Lasting):
    node = lending.node
    online(node, 4)
    batch = hungry(node)
    wait_until(lambda: 1 < box(node, batch) < 5, GROWS_WITHIN_S, "a box of about half the node")
    pod = node.runtime.containers[batch].pod

    def is_repaired() -> bool:
        """Change its CPUs and wait for the repair.

        A change that meets a new size of the reclaim pool is no drift, and has to be made again.
        """
        node.tree.write(pod.cgroup, "cpuset.cpus", EVERYTHING)
        wait_until(lambda: box(node, batch) < 5, 20, "the reclaim pool unchanged")
        return poll(lambda: lending.daemon.audit("drift.repair"), TOLD_WITHIN_S)

    wait_until(is_repaired, 20, "a record of a repair")


def test_a_dedicated_container_takes_its_cpus_out_of_the_box_too(lending: Lasting):
    node = lending.node
    online(node)
    batch = hungry(node)
    lent(node, batch)
    web = harness.dedicated(node, "db", 2000)
    owned = cpuset.parse(harness.file(node, web, "cpuset.cpus") or "")
    pod = node.runtime.containers[batch].pod.id
    wait_until(
        lambda: not cpuset.parse(harness.file(node, pod, "cpuset.cpus") or "") & owned,
        20,
        "the reclaim pool to leave",
    )
    # and the pool stays off these CPUs when it next grows or shrinks
    lent(node, batch, CPUS - 3)
    assert not cpuset.parse(harness.file(node, pod, "cpuset.cpus") or "") & owned


def test_a_killed_daemons_successor_takes_the_pool_over(lending: Lasting):
    node = lending.node
    web, batch = online(node, CPUS), hungry(node)
    wait_until(lambda: box(node, batch) == FLOOR, GROWS_WITHIN_S, "a box at its floor")
    lending.daemon.kill()
    assert box(node, batch) == FLOOR
    lending.daemon.start()
    harness.served(lending.daemon)
    node.set_demand(web, CALM)
    lent(node, batch)


def test_a_restart_never_widens_a_pool_at_its_floor(lending: Lasting):
    node = lending.node
    online(node, CPUS)
    batch = hungry(node)
    wait_until(lambda: box(node, batch) == FLOOR, GROWS_WITHIN_S, "a box at its floor")
    lending.daemon.kill()
    lending.daemon.start()
    seen = []

    def has_ticked() -> bool:
        seen.append(box(node, batch))
        return lending.daemon.metric("nri_coloc_tick_late_seconds_count") > 10

    harness.served(lending.daemon)
    wait_until(has_ticked, 20, "some ticks")
    if max(seen) > FLOOR:  # ticks may be slow here: a pool that was measured for a second may grow
        assert lending.daemon.audited("reclaim.grow")["inputs"]["known_for_s"] >= 1.0


def test_lending_can_be_switched_off_and_on(lending: Lasting):
    node = lending.node
    online(node, CPUS)
    batch = hungry(node)
    wait_until(lambda: box(node, batch) == FLOOR, GROWS_WITHIN_S, "a box at its floor")
    harness.reload(lending.daemon, "reclaim: {enabled: false}\n")
    wait_until(lambda: box(node, batch) == CPUS, 20, "all of share")
    harness.reload(lending.daemon, LENDING)
    wait_until(lambda: box(node, batch) == FLOOR, 20, "the floor again")


def test_observing_tells_what_it_would_do_and_does_nothing(tmp_path):
    with Node(tmp_path, "8cpu") as node:
        node.start_clock()
        web, batch = online(node, CPUS), hungry(node)
        before = box(node, batch)
        with harness.daemon_of(node, config=LENDING, flags=["--observe"]) as daemon:
            harness.served(daemon)
            first = daemon.audited("pool.resize", GROWS_WITHIN_S, reason="first_size")
            assert first["before"] == {"cpus": EVERYTHING}
            assert cpuset.parse(first["after"]["cpus"]).bit_count() == FLOOR
            node.set_demand(web, CALM)
            grown = lambda: [  # noqa: E731 - asked twice; with less to lend it is on its way there
                each for each in daemon.audit("reclaim.grow") if each["inputs"].get("lendable_cpus") == CPUS
            ]
            wait_until(grown, GROWS_WITHIN_S, "a growth to all that is there")
            grew = grown()[-1]
            less, more = (cpuset.parse(grew[when]["cpus"]) for when in ("before", "after"))
            assert less & more == less != more
            assert grew["inputs"]["lendable_cpus"] == CPUS
            assert grew["because"].startswith("grow: online use ")
            assert box(node, batch) == before
            harness.assert_unhurt(daemon)


@pytest.mark.parametrize("version", [1, 2], ids=["cgroup-v1", "cgroup-v2"])
def test_without_psi_run_queue_delay_shows_online_stall(version, tmp_path):
    with Node(tmp_path, "no-psi", cgroup=version) as node:
        node.start_clock()
        with harness.daemon_of(node, config=LENDING) as daemon:
            harness.served(daemon)
            web, batch = online(node), hungry(node)
            lent(node, batch)
            node.set_delay(web, 0.8)
            wait_until(
                lambda: any(
                    r.get("inputs", {}).get("stall_signal") == "run-queue delay"
                    and r["inputs"]["binding"] == "online_stall"
                    for r in daemon.audit("reclaim.suppress")
                ),
                GROWS_WITHIN_S,
                "a cut by run-queue delay",
            )
            harness.assert_unhurt(daemon)
