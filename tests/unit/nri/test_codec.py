"""nri/codec.py: the wire's messages as facts of the model."""

import pytest

from nri_coloc._pb import nri_pb2
from nri_coloc.model.workload import RECORD_KEY, Container, Phase, Pod, Resources
from nri_coloc.nri import codec

POD = nri_pb2.PodSandbox(
    id="p1",
    uid="u1",
    name="web",
    namespace="shop",
    labels={"app": "web"},
    annotations={"coloc.nri.io/qos-class": "dedicated"},
    runtime_handler="runc",
    linux=nri_pb2.LinuxPodSandbox(cgroup_parent="/kubepods/podu1"),
)


class TestPods:
    def test_every_field_that_placement_uses_is_read(self):
        assert codec.pod_of(POD) == Pod(
            "p1",
            "u1",
            "web",
            "shop",
            {"app": "web"},
            {"coloc.nri.io/qos-class": "dedicated"},
            "/kubepods/podu1",
            "runc",
            Resources(),
        )

    def test_its_own_resources_are_read(self):
        message = nri_pb2.PodSandbox(id="p1")
        message.linux.pod_resources.cpu.shares.value = 512
        assert codec.pod_of(message).resources == Resources(shares=512)

    def test_the_memory_that_its_runtime_class_takes_is_read(self):
        message = nri_pb2.PodSandbox(id="p1")
        message.linux.pod_overhead.memory.limit.value = 128 << 20
        assert codec.pod_of(message).overhead_bytes == 128 << 20

    def test_an_empty_message_is_an_empty_pod(self):
        assert codec.pod_of(nri_pb2.PodSandbox()) == Pod("", resources=Resources())

    def test_the_pod_does_not_change_with_the_message(self):
        message = nri_pb2.PodSandbox()
        message.CopyFrom(POD)
        pod = codec.pod_of(message)
        message.annotations["later"] = "x"
        assert "later" not in pod.annotations


class TestContainers:
    def message(self) -> nri_pb2.Container:
        message = nri_pb2.Container(
            id="c1", pod_sandbox_id="p1", name="app", state=nri_pb2.CONTAINER_RUNNING, pid=7, created_at=9
        )
        message.linux.cgroups_path = "/kubepods/podu1/c1"
        message.linux.oom_score_adj.value = -997
        message.linux.resources.cpu.shares.value = 1536
        return message

    def test_every_field_that_placement_uses_is_read(self):
        assert codec.container_of(self.message(), Pod("p1")) == Container(
            "c1",
            "p1",
            "app",
            Phase.RUNNING,
            7,
            "/kubepods/podu1/c1",
            9,
            oom_score_adj=-997,
            resources=Resources(shares=1536),
        )

    def test_one_that_names_no_pod_is_in_the_pod_at_hand(self):
        assert codec.container_of(nri_pb2.Container(id="c1"), Pod("p1")).pod_id == "p1"

    def test_without_a_score_there_is_none(self):
        assert codec.container_of(nri_pb2.Container(), Pod("p")).oom_score_adj is None

    @pytest.mark.parametrize(
        ("state", "phase"),
        [
            (nri_pb2.CONTAINER_UNKNOWN, Phase.CREATED),
            (nri_pb2.CONTAINER_CREATED, Phase.CREATED),
            (nri_pb2.CONTAINER_PAUSED, Phase.RUNNING),
            (nri_pb2.CONTAINER_RUNNING, Phase.RUNNING),
            (99, Phase.CREATED),
        ],
        ids=["unknown", "created", "paused", "running", "of-the-future"],
    )
    def test_a_state_says_whether_it_has_run(self, state, phase):
        message = nri_pb2.Container(id="c1")
        message.MergeFromString(nri_pb2.Container(state=state).SerializeToString())
        assert codec.container_of(message, Pod("p")).phase is phase


class TestRecords:
    """Our own memory on a container counts only if the pod's author cannot have written it."""

    def message(self) -> nri_pb2.Container:
        return nri_pb2.Container(id="c1", annotations={RECORD_KEY: "ours"})

    def test_it_is_handed_back(self):
        assert codec.container_of(self.message(), Pod("p")).record == "ours"

    def test_there_may_be_none(self):
        assert codec.container_of(nri_pb2.Container(id="c1"), Pod("p")).record == ""

    @pytest.mark.parametrize("value", ["forged", ""], ids=["forged", "empty"])
    def test_none_is_trusted_where_the_pod_carries_such_a_key(self, value):
        pod = Pod("p", annotations={RECORD_KEY: value})
        assert codec.container_of(self.message(), pod).record == ""


class TestClaims:
    """What the DRA CPU driver put into an environment; who believes it is `policy.claim`'s business."""

    def claimed(self, *env: str, cpus: str = "4-5") -> int:
        message = nri_pb2.Container(id="c1", env=env)
        message.linux.resources.cpu.cpus = cpus
        return codec.container_of(message, Pod("p")).claimed

    @pytest.mark.parametrize(
        ("env", "cpus"),
        [
            (("PATH=/bin", "DRA_CPUSET_0b6e=4-5"), 0b110000),
            (("DRA_CPUSET_a=4", "DRA_CPUSET_b=5,7"), 0b10110000),
            (("DRA_CPUSET=4-5", "MY_DRA_CPUSET_a=4-5"), 0),
            (("DRA_CPUSET_a=4", "DRA_CPUSET_b=all"), 0),
            (("DRA_CPUSET_a", "DRA_CPUSET_b="), 0),
            ((), 0),
        ],
        ids=["one", "several", "another-name", "no-cpulist", "empty", "none"],
    )
    def test_all_claims_count_together(self, env, cpus):
        assert self.claimed(*env) == cpus

    def test_without_cpus_in_the_spec_nobody_has_pinned_it(self):
        assert self.claimed("DRA_CPUSET_a=4-5", cpus="") == 0


class TestResources:
    def test_what_is_absent_is_none(self):
        assert codec.resources_of(nri_pb2.LinuxResources()) == Resources()

    def test_everything_is_read(self):
        message = nri_pb2.LinuxResources()
        message.cpu.shares.value = 2
        message.cpu.quota.value = -1
        message.cpu.period.value = 100_000
        message.cpu.cpus = "0-1"
        message.cpu.mems = "0"
        message.memory.limit.value = 5
        assert codec.resources_of(message) == Resources(2, -1, 100_000, "0-1", "0", 5)

    def test_zero_is_said_and_not_absent(self):
        message = nri_pb2.LinuxResources()
        message.cpu.shares.value = 0
        message.memory.limit.value = 0
        assert codec.resources_of(message) == Resources(shares=0, memory_limit=0)
