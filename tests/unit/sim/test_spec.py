"""sim/spec.py: an update and an adjustment are merged, and each version's messages have the right fields."""

import pytest

from nri_coloc._pb import nri_pb2
from nri_coloc.core.workload import KubeQoS, Resources
from nri_coloc.errors import RuntimeRefused
from nri_coloc.sim import spec
from nri_coloc.sim.identity import Identity
from nri_coloc.sim.spec import Container, ContainerRequest, Pod, PodRequest, native, to_message

OLD, NEW = (0, 6, 1), (0, 12, 1)


def container(resources: Resources = Resources(shares=512, quota=100_000, period=100_000)) -> Container:  # noqa: B008 - immutable
    pod = Pod("pod-id", "uid-1", PodRequest("web", "shop"))
    return Container(
        id="ctr-id",
        pod=pod,
        request=ContainerRequest("app"),
        resources=to_message(resources),
        annotations={"kept": "1"},
        oom_score_adj=900,
    )


def test_native_requests_become_what_the_kubelet_writes():
    assert native(1500, 1500, 1 << 30) == Resources(1536, 150_000, 100_000, memory_limit=1 << 30)
    assert native(0) == Resources(shares=2)


@pytest.mark.parametrize(
    ("qos", "parent"),
    [
        (KubeQoS.GUARANTEED, "/kubepods/podU"),
        (KubeQoS.BURSTABLE, "/kubepods/burstable/podU"),
        (KubeQoS.BEST_EFFORT, "/kubepods/besteffort/podU"),
    ],
)
def test_a_pods_cgroup_lies_below_its_class(qos, parent):
    assert PodRequest("web", qos=qos).cgroup_parent("U") == parent


def test_an_update_takes_zero_and_empty_for_keep():
    found = container()
    spec.update(found.resources, to_message(Resources(cpus="2-3"), as_update=True))
    cpu = found.resources.cpu
    assert (cpu.shares.value, cpu.quota.value, cpu.period.value, cpu.cpus) == (512, 100_000, 100_000, "2-3")


def test_an_adjustment_goes_by_presence():
    found = container()
    wanted = nri_pb2.ContainerAdjustment()
    wanted.linux.resources.cpu.shares.value = 0
    wanted.annotations.update({"-kept": "", "new": "2"})
    spec.adjust(found, wanted, NEW, 2)
    assert found.resources.cpu.shares.value == 0
    assert found.annotations == {"new": "2"}


def test_unified_is_merged_key_by_key_and_refused_on_v1():
    found = container()
    wanted = nri_pb2.ContainerAdjustment()
    wanted.linux.resources.unified["memory.high"] = "1"
    spec.adjust(found, wanted, NEW, 2)
    more = nri_pb2.LinuxResources(unified={"io.weight": "default 10"})
    spec.update(found.resources, more)
    assert dict(found.resources.unified) == {"memory.high": "1", "io.weight": "default 10"}
    with pytest.raises(RuntimeRefused, match="unified"):
        spec.adjust(found, wanted, NEW, 1)


@pytest.mark.parametrize(("version", "score"), [(OLD, 900), (NEW, 500)], ids=["old", "new"])
def test_the_oldest_runtime_ignores_oom_score_adj(version, score):
    found = container()
    wanted = nri_pb2.ContainerAdjustment()
    wanted.linux.oom_score_adj.value = 500
    spec.adjust(found, wanted, version, 2)
    assert found.oom_score_adj == score


def test_a_container_in_creation_has_labels_and_no_state():
    message = container().message(NEW)
    assert message.state == nri_pb2.CONTAINER_UNKNOWN
    assert message.labels["io.kubernetes.container.name"] == "app"
    assert message.linux.cgroups_path == "/kubepods/burstable/poduid-1/ctr-id"


def test_older_versions_are_not_told_of_unified():
    found = container()
    found.resources.unified["memory.high"] = "1"
    assert not found.message((0, 8, 0)).linux.resources.unified
    assert found.message((0, 10, 0)).linux.resources.unified


def test_ids_look_real_and_repeat_in_every_run():
    one, other = Identity(), Identity()
    assert one.runtime_id() == other.runtime_id()
    assert len({one.runtime_id() for _ in range(100)} | {one.uid()}) == 101
    assert len(one.runtime_id()) == 64
