"""`explain` gives the reason for a container's present CPUs, also after a restart of the daemon."""

from nri_coloc.cli import explain
from nri_coloc.cli.explain import Whom
from nri_coloc.sim.node import Node
from tests.integration.harness import daemon_of, dedicated, ends_well, served, settled, shared
from tests.rig.daemon import Daemon
from tests.rig.waiting import wait_until


def explained(daemon: Daemon, pod: str) -> list[str]:
    page = daemon._json(f"/v1/audit?pod=shop/{pod}&limit=1000")
    records = explain.merged(page["kept"], page["records"])
    return explain.lines(Whom("shop", pod), daemon.state(), records)


def test_the_pool_that_moved_a_container_explains_it(tmp_path):
    with Node(tmp_path, "8cpu") as node, daemon_of(node) as daemon:
        served(daemon)
        shared(node, "web")
        dedicated(node, "db", 4000)
        settled(daemon)
        daemon.audited("pool.resize", pool="share")
        inputs = daemon.audited("container.admit", pod="db")["inputs"]
        requests = {"request_milli": 4000, "pod_request_milli": 8000}
        assert inputs == requests | {"n": 4, "free": "0-7", "node": 0, "node_free": 4}
        head, now, admitted = explained(daemon, "web")[:3]
        assert "CPUs 4-7," in head
        assert now.startswith("  CPUs 4-7 since ")
        assert "pool.resize cpus_taken: pool resized: shop/db/app owns CPUs 0-3" in now
        assert "container.admit pool_member" in admitted


def test_a_restart_forgets_no_reason(tmp_path):
    with Node(tmp_path, "8cpu") as node, daemon_of(node) as daemon:
        served(daemon)
        shared(node, "web")
        dedicated(node, "db", 4000)
        settled(daemon)
        daemon.audited("pool.resize", pool="share")
        before = {pod: explained(daemon, pod)[1:3] for pod in ("web", "db")}
        assert ends_well(daemon)
        daemon.start()
        served(daemon)
        settled(daemon)
        assert {pod: explained(daemon, pod)[1:3] for pod in ("web", "db")} == before
        node.remove_pod(next(k for k, pod in node.runtime.pods.items() if pod.request.name == "db"))
        wait_until(lambda: "no longer exists" in explained(daemon, "db")[0], 20, "the entry to go")
