"""Lending on a real kernel: the offer follows the load and gives its reason; memory limits are set and removed.

Other programs run on the machine too, so amounts are compared with the sum that the offer itself gives.
"""

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import pytest

from nri_coloc.cli.main import main
from tests.rig import cgroups, kubepods, workloads
from tests.rig.cri import Cri
from tests.rig.daemon import Daemon
from tests.rig.versions import ON_THE_NEWEST
from tests.rig.waiting import wait_until

pytestmark = [pytest.mark.containerd, ON_THE_NEWEST]

OwnDaemon = Callable[..., Daemon]
LENDING: Final = "reclaim: {enabled: true}\n"
BURN: Final = ("/bin/sh", "-c", "exec yes > /dev/null")
SOON_S: Final = 120
TERMS: Final = re.compile(
    r"CPU (\d+)m = (\d+)m lendable \* 0\.95 - 0m reserve - (\d+)m of (\d+) online pods(?: \(most: (\S+) (\d+)m\))?"
    r" - (\d+)m of the system; memory (\d+) = "
)


class Offer(NamedTuple):
    """Hold `/v1/capacity` and the terms of its sentence, in milli-CPU."""

    told: dict[str, Any]
    lendable: int
    pods: int
    system: int
    first: str
    first_milli: int

    @property
    def adds_up(self) -> bool:
        usable = int(self.lendable * 0.95)
        return bool(self.told["cpu_milli"] == max(0, usable - self.pods - self.system))


def offer(daemon: Daemon) -> Offer | None:
    told = dict(daemon._json("/v1/capacity"))
    found = TERMS.search(told.get("because", ""))
    if found is None:
        return None
    _, lendable, pods, _, first, milli, system, _ = found.groups()
    return Offer(
        told=told,
        lendable=int(lendable),
        pods=int(pods),
        system=int(system),
        first=first or "",
        first_milli=int(milli or 0),
    )


def naming(daemon: Daemon, workload: str, milli: int) -> Offer:
    """Return the first offer that leaves out this amount for a workload, as its largest one."""
    found: list[Offer] = []

    def look() -> bool:
        made = offer(daemon)
        found.extend([made] if made else [])
        return made is not None and made.first == workload and made.first_milli >= milli

    wait_until(look, SOON_S, f"an offer that keeps {milli}m for {workload}")
    return found[-1]


def test_what_is_offered_follows_the_load_and_says_why(cri: Cri, own_daemon: OwnDaemon):
    daemon = own_daemon(config=LENDING)
    wait_until(lambda: offer(daemon), SOON_S, "an offer")
    workloads.run(cri, "quiet")
    before = naming(daemon, "default/quiet", 0)
    workloads.run(cri, "burner", command=BURN, shares=100)
    after = naming(daemon, "default/burner", 120)  # beyond its request of 98m
    assert before.adds_up, before.told
    assert after.adds_up, after.told
    assert after.lendable == 1000 * len(workloads.NODE_CPUS)
    assert after.pods >= before.pods + 100
    assert after.told["reason"] == "learning"
    assert after.told["online_cpu_milli"] > 0
    wait_until(
        lambda: daemon.metric("nri_coloc_capacity_cpu_milli") == daemon.capacity()["cpu_milli"],
        SOON_S,
        "the same as a metric",
    )


def test_the_boxs_members_have_memory_limits_that_can_be_put_back(cri: Cri, own_daemon: OwnDaemon):
    daemon = own_daemon(config=LENDING)
    batch, web = workloads.reclaimed(cri), workloads.shared(cri)
    agent = workloads.run(cri, "agent", "system", namespace="kube-system", parent=kubepods.BESTEFFORT)
    wait_until(lambda: cgroups.memory_limit(batch.pod.cgroup), SOON_S, "a limit of the reclaimed pod")
    record = daemon.audited("reclaim.memory")
    assert "default/batch.high_bytes" in record["inputs"]
    assert record["after"]["memory.limit"] > 0
    wait_until(lambda: daemon.check("readings")["ok"], 30, "a first sweep")
    for other in (web.pod.cgroup, agent.pod.cgroup, batch.cgroup, "/kubepods/besteffort", "/kubepods"):
        assert cgroups.memory_limit(other) is None
    daemon.terminate()
    assert cgroups.memory_limit(batch.pod.cgroup), "the last limit stays"
    assert main(["restore", *daemon.places()], {}) == 0
    assert cgroups.memory_limit(batch.pod.cgroup) is None


def test_an_observer_offers_and_limits_nobody(cri: Cri, own_daemon: OwnDaemon):
    daemon = own_daemon(config=f"mode: observe\n{LENDING}")
    batch = workloads.reclaimed(cri)
    daemon.audited("reclaim.memory", SOON_S)
    wait_until(lambda: offer(daemon), SOON_S, "an offer")
    assert cgroups.memory_limit(batch.pod.cgroup) is None
