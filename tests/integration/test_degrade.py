"""Degrading end to end: a hog of an online pool that is short of CPU gets a lower quota by file."""

from nri_coloc.sim.node import Node
from tests.integration.harness import daemon_of, file, served, shared
from tests.rig import judging_daemon
from tests.rig.waiting import wait_until

SHORT = "pressure: {degrade: true, cpu: {up: 1}}\n"
OPEN = {"coloc.nri.io/avoidance": "degrade"}
LEARNS_S = 10
"""Three readings make a baseline, one a second, after the pods have started."""


def test_a_hog_of_a_short_pool_is_degraded(tmp_path):
    learned, later = tmp_path / "learned", tmp_path / "later"
    with Node(tmp_path, "8cpu", cgroup=2, runtime_version="2.2.0") as node:
        node.start_clock()
        with daemon_of(node, config=SHORT, program=judging_daemon.program(learned, later)) as daemon:
            served(daemon)
            web, hog = shared(node, "web", 1000), shared(node, "hog", 500, annotations=OPEN)
            node.set_demand(web, 0.5)
            wait_until(learned.exists, LEARNS_S, "a baseline of the calm pod")
            node.set_demand(hog, 20.0)
            node.set_delay(web, 0.9)
            degraded = daemon.audited("pressure.degrade", 10)
            assert degraded["pod"] == "hog"
            assert int((file(node, hog, "cpu.max") or "").split()[0]) == degraded["after"]["quota"] >= 50_000
            assert daemon.metric("nri_coloc_degraded_containers") == 1
            assert daemon.terminate() == 0
            assert file(node, hog, "cpu.max") == "max 100000"
