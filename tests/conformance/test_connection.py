"""The connection ends: the daemon reconnects within the bound, and no assignment is lost."""

from nri_coloc.core import cpuset
from tests.conformance.looking import cpus, pools
from tests.integration.harness import assert_unhurt, dedicated, pod, reclaimed, served, shared
from tests.rig.daemon import Daemon
from tests.rig.go_plugins import GoNode
from tests.rig.waiting import wait_until

BACK_SECONDS = 10 + 30
"""The cap of the wait between two tries (DESIGN 4.3), and the handshake."""


def back(node: GoNode, before: int) -> None:
    wait_until(lambda: node.nri.synchronised > before, BACK_SECONDS, "the plugin to be back")


def test_a_runtime_that_restarts_finds_everything_as_it_was(node: GoNode, daemon: Daemon):
    web, neighbour = dedicated(node), shared(node)
    reclaimed(node)
    before, synchronised = pools(daemon), node.nri.synchronised
    node.kill_runtime()
    wait_until(lambda: daemon.audit("runtime.lost"), 30, "the loss to be noticed")
    node.start_runtime()
    back(node, synchronised)
    assert pools(daemon) == before
    assert cpuset.render(cpus(node, dedicated(node, "second"))) == "2-3"
    assert [cpuset.render(cpus(node, one)) for one in (web, neighbour)] == ["0-1", "4-7"]
    assert_unhurt(daemon)


def test_a_dropped_plugin_places_missed_containers(node: GoNode, daemon: Daemon):
    web, synchronised = dedicated(node), node.nri.synchronised
    node.nri.limit(0)  # any answer of the plugin is too late
    missed = shared(node, "missed")
    node.nri.limit(node.nri.request_timeout)
    back(node, synchronised)
    wait_until(lambda: not node.cpus(missed) & node.cpus(web), 30, "the missed one to be placed")
    assert daemon.container(web)["cpus"] == "0-1"
    assert daemon.container(missed)["cpus"] == "2-7"
    assert_unhurt(daemon)


def test_what_ended_while_we_were_away_gives_its_cpus_back(node: GoNode, daemon: Daemon):
    web = dedicated(node)
    pod(node, "other")
    daemon.kill()
    node.runtime.stop(web)
    daemon.start()
    served(daemon)
    assert pools(daemon)["dedicated"] == ""
    assert_unhurt(daemon)
