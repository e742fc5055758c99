"""The configuration is broken while the node works, and repaired: only the repaired configuration moves containers."""

from collections.abc import Callable

import pytest

from tests.rig.cri import Cri
from tests.rig.daemon import Daemon
from tests.rig.inspector import Inspector
from tests.rig.versions import ON_THE_NEWEST
from tests.rig.waiting import wait_until
from tests.rig.workloads import NODE_CPUS

pytestmark = [pytest.mark.containerd, pytest.mark.bears_load, ON_THE_NEWEST]

OwnDaemon = Callable[..., Daemon]
BROKEN = ("node: [", "classes: {rules: 7}\n", f"\0{'x' * 100_000}")


@pytest.mark.invariant(1, 2, 3, 6, 7, 8)
def test_repeated_bad_configurations_move_nothing_while_pods_come(
    cri: Cri, own_daemon: OwnDaemon, inspector: Inspector
):
    daemon = own_daemon()
    neighbour, batch = inspector.run("neighbour", "shared"), inspector.run("batch", "reclaimed")
    for number, text in enumerate(BROKEN):
        daemon.config.write(text)
        wait_until(lambda: not daemon.check("config")["ok"], 30, "readiness to refuse it")
        web = inspector.run(f"web-{number}", "dedicated")
        inspector.wait_until_sound()
        daemon.config.write("")
        inspector.holds_until(lambda: daemon.check("config")["ok"], 30, "the mended file to count")
        inspector.forget(web)
        cri.remove_pod(web.pod.id)
        wait_until(lambda: neighbour.cpus == batch.cpus == NODE_CPUS, 30, "the CPUs to come back")
    assert daemon.metric("nri_coloc_reconnects_total") == 0
    assert "Traceback" not in daemon.log()


@pytest.mark.invariant(1, 3, 6, 7)
def test_a_mended_configuration_is_taken_up(own_daemon: OwnDaemon, inspector: Inspector):
    daemon = own_daemon()
    for qos in ("dedicated", "shared", "reclaimed"):
        inspector.run(f"{qos}-one", qos)
    inspector.wait_until_sound()
    daemon.kill()
    daemon.config.write(BROKEN[0])
    daemon.start()
    inspector.holds_until(lambda: daemon.is_dead, 60, "the daemon to refuse to start")
    daemon.config.write("")
    daemon.start()
    daemon.wait_synchronised()
    assert inspector.breaches() == []
