"""Another NRI plugin on the same runtime is slow, hangs, or sets the field that we set."""

from collections.abc import Callable

import grpc
import pytest

from tests.rig import rival, workloads
from tests.rig.containerd import Containerd
from tests.rig.cri import Cri
from tests.rig.daemon import Daemon
from tests.rig.inspector import Inspector
from tests.rig.rival import Rival
from tests.rig.waiting import wait_until
from tests.rig.workloads import NODE_CPUS

pytestmark = [pytest.mark.containerd, pytest.mark.bears_load]

OwnDaemon = Callable[..., Daemon]
BEFORE_US, AFTER_US = "10", "90"
SLOW, HANGING = "1.2", "4"  # the runtime waits for two seconds


@pytest.mark.invariant(1, 4, 8)
@pytest.mark.parametrize("index", [BEFORE_US, AFTER_US], ids=["before-us", "after-us"])
def test_a_slow_plugin_delays_a_dedicated_container_and_nothing_else(
    containerd: Containerd, own_daemon: OwnDaemon, inspector: Inspector, index: str
):
    daemon = own_daemon()
    neighbour = inspector.run("neighbour", "shared")
    with Rival(containerd.nri_socket, index):
        web = inspector.run("web", "dedicated", annotations={rival.SLOW: SLOW})
        inspector.run("batch", "reclaimed")
        inspector.wait_until_sound()
        assert web.first_cpus().isdisjoint(neighbour.cpus or NODE_CPUS)
    assert daemon.metric("nri_coloc_reconnects_total") == 0


@pytest.mark.invariant(1, 8)
def test_a_plugin_that_hangs_is_dropped_alone(
    containerd: Containerd, own_daemon: OwnDaemon, inspector: Inspector
):
    daemon = own_daemon()
    inspector.run("neighbour", "shared")
    with Rival(containerd.nri_socket, BEFORE_US) as other:
        inspector.run("web", "dedicated", annotations={rival.SLOW: HANGING})
        wait_until(other.dropped.is_set, 30, "the runtime to drop it")
        inspector.wait_until_sound()
    assert daemon.metric("nri_coloc_reconnects_total") == 0


@pytest.mark.invariant(1, 2, 8)
@pytest.mark.parametrize("index", [BEFORE_US, AFTER_US], ids=["before-us", "after-us"])
def test_a_field_of_two_plugins_costs_one_container_alone(
    containerd: Containerd, cri: Cri, own_daemon: OwnDaemon, inspector: Inspector, index: str
):
    daemon = own_daemon()
    neighbour = inspector.run("neighbour", "shared")
    with Rival(containerd.nri_socket, index):
        pinned = {rival.PIN: str(max(NODE_CPUS))}
        with pytest.raises(grpc.RpcError, match="rival"):
            workloads.run(cri, "contested", "dedicated", request=1, annotations=pinned)
        # the runtime reports no failed creation to a plugin: CRI's list shows it, a little later
        inspector.holds_until(lambda: neighbour.cpus == NODE_CPUS, 120, "the CPUs to come back")
        inspector.run("web", "dedicated")
        inspector.wait_until_sound()
    assert daemon.metric("nri_coloc_reconnects_total") == 0
