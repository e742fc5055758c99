"""`explain` gives the reason for the CPUs that a container has on a real runtime now."""

import pytest

from nri_coloc.cli import main
from tests.rig import workloads
from tests.rig.cri import Cri
from tests.rig.daemon import Daemon
from tests.rig.versions import ON_THE_NEWEST
from tests.rig.waiting import wait_until
from tests.rig.workloads import NODE_CPUS

pytestmark = [pytest.mark.containerd, pytest.mark.bears_load, ON_THE_NEWEST]


def test_the_owner_that_took_cpus_is_the_reason(daemon: Daemon, cri: Cri, capsys: pytest.CaptureFixture[str]):
    neighbour, web = workloads.shared(cri), workloads.dedicated(cri)
    left = NODE_CPUS - web.first_cpus()
    wait_until(lambda: neighbour.cpus == left, 30, "the neighbour to make room")
    daemon.audited("pool.resize", pool="share")
    assert main.main(["explain", "default/neighbour", "--http", f"127.0.0.1:{daemon._port}"], {}) == 0
    head, now = capsys.readouterr().out.splitlines()[:2]
    cpus = daemon.container(neighbour.id)["cpus"]
    assert f"CPUs {cpus}," in head
    assert now.startswith(f"  CPUs {cpus} since ")
    assert "default/web/app owns CPUs" in now
