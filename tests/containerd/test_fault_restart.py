"""containerd is killed while a container starts, with a hundred containers beside it, and is started again."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from tests.rig import workloads
from tests.rig.containerd import Containerd
from tests.rig.cri import Cri
from tests.rig.daemon import Daemon
from tests.rig.inspector import Inspector
from tests.rig.waiting import wait_until
from tests.rig.workloads import NODE_CPUS, Workload

pytestmark = pytest.mark.containerd

OwnDaemon = Callable[..., Daemon]
CONTAINERS, PODS = 100, 5
BACK_SECONDS = 120
ENDS_SECONDS = 180


@pytest.mark.invariant(1, 2, 3, 6, 7, 8)
def test_a_killed_containerd_leaves_a_whole_node(
    containerd: Containerd, cri: Cri, own_daemon: OwnDaemon, inspector: Inspector
):
    daemon = own_daemon()
    batch, crowd = inspector.run("batch", "reclaimed"), _crowd(cri, inspector)
    pod = cri.run_pod("web", annotations={workloads.QOS: "dedicated"})
    with ThreadPoolExecutor(1) as kubelet:
        arriving = kubelet.submit(workloads.add, cri, pod, "app", request=1)
        wait_until(lambda: any(m.cpus != NODE_CPUS for m in crowd), 60, "the first to make room")
        containerd.kill()
        inspector.holds_until(lambda: not daemon.check("connected")["ok"], 60, "the daemon to notice")
        containerd.start()
        inspector.holds_until(lambda: daemon.check("connected")["ok"], BACK_SECONDS, "it to be back")
        assert isinstance(arriving.exception(ENDS_SECONDS), grpc.RpcError | None)
    cri.remove_pod(pod.id)  # as a kubelet does that got no answer
    wait_until(lambda: all(m.cpus == NODE_CPUS for m in (*crowd, batch)), 120, "all containers to be back")
    inspector.run("second", "dedicated")
    inspector.wait_until_sound()
    assert not daemon.is_dead


def _crowd(cri: Cri, inspector: Inspector) -> list[Workload]:
    with ThreadPoolExecutor(4) as pool:
        pods = list(pool.map(lambda i: cri.run_pod(f"crowd-{i}"), range(PODS)))
        return list(pool.map(lambda i: inspector.add(pods[i % PODS], f"c{i}"), range(CONTAINERS)))
