"""Pools sized by load in the daemon: in a burst a tier grows at the reclaim pool's cost, and shrinks afterwards.

Everything is read from the cgroups' own files, on the simulated node's own clock. The node has eight CPUs in cores of
two; gold asks for four of them.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from nri_coloc.core import cpuset
from nri_coloc.sim.node import Node
from tests.integration import harness
from tests.rig.daemon import Daemon
from tests.rig.records import sentence_of
from tests.rig.waiting import wait_until

PARTITION = """
pools:
  gold: {members: [{label: "tier=gold"}], minCPUs: 2, priority: 10, band: [30, 50]}
  share: {band: [40, 60]}
reclaim: {sharing: partition}
"""
POOL = "coloc.nri.io/cpu-pool"
REST = 0.0
"""CPUs that are used at rest: a simulated clock that is held up moves counters in lumps, which look like bursts."""

DWELL_S = 60
"""Ten seconds and the steps after them, on a machine with something else to do."""

SOON_S = 20


class Rig:
    """Run a node with a pod in gold, one in `share` and a reclaimed pod that uses every CPU it gets."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.web = harness.shared(node, "web", 4000, annotations={POOL: "gold"})
        self.shop = harness.shared(node, "shop", 1000)
        self.batch = harness.reclaimed(node)
        node.set_demand(self.web, REST)
        node.set_demand(self.shop, REST)
        node.set_demand(self.batch, 8)

    def cpus(self) -> dict[str, int]:
        """Return the CPUs of gold, share and the reclaim pool, from their containers' own files."""
        of_batch = self.node.runtime.containers[self.batch].pod.id
        owners = {"gold": self.web, "share": self.shop, "reclaim": of_batch}
        return {
            pool: cpuset.parse(harness.file(self.node, k, "cpuset.cpus") or "") for pool, k in owners.items()
        }

    def sizes(self) -> tuple[int, int, int]:
        """Return the numbers of their CPUs, or zeros while two of them still share one."""
        found = self.cpus()
        gold, share, box = (cpus.bit_count() for cpus in found.values())
        union = found["gold"] | found["share"] | found["reclaim"]
        return (gold, share, box) if union.bit_count() == gold + share + box else (0, 0, 0)

    def have(self, gold: int, share: int, box: int, seconds: float) -> None:
        wait_until(
            lambda: self.sizes() == (gold, share, box), seconds, f"gold {gold}, share {share}, box {box}"
        )


class Place(NamedTuple):
    """Hold one node and its daemon for many tests, since gold takes ten seconds to calm down."""

    rig: Rig
    daemon: Daemon


@pytest.fixture(scope="module", params=[1, 2], ids=["cgroup-v1", "cgroup-v2"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with Node(tmp_path_factory.mktemp("partition"), "8cpu", cgroup=request.param) as node:
        node.start_clock()
        with harness.daemon_of(node, config=PARTITION) as daemon:
            harness.served(daemon)
            rig = Rig(node)
            rig.have(4, 2, 2, SOON_S)
            yield Place(rig, daemon)
            harness.assert_unhurt(daemon)


def resized(daemon: Daemon, event: str, pool: str) -> list[dict[str, Any]]:
    return [record for record in daemon.audit(event) if record["pool"] == pool]


def resized_gold(daemon: Daemon, words: str, after: int = 0) -> dict[str, Any]:
    """Wait for a record after the one of this number that gives these words for gold's new size; return it."""

    def those() -> list[dict[str, Any]]:
        records = resized(daemon, "pool.resize", "gold")
        return [record for record in records if words in sentence_of(record) and record["seq"] > after]

    return newest(those, f"{words!r} as a reason for gold's size")


def box_of_a_burst(daemon: Daemon) -> dict[str, Any]:
    """Return the reclaim pool's record beside one of gold's growth.

    Of two steps, the second may be at the cost of share's part of a core alone.
    """

    def those() -> list[dict[str, Any]]:
        told = {
            one["decision_id"]
            for one in resized(daemon, "pool.resize", "gold")
            if "above 50%" in sentence_of(one)
        }
        return [one for one in resized(daemon, "reclaim.suppress", "reclaim") if one["decision_id"] in told]

    return newest(those, "a smaller box beside a larger gold")


def newest(records: Callable[[], list[dict[str, Any]]], words: str) -> dict[str, Any]:
    """Wait until there is a record, and return the last."""
    wait_until(records, SOON_S, words)
    return records()[-1]


def shows(daemon: Daemon, sample: str, wanted: Callable[[float], bool]) -> None:
    wait_until(lambda: wanted(daemon.metric(sample)), SOON_S, sample)


def state_of(daemon: Daemon) -> dict[str, int]:
    """Return the CPUs of gold, share and the reclaim pool, from the daemon's state."""
    pools = daemon.state()["pools"]
    return {name: cpuset.parse(pools[name]["cpus"]) for name in ("gold", "share", "reclaim")}


def test_cpus_flow_to_a_bursting_tier_and_return_to_the_pool(place: Place):
    rig, daemon = place
    rig.have(2, 2, 4, DWELL_S)
    rig.node.set_demand(rig.web, 8)
    rig.have(4, 2, 2, SOON_S)
    burst = resized_gold(daemon, "above 50%")
    assert burst["reason"] == "tier_load"
    assert box_of_a_burst(daemon)["reason"] == "tier_load"
    shows(daemon, 'nri_coloc_pool_cpus{pool="gold"}', lambda cpus: cpus == 4)
    shows(daemon, 'nri_coloc_pool_load_cpus{pool="gold"}', lambda load: load > 3)
    rig.node.set_demand(rig.web, REST)
    rig.have(2, 2, 4, DWELL_S)
    resized_gold(daemon, "gold used 0.", burst["seq"])
    wait_until(lambda: state_of(daemon) == rig.cpus(), SOON_S, "the state and the files to agree")


def test_the_runtimes_own_records_follow(place: Place):
    rig, _ = place
    web = rig.node.runtime.containers[rig.web]
    wait_until(
        lambda: web.resources.cpu.cpus == harness.file(rig.node, rig.web, "cpuset.cpus"),
        20,
        "the runtime to know",
    )


def test_a_successor_begins_with_what_members_ask_for(place: Place):
    rig, daemon = place
    rig.have(2, 2, 4, DWELL_S)
    daemon.kill()
    assert rig.sizes() == (2, 2, 4)
    daemon.start()
    harness.served(daemon)
    rig.have(4, 2, 2, SOON_S)


def test_sharing_can_be_changed_to_overlap_and_back(place: Place):
    rig, daemon = place
    harness.reload(daemon, PARTITION.replace("partition", "overlap"))
    wait_until(lambda: rig.cpus()["share"] & rig.cpus()["reclaim"], 20, "a box inside of share")
    assert cpuset.parse(daemon.state()["pools"]["gold"]["cpus"]).bit_count() == 4, (
        "it has CPUs of its own here, too"
    )
    harness.reload(daemon, PARTITION)
    rig.have(4, 2, 2, SOON_S)


def test_observing_tells_what_it_would_do_and_does_nothing(tmp_path):
    with Node(tmp_path, "8cpu") as node:
        node.start_clock()
        rig = Rig(node)
        before = rig.cpus()
        with harness.daemon_of(node, config=PARTITION, flags=["--observe"]) as daemon:
            harness.served(daemon)
            wait_until(lambda: resized(daemon, "pool.resize", "share"), 20, "what it would do")
            wait_until(
                lambda: resized(daemon, "reclaim.grow", "reclaim"), DWELL_S, "CPUs that would be returned"
            )
            assert rig.cpus() == before
            harness.assert_unhurt(daemon)
