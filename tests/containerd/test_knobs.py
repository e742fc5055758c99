"""Memory limits, I/O weights, oom_score_adj and the reclaimed pod's limits arrive in the kernel's files."""

from collections.abc import Callable

import pytest

from tests.rig import cgroups, kubepods, workloads
from tests.rig.cri import Cri
from tests.rig.daemon import Daemon
from tests.rig.waiting import wait_until
from tests.rig.workloads import NODE_CPUS

pytestmark = [pytest.mark.containerd, pytest.mark.bears_load, pytest.mark.usefixtures("daemon")]

PREFIX = "coloc.nri.io/"


@pytest.mark.parametrize(
    ("asked", "limit"), [("48Mi", 48 << 20), ("50%", 32 << 20), ("50331648", 48 << 20)], ids=str
)
def test_an_annotated_memory_limit_holds_in_the_cgroup_and_the_spec(cri: Cri, asked: str, limit: int):
    web = workloads.run(
        cri, "web", annotations={f"{PREFIX}memory-limit": asked}, request=0.1, memory=64 << 20
    )
    assert cgroups.memory_limit(web.cgroup) == limit
    assert cri.info(web.id)["runtimeSpec"]["linux"]["resources"]["memory"]["limit"] == limit


def test_the_least_memory_limit_starts_a_container(cri: Cri):
    web = workloads.run(
        cri, "web", annotations={f"{PREFIX}memory-limit": "4Mi"}, command=("/bin/sleep", "1000000")
    )
    assert cgroups.memory_limit(web.cgroup) == 4 << 20
    assert cri.pid(web.id)


@pytest.mark.parametrize(("asked", "memory"), [("4096", 64 << 20), ("4095Ki", 64 << 20), ("5%", 64 << 20)])
def test_a_limit_with_which_nothing_starts_is_invalid(daemon: Daemon, cri: Cri, asked: str, memory: int):
    web = workloads.run(cri, "web", annotations={f"{PREFIX}memory-limit": asked}, memory=memory)
    record = daemon.audited("annotation.invalid", container_id=web.id)
    assert (record["key"], record["value"]) == (f"{PREFIX}memory-limit", asked)
    assert cgroups.memory_limit(web.cgroup) == memory


@pytest.mark.parametrize(("asked", "weight"), [(1, 1), (100, 100), (300, 118), (10000, 1000)])
def test_an_io_weight_acts_along_the_whole_path(cri: Cri, asked: int, weight: int):
    web = workloads.run(cri, "web", annotations={f"{PREFIX}io-weight": str(asked)}, request=0.1)
    assert cgroups.weighs(web.pod.cgroup, weight)
    assert cgroups.weighs(web.cgroup, weight)


def test_an_io_weight_is_in_force_at_the_first_instruction(cri: Cri):
    pod = cri.run_pod("web", annotations={f"{PREFIX}io-weight": "300"})
    assert cgroups.weighs(pod.cgroup, 118)
    web = workloads.add(cri, pod, "app")
    assert cgroups.weighs(web.cgroup, 118)


def test_one_containers_values_are_its_own(cri: Cri):
    annotations = {f"{PREFIX}memory-limit.app": "48Mi", f"{PREFIX}memory-limit": "32Mi"}
    pod = cri.run_pod("web", annotations=annotations)
    app, other = (workloads.add(cri, pod, name, memory=64 << 20) for name in ("app", "other"))
    assert cgroups.memory_limit(app.cgroup) == 48 << 20
    assert cgroups.memory_limit(other.cgroup) == 32 << 20


def test_an_offline_pod_is_limited_from_its_sandbox_on(cri: Cri):
    web = workloads.dedicated(cri)
    pod = cri.run_pod("batch", cgroup_parent=kubepods.BESTEFFORT)
    left = NODE_CPUS - web.first_cpus()
    assert cgroups.cpus(pod.cgroup) == left
    assert cgroups.shares(pod.cgroup) in (2, None)
    assert cgroups.weighs(pod.cgroup, 10)
    assert cgroups.cpus(f"{pod.cgroup}/{pod.id}") == left


def test_an_offline_container_inherits_its_pods_cpus(cri: Cri):
    web = workloads.dedicated(cri)
    batch = workloads.reclaimed(cri)
    assert batch.first_cpus() == batch.cpus == NODE_CPUS - web.first_cpus()
    assert batch.spec_cpus == ""
    assert cgroups.shares(batch.cgroup) in (2, None)
    assert cgroups.weighs(batch.cgroup, 10)


def test_an_offline_pod_is_never_limited_above_itself(cri: Cri):
    workloads.dedicated(cri)
    batch = workloads.reclaimed(cri)
    above = [path for path in kubepods.parents(batch.pod.cgroup) if "besteffort" in path]
    assert [cgroups.cpus(path) for path in above] == [NODE_CPUS]
    assert cgroups.weighs(above[0], 100)


def test_an_annotation_makes_a_pod_of_any_kind_an_offline_one(cri: Cri):
    batch = workloads.run(cri, "batch", "reclaimed", request=0.5)
    assert cgroups.shares(batch.pod.cgroup) in (2, None)
    assert cgroups.shares(batch.cgroup) in (512, None)  # native requests keep the kubelet's values
    assert cgroups.quota(batch.cgroup) == (50_000, workloads.PERIOD)


@pytest.mark.parametrize(
    ("asked", "given"),
    [("", 1000), ("700", 700), ("100", 500), ("-1000", 500), ("1000", 1000)],
    ids=["default", "within", "below", "far below", "highest"],
)
def test_an_offline_containers_oom_score_lies_in_its_band(cri: Cri, asked: str, given: int):
    annotations = {f"{PREFIX}oom-score-adj": asked} if asked else {}
    batch = workloads.run(cri, "batch", "reclaimed", request=0.1, oom=300, annotations=annotations)
    assert cgroups.oom_score_adj(cri.pid(batch.id)) == given


def test_an_online_containers_oom_score_is_the_kubelets(cri: Cri):
    web, neighbour = workloads.run(cri, "web", "dedicated", request=1, oom=300), workloads.shared(cri)
    assert cgroups.oom_score_adj(cri.pid(web.id)) == 300
    assert cgroups.oom_score_adj(cri.pid(neighbour.id)) == 0


def test_an_oom_score_that_the_kernel_refuses_never_fails_the_container(daemon: Daemon, cri: Cri):
    """Without CAP_SYS_RESOURCE a score cannot go below the lowest it ever was: here 0."""
    annotations = {f"{PREFIX}oom-score-adj": "-500"}
    asked: workloads.Asked = {
        "namespace": "kube-system",
        "annotations": annotations,
        "request": 1,
        "oom": 300,
    }
    web = workloads.run(cri, "web", "dedicated", **asked)
    assert len(web.first_cpus()) == 1
    if workloads.may_lower_oom_scores():
        assert cgroups.oom_score_adj(cri.pid(web.id)) == -500
    else:
        assert daemon.audited("write.failed", saying="oom_score_adj")
        assert cgroups.oom_score_adj(cri.pid(web.id)) == 300


def test_a_best_effort_pod_gets_no_lower_oom_score(daemon: Daemon, cri: Cri):
    key = f"{PREFIX}oom-score-adj"
    web = workloads.run(cri, "web", "shared", parent=kubepods.BESTEFFORT, oom=1000, annotations={key: "500"})
    record = daemon.audited("annotation.denied", container_id=web.id)
    assert (record["key"], record["value"], record["used"]) == (key, "500", "the kubelet's")
    assert cgroups.oom_score_adj(cri.pid(web.id)) == 1000


def test_a_reclaimed_pod_weighs_no_more_than_an_online_one(daemon: Daemon, cri: Cri):
    batch = workloads.run(
        cri, "batch", parent=kubepods.BESTEFFORT, oom=1000, annotations={f"{PREFIX}io-weight": "10000"}
    )
    assert daemon.audited("annotation.denied", container_id=batch.id)["key"] == f"{PREFIX}io-weight"
    assert cgroups.weighs(batch.pod.cgroup, 10)
    assert cgroups.weighs(batch.cgroup, 10)


def test_a_burst_reaches_the_container(cri: Cri):
    web = workloads.run(cri, "web", request=0.5, annotations={f"{PREFIX}cpu-burst": "50%"})
    assert cgroups.burst(web.cgroup) in (25_000, None)


def test_the_daemon_reports_the_values_that_it_changed(daemon: Daemon, cri: Cri):
    annotations = {f"{PREFIX}memory-limit": "48Mi", f"{PREFIX}io-weight": "300"}
    web = workloads.run(cri, "web", request=0.1, memory=64 << 20, annotations=annotations)
    record = daemon.audited("container.admit", container_id=web.id)
    assert record["before"]["memory.limit"] == 64 << 20
    assert record["after"]["memory.limit"] == cgroups.memory_limit(web.cgroup)
    assert record["after"]["io.weight"] == 300


def test_an_offline_pod_with_online_container_leaves_the_box(cri: Cri, own_daemon: Callable[..., Daemon]):
    own_daemon()
    mixed = cri.run_pod(
        "mixed", annotations={f"{PREFIX}qos-class": "reclaimed", f"{PREFIX}qos-class.app": "shared"}
    )
    online, web = workloads.add(cri, mixed, "app", request=0.1), workloads.dedicated(cri)
    offline = workloads.add(cri, mixed, "batch")
    assert cgroups.cpus(mixed.cgroup) == NODE_CPUS
    assert cgroups.shares(mixed.cgroup) != 2
    wait_until(lambda: online.cpus == offline.cpus == NODE_CPUS - web.first_cpus(), 30, "both to make room")
