"""A dedicated container without a free CPU gets one when a CPU becomes free, by the kernel's files."""

from collections.abc import Callable

import grpc
import pytest

from tests.rig import workloads
from tests.rig.containerd import Containerd
from tests.rig.cri import Cri, Pod
from tests.rig.daemon import Daemon
from tests.rig.waiting import becomes, wait_until
from tests.rig.workloads import NODE_CPUS, Workload

pytestmark = pytest.mark.containerd


@pytest.fixture
def pod(daemon: Daemon, cri: Cri) -> Pod:
    return cri.run_pod("web", annotations={workloads.QOS: "dedicated"})


def failed(attempt: Workload) -> Workload:
    with pytest.raises(grpc.RpcError, match="mount"):
        attempt.start()
    return attempt


def waiting(daemon: Daemon, cri: Cri) -> tuple[Workload, Workload]:
    """Return an owner of the node's only free CPU, and a container that waits for it."""
    first = workloads.dedicated(cri, "first")
    late = workloads.dedicated(cri, "late")
    becomes(lambda: daemon.container(late.id).get("waits_for"), "1 CPU of its own")
    return first, late


def owns(daemon: Daemon, late: Workload) -> None:
    """Wait until a container has a CPU of its own by the kernel's files and the runtime's spec."""
    wait_until(lambda: daemon.container(late.id)["exclusive"], 20, "a CPU of its own")
    becomes(lambda: len(late.cpus or ()), 1)
    wait_until(lambda: late.spec_cpus == daemon.container(late.id)["cpus"], 20, "the specification")


@pytest.mark.bears_load
def test_the_next_attempt_has_the_cpu_of_one_that_failed(daemon: Daemon, cri: Cri, pod: Pod):
    failed(workloads.attempt(cri, pod, 0, broken=True))
    second = workloads.attempt(cri, pod, 1).start()
    assert daemon.container(second.id)["exclusive"]
    assert second.first_cpus() == second.cpus


@pytest.mark.bears_load
def test_an_attempt_that_is_never_started_yields_too(daemon: Daemon, cri: Cri, pod: Pod):
    workloads.attempt(cri, pod, 0)
    second = workloads.attempt(cri, pod, 1).start()
    assert daemon.container(second.id)["exclusive"]


@pytest.mark.bears_load
def test_a_waiting_container_gets_the_cpu_that_comes_free(daemon: Daemon, cri: Cri):
    neighbour = workloads.shared(cri)
    first, late = waiting(daemon, cri)
    cri.remove(first.id)
    owns(daemon, late)
    becomes(lambda: neighbour.cpus, NODE_CPUS - (late.cpus or set()))
    assert daemon.audited("container.update", 20, container_id=late.id)["reason"] == "cpus_freed"


def test_it_keeps_that_cpu_over_restarts(own_daemon: Callable[..., Daemon], containerd: Containerd, cri: Cri):
    daemon = own_daemon()
    first, late = waiting(daemon, cri)
    cri.remove(first.id)
    owns(daemon, late)
    had = late.cpus
    daemon.kill()
    daemon.start()
    daemon.wait_synchronised()
    assert (daemon.container(late.id)["exclusive"], late.cpus) == (True, had)
    containerd.kill()
    daemon.wait_lost()
    containerd.start()
    daemon.wait_back()
    assert (daemon.container(late.id)["exclusive"], late.cpus) == (True, had)


@pytest.mark.bears_load
def test_it_still_waits_after_a_restart(own_daemon: Callable[..., Daemon], cri: Cri):
    daemon = own_daemon()
    first, late = waiting(daemon, cri)
    daemon.kill()
    cri.remove(first.id)
    daemon.start()
    daemon.wait_synchronised()
    owns(daemon, late)
