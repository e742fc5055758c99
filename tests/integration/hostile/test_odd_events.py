"""Well-formed messages that no correct runtime sends get an answer, and are never believed."""

import json
import random

import pytest

from nri_coloc._pb import nri_pb2
from nri_coloc.nri import calls
from nri_coloc.ttrpc.status import Code
from tests.integration.harness import QOS, assert_unhurt, cpu_seconds
from tests.integration.hostile.kit import RECORD, a_container, a_pod
from tests.rig import tenants

pytestmark = pytest.mark.tier("fast")

# ---- events that no correct runtime sends ----

EVENTS = [
    "RunPodSandbox",
    "StopPodSandbox",
    "RemovePodSandbox",
    "CreateContainer",
    "PostCreateContainer",
    "StartContainer",
    "PostStartContainer",
    "UpdateContainer",
    "PostUpdateContainer",
    "StopContainer",
    "RemoveContainer",
    "UpdatePodSandbox",
    "PostUpdatePodSandbox",
]


def parts_of(method: str, pod: nri_pb2.PodSandbox, container: nri_pb2.Container) -> dict[str, object]:
    return {"pod": pod} if method.endswith("PodSandbox") else {"pod": pod, "container": container}


@pytest.mark.parametrize("method", EVENTS)
def test_every_event_may_be_the_first_and_only_one(method, lasting):
    _, daemon, plugin = lasting
    pod = a_pod(annotations={QOS: "dedicated"})
    plugin.hook(method, **parts_of(method, pod, a_container()))
    plugin.hook(method, **parts_of(method, pod, a_container()))
    assert_unhurt(daemon)


@pytest.mark.parametrize("method", EVENTS)
def test_every_event_may_be_empty(method, lasting):
    _, daemon, plugin = lasting
    plugin.hook(method)
    plugin.hook(method)
    assert_unhurt(daemon)


def test_a_start_without_creation_is_placed_and_released(lasting):
    _, daemon, plugin = lasting
    pod, container = a_pod(annotations={QOS: "dedicated"}), a_container()
    plugin.hook("StartContainer", pod=pod, container=container)
    assert assert_unhurt(daemon)["containers"][0]["cpus"] == "0-1"
    plugin.hook("StopContainer", pod=pod, container=container)
    assert assert_unhurt(daemon)["containers"] == []


def test_a_late_post_start_is_undone_by_the_removal(lasting):
    _, daemon, plugin = lasting
    pod, container = a_pod(annotations={QOS: "dedicated"}), a_container()
    for method in ("CreateContainer", "StartContainer", "StopContainer", "PostStartContainer"):
        plugin.hook(method, pod=pod, container=container)
    plugin.hook("RemoveContainer", pod=pod, container=container)
    assert assert_unhurt(daemon)["containers"] == []


def test_a_second_creation_of_one_container_takes_no_second_cpus(lasting):
    _, daemon, plugin = lasting
    pod = a_pod(annotations={QOS: "dedicated"})
    answers = [plugin.hook("CreateContainer", pod=pod, container=a_container()) for _ in range(3)]
    assert {answer.adjust.linux.resources.cpu.cpus for answer in answers} == {"0-1"}
    assert assert_unhurt(daemon)["pools"]["dedicated"]["cpus"] == "0-1"


def test_ends_of_what_was_never_known_change_nothing(lasting):
    _, daemon, plugin = lasting
    before = daemon.state()
    for method in ("StopContainer", "RemoveContainer", "StopPodSandbox", "RemovePodSandbox"):
        answer = plugin.hook(method, **parts_of(method, a_pod("ghost"), a_container(on="ghost")))
        assert answer.ByteSize() == 0
    assert assert_unhurt(daemon) == before


WEIRD_IDS = {
    "empty": "",
    "path": "../../../etc/passwd",
    "nul": "a\0b",
    "newline": "a\nb\x1b[2J",
    "long": "x" * 100_000,
    "unicode": "\u202e\U0001f600",
    "quotes": '"}]{',
    "percent": "%s%n{0}",
}


@pytest.mark.parametrize("weird", WEIRD_IDS.values(), ids=WEIRD_IDS.keys())
def test_odd_ids_names_and_paths_live_and_die_like_any_other(weird, lasting):
    _, daemon, plugin = lasting
    pod = nri_pb2.PodSandbox(id=weird, name=weird, uid=weird, namespace=weird)
    pod.linux.cgroup_parent = weird
    pod.annotations[QOS] = "dedicated"
    pod.annotations[f"coloc.nri.io/{weird[:300]}"] = weird
    container = a_container()
    container.id = container.pod_sandbox_id = container.name = weird
    container.linux.cgroups_path = container.linux.resources.cpu.cpus = weird
    for method in EVENTS[:1] + EVENTS[3:9]:
        plugin.hook(method, **parts_of(method, pod, container))
    plugin.synchronize([pod], [container])
    assert_unhurt(daemon)
    for method in ("StopContainer", "RemoveContainer", "StopPodSandbox", "RemovePodSandbox"):
        plugin.hook(method, **parts_of(method, pod, container))
    assert assert_unhurt(daemon)["containers"] == []


@pytest.mark.parametrize(
    "path",
    [
        "/kubepods/../../../../tmp",
        "..",
        "/",
        "a/./../b",
        "kubepods.slice:..:x",
        ":::",
        "-.slice",
        "a:b/../c:d",
    ],
)
def test_a_cgroup_path_that_leads_out_is_not_followed(path, lasting):
    node, daemon, plugin = lasting
    outside = node.host_root.parent / "tmp"
    outside.mkdir(exist_ok=True)
    (outside / "cpuset.cpus").write_text("untouched\n")
    pod, container = a_pod(annotations={QOS: "reclaimed"}), a_container()
    pod.linux.cgroup_parent = container.linux.cgroups_path = path
    container.linux.resources.cpu.cpus = "0"
    plugin.hook("RunPodSandbox", pod=pod)
    for method in ("CreateContainer", "StartContainer", "PostStartContainer"):
        plugin.hook(method, pod=pod, container=container)
    plugin.synchronize([pod], [container])
    assert (outside / "cpuset.cpus").read_text() == "untouched\n"
    assert_unhurt(daemon)


QOS_CGROUPS = ("kubepods", "kubepods/burstable", "kubepods/besteffort", "system.slice")


@pytest.mark.parametrize("shared", QOS_CGROUPS)
def test_a_pod_in_a_shared_cgroup_never_limits_the_others(shared, lasting):
    node, daemon, plugin = lasting
    names = ("cpu.shares", "cpuset.cpus", "blkio.bfq.weight")
    before = [node.tree.read(shared, name) for name in names]
    pod, container = a_pod(annotations={QOS: "reclaimed"}), a_container()
    pod.linux.cgroup_parent = f"/{shared}"
    plugin.hook("RunPodSandbox", pod=pod)
    plugin.hook("CreateContainer", pod=pod, container=container)
    owner = a_pod("owner", annotations={QOS: "dedicated"})
    plugin.hook("CreateContainer", pod=owner, container=a_container(on="owner"))
    plugin.hook("StartContainer", pod=owner, container=a_container(on="owner"))
    assert [node.tree.read(shared, name) for name in names] == before
    assert_unhurt(daemon)


def test_twenty_thousand_annotations_are_answered_in_time(lasting):
    """Twice as much as Kubernetes lets a pod have, which is 256 KiB."""
    _, daemon, plugin = lasting
    many = {f"example.com/{number}": "x" for number in range(10_000)}
    ours = {f"coloc.nri.io/unknown-{number}": "x" for number in range(10_000)}
    pod = a_pod(annotations={**many, **ours, QOS: "dedicated"})
    for method in ("RunPodSandbox", "CreateContainer", "StartContainer"):
        used = cpu_seconds(daemon)
        plugin.hook(method, **parts_of(method, pod, a_container()))
        assert cpu_seconds(daemon) - used < 2.0, (
            "what it takes of a CPU; a clock also counts what others take"
        )
    assert_unhurt(daemon)
    assert {record["key"] for record in daemon.audit("annotation.invalid", pod="web")} == {"*"}


BOMBS = {
    "a megabyte of brackets": "[" * (1 << 20),
    "deep objects": '{"a":' * 100_000,
    "a number of a million digits": '{"app": {"io-weight": ' + "9" * (1 << 20) + "}}",
    "a text of a megabyte": json.dumps({"app": {"io-weight": "7" * (1 << 20)}}),
    "the same key again and again": "{" + ",".join(['"app": {}'] * 50_000) + "}",
    "no text": "\0" * 1000,
}


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS.keys())
@pytest.mark.parametrize("key", ["containers", "io-weight", "memory-high", "numa-ids"])
def test_a_bomb_in_an_annotation_is_an_audit_record(key, bomb, lasting):
    _, daemon, plugin = lasting
    pod = a_pod(annotations={f"coloc.nri.io/{key}": bomb})
    answer = plugin.hook("CreateContainer", pod=pod, container=a_container())
    assert answer.adjust.linux.resources.cpu.cpus == "0-7"
    told = "*" if len(bomb) > tenants.READ_BYTES else f"coloc.nri.io/{key}"
    assert len(daemon.audited("annotation.invalid", key=told)["value"]) <= 300
    assert_unhurt(daemon)


RECORDS = {
    "brackets": "[" * 100_000,
    "another version": '{"v":2,"class":"dedicated","pool":"dedicated","exclusive":"0-7"}',
    "everything": '{"v":1,"class":"dedicated","pool":"dedicated","exclusive":"0-7"}',
    "beyond the machine": '{"v":1,"class":"dedicated","pool":"dedicated","exclusive":"9-8191"}',
    "huge numbers": '{"v":1,"class":"shared","pool":"share","original":{"shares":%s}}' % ("9" * 5000),
    "negative": '{"v":1,"class":"dedicated","pool":"dedicated","original":{"shares":-5,"quota":-9,"period":0}}',
    "an unknown pool": '{"v":1,"class":"shared","pool":"../../x"}',
    "not what it says": '{"v":1,"class":7,"pool":null,"exclusive":[1]}',
}


@pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS.keys())
@pytest.mark.parametrize("qos", ["dedicated", "shared", "reclaimed"])
def test_a_forged_record_never_breaks_the_state(record, qos, lasting):
    _, daemon, plugin = lasting
    container, other = a_container(), a_container(on="other")
    container.annotations[RECORD] = record
    pods = [a_pod(annotations={QOS: qos}), a_pod("other", annotations={QOS: "dedicated"})]
    plugin.synchronize(pods, [container, other])
    assert len(assert_unhurt(daemon)["containers"]) == 2


def test_a_list_with_repetitions_or_gaps_is_taken_as_it_is(lasting):
    _, daemon, plugin = lasting
    pod, container = a_pod(annotations={QOS: "dedicated"}), a_container()
    orphan = a_container(on="nowhere")
    plugin.synchronize([pod, pod], [container, container, orphan, nri_pb2.Container()])
    names = [one["id"] for one in assert_unhurt(daemon)["containers"]]
    assert sorted(names) == ["", "nowhere-app", "web-app"]


EXTREMES = (0, 1, -1, 2**63 - 1, -(2**63))


@pytest.mark.parametrize("number", EXTREMES)
def test_extreme_numbers_in_resources_and_deadlines_are_survived(number, lasting):
    _, daemon, plugin = lasting
    container = a_container()
    cpu = container.linux.resources.cpu
    cpu.shares.value, cpu.quota.value, cpu.period.value = number & (2**64 - 1), number, number & (2**64 - 1)
    container.linux.resources.memory.limit.value = container.linux.oom_score_adj.value = number
    container.created_at, container.pid = number, number & 0xFFFFFFFF
    pod = a_pod(
        annotations={QOS: "dedicated", "coloc.nri.io/cpu-burst": "100", "coloc.nri.io/memory-high": "50%"}
    )
    for method in ("CreateContainer", "StartContainer", "PostStartContainer", "UpdateContainer"):
        request = calls.REQUESTS[method](**parts_of(method, pod, container))
        if method == "UpdateContainer":
            request.linux_resources.CopyFrom(container.linux.resources)
        assert plugin.call(method, request, timeout_nano=number).code == Code.OK
    plugin.synchronize([pod], [container])
    assert_unhurt(daemon)


def test_a_storm_of_random_events_never_breaks_the_state(lasting):
    _, daemon, plugin = lasting
    storm = random.Random(20)
    for step in range(1500):
        on = storm.choice(("a", "b", "c", "d"))
        qos = storm.choice(("dedicated", "shared", "reclaimed", "system", "nonsense"))
        pod = a_pod(
            on, annotations={QOS: qos, "coloc.nri.io/numa": storm.choice(("single", "exclusive", "x"))}
        )
        container = a_container(storm.choice(("app", "side")), on, storm.choice((0, 100, 1000, 2500, 90_000)))
        method = storm.choice(EVENTS)
        request = calls.REQUESTS[method](**parts_of(method, pod, container))
        if method == "UpdateContainer" and storm.random() < 0.7:
            request.linux_resources.cpu.shares.value = storm.choice((0, 2, 5000))
            request.linux_resources.cpu.cpus = storm.choice(("", "0", "0-7", "nonsense"))
        assert plugin.call(method, request).code == Code.OK
        if step % 100 == 0:
            assert_unhurt(daemon)
    assert_unhurt(daemon)
