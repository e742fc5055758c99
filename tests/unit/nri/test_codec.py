"""nri/codec.py: messages of the wire become facts of the model."""

import pytest

from nri_coloc._pb import nri_pb2, told_pb2
from nri_coloc.core.workload import (
    MAX_BYTES,
    RECORD_KEY,
    RECORD_LENGTH,
    Container,
    KnownKeys,
    Phase,
    Pod,
    Resources,
)
from nri_coloc.nri import codec
from tests.rig import told

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


KNOWN = KnownKeys(frozenset({"volcano.sh/qos-level"}), frozenset({"app"}))


def pod_of(message: nri_pb2.PodSandbox) -> Pod:
    return codec.Reader(KNOWN).pod_of(told.pod(message))


def container_of(message: nri_pb2.Container, pod: Pod) -> Container:
    return codec.container_of(told.container(message), pod)


class TestPods:
    def test_every_field_that_placement_uses_is_read(self):
        assert pod_of(POD) == Pod(
            id="p1",
            uid="u1",
            name="web",
            namespace="shop",
            labels={"app": "web"},
            annotations={"coloc.nri.io/qos-class": "dedicated"},
            cgroup_parent="/kubepods/podu1",
            handler="runc",
            resources=Resources(),
        )

    def test_its_own_resources_are_read(self):
        message = nri_pb2.PodSandbox(id="p1")
        message.linux.pod_resources.cpu.shares.value = 512
        assert pod_of(message).resources == Resources(shares=512)

    def test_the_memory_that_its_runtime_class_takes_is_read(self):
        message = nri_pb2.PodSandbox(id="p1")
        message.linux.pod_overhead.memory.limit.value = 128 << 20
        assert pod_of(message).overhead_bytes == 128 << 20

    def test_an_empty_message_is_an_empty_pod(self):
        assert pod_of(nri_pb2.PodSandbox()) == Pod("", resources=Resources())

    def test_of_its_metadata_only_known_names_are_kept(self):
        message = nri_pb2.PodSandbox(
            labels={"app": "web", "other": "x"},
            annotations={
                "coloc.nri.io/anything": "a",
                "volcano.sh/qos-level": "b",
                "example.com/" + "long" * 50: "c",
            },
        )
        pod = pod_of(message)
        assert dict(pod.labels) == {"app": "web"}
        assert dict(pod.annotations) == {"coloc.nri.io/anything": "a", "volcano.sh/qos-level": "b"}

    @pytest.mark.parametrize("sign", ["x", "\N{GRINNING FACE}"], ids=["letter", "emoji"])
    def test_what_is_known_may_take_so_many_bytes(self, sign):
        name = "coloc.nri.io/containers"
        room = MAX_BYTES - len(name) - len(sign.encode())
        message = nri_pb2.PodSandbox(annotations={name: "x" * room + sign, "unknown": "x" * MAX_BYTES})
        assert pod_of(message).annotations[name] == "x" * room + sign
        message.labels["app"] = ""
        pod = pod_of(message)
        assert (len(pod.annotations), pod.excess_bytes) == (0, MAX_BYTES + len("app"))

    def test_annotations_hide_no_label(self):
        message = nri_pb2.PodSandbox(
            labels={"app": "web"}, annotations={"coloc.nri.io/containers": "x" * MAX_BYTES}
        )
        assert dict(pod_of(message).labels) == {"app": "web"}

    @pytest.mark.parametrize(("team", "kept"), [("batch", {"team": "batch"}), ("web", {})])
    def test_annotations_hide_no_pair_of_a_rule(self, team, kept):
        known = KnownKeys(frozenset({"team"}), pairs=frozenset({("team", "batch")}))
        message = nri_pb2.PodSandbox(annotations={"coloc.nri.io/containers": "x" * MAX_BYTES, "team": team})
        assert dict(codec.Reader(known).pod_of(told.pod(message)).annotations) == kept

    def test_labels_are_bounded_beside_kubernetes(self):
        assert dict(pod_of(nri_pb2.PodSandbox(labels={"app": "x" * MAX_BYTES})).labels) == {}

    def test_long_names_are_known_too(self):
        name = "coloc.nri.io/io-weight." + "x" * 200
        assert dict(pod_of(nri_pb2.PodSandbox(annotations={name: "5"})).annotations) == {name: "5"}

    def test_text_is_whatever_its_author_wrote(self):
        told_pod = told_pb2.PodSandbox(
            labels=[b"\x0a\x03app\x12\x01\xff", b"\x12\x01x\x0a\x03app", b"\x0a", b"\x0a\x03app\x12"]
        )
        assert dict(codec.Reader(KNOWN).pod_of(told_pod).labels) == {"app": ""}

    def test_a_pod_that_claims_a_record_is_known(self):
        assert not pod_of(nri_pb2.PodSandbox()).claims_record
        message = nri_pb2.PodSandbox(annotations={RECORD_KEY: ""})
        assert pod_of(message).claims_record
        message.annotations["coloc.nri.io/x"] = "x" * MAX_BYTES
        assert pod_of(message).claims_record


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
        assert container_of(self.message(), Pod("p1")) == Container(
            id="c1",
            pod_id="p1",
            name="app",
            phase=Phase.RUNNING,
            pid=7,
            cgroups_path="/kubepods/podu1/c1",
            created_at=9,
            oom_score_adj=-997,
            resources=Resources(shares=1536),
        )

    def test_one_that_names_no_pod_is_in_the_pod_at_hand(self):
        assert container_of(nri_pb2.Container(id="c1"), Pod("p1")).pod_id == "p1"

    def test_without_a_score_there_is_none(self):
        assert container_of(nri_pb2.Container(), Pod("p")).oom_score_adj is None

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
        assert container_of(message, Pod("p")).phase is phase


class TestRecords:
    """The daemon's record on a container counts only if the pod's author cannot have written it."""

    def message(self) -> nri_pb2.Container:
        return nri_pb2.Container(id="c1", annotations={RECORD_KEY: "ours"})

    def test_it_is_handed_back(self):
        assert container_of(self.message(), Pod("p")).record == "ours"

    def test_one_that_is_too_long_is_none(self):
        long = nri_pb2.Container(annotations={RECORD_KEY: "x" * (RECORD_LENGTH + 1)})
        assert container_of(long, Pod("p")).record == ""

    def test_there_may_be_none(self):
        assert container_of(nri_pb2.Container(id="c1"), Pod("p")).record == ""

    @pytest.mark.parametrize("value", ["forged", ""], ids=["forged", "empty"])
    def test_none_is_trusted_where_the_pod_carries_such_a_key(self, value):
        pod = pod_of(nri_pb2.PodSandbox(id="p", annotations={RECORD_KEY: value}))
        assert container_of(self.message(), pod).record == ""


class TestClaims:
    """The DRA CPU driver writes claims into an environment; `placing.driver` decides whether they count."""

    def claimed(self, *env: str, cpus: str = "4-5") -> int:
        message = nri_pb2.Container(id="c1", env=env)
        message.linux.resources.cpu.cpus = cpus
        return container_of(message, Pod("p")).claimed

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

    def test_too_many_claims_are_none(self):
        one = "DRA_CPUSET_a=" + "4," * 1000 + "5"
        assert self.claimed(one) == 0b110000
        assert self.claimed(*[one] * 40) == 0

    def test_the_first_variable_is_kept_as_written(self):
        message = nri_pb2.Container(id="c1", env=["DRA_CPUSET_a=4", "DRA_CPUSET_b=5"])
        message.linux.resources.cpu.cpus = "4-5"
        assert container_of(message, Pod("p")).claims == "DRA_CPUSET_a=4"
        message.env[0] = f"DRA_CPUSET_{'a' * 1000}=4"
        assert len(container_of(message, Pod("p")).claims) == 256

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
        assert codec.resources_of(message) == Resources(
            shares=2, quota=-1, period=100_000, cpus="0-1", mems="0", memory_limit=5
        )

    def test_zero_is_said_and_not_absent(self):
        message = nri_pb2.LinuxResources()
        message.cpu.shares.value = 0
        message.memory.limit.value = 0
        assert codec.resources_of(message) == Resources(shares=0, memory_limit=0)
