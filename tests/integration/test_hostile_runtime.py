"""A runtime that lies, babbles, stalls or vanishes: the daemon lives on and comes back by itself."""

import json
import random
import socket
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from nri_coloc._pb import nri_pb2
from nri_coloc.multiplex import trunk
from nri_coloc.node_sim.node import Node
from nri_coloc.nri import calls
from nri_coloc.ttrpc import frames
from nri_coloc.ttrpc.status import Code
from tests.integration.harness import QOS, assert_unhurt, daemon_of, ends_well
from tests.rig.daemon import Daemon
from tests.rig.raw_runtime import RawPlugin, RawRuntime, mux
from tests.rig.waiting import wait_until

FIRST_TRY_S = 1.0
RETRY_CAP_S = 10.0
RECORD = "coloc.nri.io/record"


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """The machine's files; its runtime is never started."""
    return Node(tmp_path, cgroup=1)


@pytest.fixture
def runtime(node: Node) -> Iterator[RawRuntime]:
    with RawRuntime(node.nri_socket) as runtime:
        yield runtime


@pytest.fixture
def daemon(node: Node, runtime: RawRuntime) -> Iterator[Daemon]:
    with daemon_of(node) as daemon:
        yield daemon


@pytest.fixture
def plugin(runtime: RawRuntime, daemon: Daemon) -> Iterator[RawPlugin]:
    with runtime.accept() as plugin:
        yield plugin.welcome()


class Lasting(NamedTuple):
    """One daemon with one connection for all attacks that must not cost it."""

    node: Node
    daemon: Daemon
    plugin: RawPlugin


@pytest.fixture(scope="module")
def the_one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lasting]:
    node = Node(tmp_path_factory.mktemp("one"), cgroup=1)
    with (
        RawRuntime(node.nri_socket) as runtime,
        daemon_of(node) as daemon,
        runtime.accept() as plugin,
    ):
        yield Lasting(node, daemon, plugin.welcome())


@pytest.fixture
def lasting(the_one: Lasting) -> Lasting:
    """The one daemon, with an empty node."""
    the_one.plugin.synchronize()
    assert the_one.daemon.state()["containers"] == []
    return the_one


def a_pod(name: str = "web", **fields: object) -> nri_pb2.PodSandbox:
    pod = nri_pb2.PodSandbox(id=f"pod-{name}", name=name, uid=f"uid-{name}", namespace="shop")
    pod.linux.cgroup_parent = f"/kubepods/burstable/pod{name}"
    pod.annotations.update(fields.pop("annotations", {}))  # type: ignore[call-overload]  # fields are of mixed kinds here
    for field, value in fields.items():
        setattr(pod, field, value)
    return pod


def a_container(name: str = "app", on: str = "web", milli: int = 2000) -> nri_pb2.Container:
    container = nri_pb2.Container(id=f"{on}-{name}", pod_sandbox_id=f"pod-{on}", name=name)
    container.linux.cgroups_path = f"/kubepods/burstable/pod{on}/{on}-{name}"
    container.linux.resources.cpu.shares.value = milli * 1024 // 1000
    return container


def is_served(daemon: Daemon, plugin: RawPlugin) -> None:
    """The connection works: a dedicated container is created and released, with right answers."""
    pod = a_pod("probe", annotations={QOS: "dedicated"})
    container = a_container(on="probe")
    answer = plugin.hook("CreateContainer", pod=pod, container=container)
    assert answer.adjust.linux.resources.cpu.cpus
    plugin.hook("StopContainer", pod=pod, container=container)
    assert_unhurt(daemon)


# ---- garbage that ends a connection ----

ENDING: dict[str, Callable[[], bytes]] = {
    "random bytes": lambda: random.Random(1).randbytes(4096),
    "text": lambda: b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a frame of four gigabytes": lambda: mux(trunk.PLUGIN_SERVICE, b"", 0xFFFFFFFF),
}


@pytest.mark.parametrize("garbage", ENDING.values(), ids=ENDING.keys())
def test_garbage_before_the_handshake_ends_the_connection_and_a_new_one_comes_at_once(
    garbage, runtime, daemon
):
    with runtime.accept() as plugin:
        plugin.take_registration()
        plugin.send(garbage())
        assert plugin.ends()
    with runtime.accept(FIRST_TRY_S) as again:
        is_served(daemon, again.welcome())


@pytest.mark.parametrize(
    "garbage", [ENDING["random bytes"], ENDING["a frame of four gigabytes"]], ids=["random", "length"]
)
def test_garbage_between_hooks_ends_the_connection_and_the_state_is_kept(garbage, runtime, daemon, plugin):
    pod = a_pod(annotations={QOS: "dedicated"})
    plugin.hook("CreateContainer", pod=pod, container=a_container())
    plugin.send(garbage())
    assert plugin.ends()
    with runtime.accept(FIRST_TRY_S) as again:
        again.configure()
        container = a_container()
        again.synchronize([pod], [container])
        (kept,) = assert_unhurt(daemon)["containers"]
        assert (kept["id"], kept["cpus"], kept["exclusive"]) == ("web-app", "0-1", True)


# ---- garbage that a connection survives ----


def oversized(plugin: RawPlugin) -> tuple[int, int]:
    """Send a message of 17 MiB, in frames as Go's; the stream and the code that is due."""
    stream, _ = plugin.request("Synchronize")
    size = 17 << 20
    plugin.send(mux(trunk.PLUGIN_SERVICE, frames.HEADER.pack(size, stream, frames.REQUEST, 0)))
    piece = bytes(1 << 20)
    for _ in range(17):
        plugin.send(mux(trunk.PLUGIN_SERVICE, piece))
    return stream, Code.RESOURCE_EXHAUSTED


def even_stream(plugin: RawPlugin) -> tuple[int, int]:
    stream, data = plugin.request("CreateContainer", stream=4242)
    plugin.send(data)
    return stream, Code.INVALID_ARGUMENT


def used_stream(plugin: RawPlugin) -> tuple[int, int]:
    plugin.replies.clear()
    stream, data = plugin.request("CreateContainer", stream=1)
    plugin.send(data)
    return stream, Code.INVALID_ARGUMENT


def no_envelope(plugin: RawPlugin) -> tuple[int, int]:
    stream, _ = plugin.request("CreateContainer")
    plugin.send(mux(trunk.PLUGIN_SERVICE, frames.frame(stream, frames.REQUEST, b"\xff\xff\xff")))
    return stream, Code.INVALID_ARGUMENT


def data_frame(plugin: RawPlugin) -> tuple[int, int]:
    stream, _ = plugin.request("CreateContainer")
    plugin.send(mux(trunk.PLUGIN_SERVICE, frames.frame(stream, frames.DATA, b"x")))
    return stream, Code.INVALID_ARGUMENT


def bad_text(plugin: RawPlugin) -> tuple[int, int]:
    """A pod whose id is not UTF-8, which protobuf refuses."""
    stream, data = plugin.request("RunPodSandbox", b"\x0a\x04\x0a\x02\xff\xfe")
    plugin.send(data)
    return stream, Code.INTERNAL


def calling(
    method: str, payload: bytes, code: Code, **options: str
) -> Callable[[RawPlugin], tuple[int, int]]:
    def send(plugin: RawPlugin) -> tuple[int, int]:
        stream, data = plugin.request(method, payload, **options)  # type: ignore[arg-type]  # options are of mixed kinds here
        plugin.send(data)
        return stream, code

    return send


SURVIVED: dict[str, Callable[[RawPlugin], tuple[int, int]]] = {
    "an unknown method": calling("BrewCoffee", b"", Code.UNIMPLEMENTED),
    "an unknown service": calling("CreateContainer", b"", Code.UNIMPLEMENTED, service="other.Service"),
    "validation": calling("ValidateContainerAdjustment", b"", Code.UNIMPLEMENTED),
    "an empty method": calling("", b"", Code.UNIMPLEMENTED),
    "an undecodable creation": calling("CreateContainer", b"\xff" * 7, Code.INTERNAL),
    "an undecodable synchronisation": calling("Synchronize", b"\x0a\xff", Code.INTERNAL),
    "an undecodable configuration": calling("Configure", b"\x0a\x05x", Code.INTERNAL),
    "an undecodable state change": calling("StateChange", b"\xff", Code.INTERNAL),
    "a message over 16 MiB": oversized,
    "an even stream": even_stream,
    "a stream that was used": used_stream,
    "an undecodable envelope": no_envelope,
    "data for no stream": data_frame,
    "a text that is no text": bad_text,
}


@pytest.mark.parametrize("attack", SURVIVED.values(), ids=SURVIVED.keys())
def test_a_fault_in_one_call_is_answered_by_its_code_and_the_connection_is_kept(attack, lasting):
    _, daemon, plugin = lasting
    stream, code = attack(plugin)
    assert plugin.reply(stream).code == code
    is_served(daemon, plugin)
    assert daemon.metric("nri_coloc_reconnects_total") == 0


def test_frames_of_unknown_connections_and_empty_ones_are_passed_over(lasting):
    _, daemon, plugin = lasting
    plugin.send(mux(0, b"zero") + mux(3, b"x" * 70000) + mux(0xFFFFFFFF, b"y") + mux(1, b"") + mux(2, b""))
    is_served(daemon, plugin)


def test_unknown_message_types_are_passed_over(lasting):
    _, daemon, plugin = lasting
    plugin.send(mux(trunk.PLUGIN_SERVICE, frames.frame(99, 77, b"from the future")))
    is_served(daemon, plugin)


def test_a_message_that_comes_byte_by_byte_is_one_message(lasting):
    _, daemon, plugin = lasting
    request = calls.REQUESTS["CreateContainer"](pod=a_pod(), container=a_container(milli=100))
    stream, data = plugin.request("CreateContainer", request.SerializeToString())
    message = data[trunk.HEADER.size :]
    for number in range(len(message)):
        plugin.send(mux(trunk.PLUGIN_SERVICE, message[number : number + 1]))
    assert plugin.reply(stream).code == Code.OK
    assert_unhurt(daemon)


@pytest.mark.parametrize("event", [0, 12, 14, 15, 4711, -1])
def test_a_state_change_with_an_unknown_event_is_answered_and_changes_nothing(event, lasting):
    _, daemon, plugin = lasting
    message = nri_pb2.StateChangeEvent(pod=a_pod(), container=a_container())
    # an enum of proto3 takes any number, but Python's setter only known ones: field 1, varint
    payload = b"\x08" + _varint(event) + message.SerializeToString()
    reply = plugin.call("StateChange", payload)
    assert (reply.code, reply.payload) == (Code.OK, b"")
    assert assert_unhurt(daemon)["containers"] == []


def _varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


# ---- events that no orderly runtime sends ----

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


def test_a_start_without_a_creation_is_placed_and_a_stop_before_its_post_start_releases_it(lasting):
    _, daemon, plugin = lasting
    pod, container = a_pod(annotations={QOS: "dedicated"}), a_container()
    plugin.hook("StartContainer", pod=pod, container=container)
    assert assert_unhurt(daemon)["containers"][0]["cpus"] == "0-1"
    plugin.hook("StopContainer", pod=pod, container=container)
    assert assert_unhurt(daemon)["containers"] == []


def test_a_post_start_that_comes_after_the_stop_is_undone_by_the_removal(lasting):
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
def test_a_pod_in_a_cgroup_that_is_not_its_own_never_limits_the_others_in_it(shared, lasting):
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


def test_a_hundred_thousand_annotations_are_answered_in_time(lasting):
    _, daemon, plugin = lasting
    many = {f"example.com/{number}": "x" for number in range(50_000)}
    ours = {f"coloc.nri.io/unknown-{number}": "x" for number in range(50_000)}
    pod = a_pod(annotations={**many, **ours, QOS: "dedicated"})
    for method in ("RunPodSandbox", "CreateContainer", "StartContainer"):
        began = time.monotonic()
        plugin.hook(method, **parts_of(method, pod, a_container()))
        assert time.monotonic() - began < 2.0
    assert_unhurt(daemon)
    assert len(daemon.audit("annotation.invalid")) < 200


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
    assert len(daemon.audited("annotation.invalid", key=f"coloc.nri.io/{key}")["value"]) <= 300
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


def test_a_list_that_names_things_twice_or_not_at_all_is_taken_as_it_is(lasting):
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


# ---- a runtime that is there and is of no use ----


def test_a_runtime_that_closes_in_the_middle_of_a_frame_is_joined_again(runtime, daemon, plugin):
    _, data = plugin.request("CreateContainer", b"x" * 100)
    plugin.send(data[:50])
    plugin.socket.close()
    with runtime.accept(FIRST_TRY_S) as again:
        is_served(daemon, again.welcome())
    lost = daemon.audited("runtime.lost")
    assert "reconnecting" in lost["because"]


def test_a_registration_that_is_refused_is_tried_again(runtime, daemon):
    with runtime.accept() as plugin:
        plugin.take_registration()
        plugin.answer_registration(2, "no plugins today")
        assert plugin.ends()
    with runtime.accept(FIRST_TRY_S) as again:
        is_served(daemon, again.welcome())
    assert "no plugins today" in daemon.audited("runtime.lost")["because"]


def test_tries_come_more_rarely_but_never_more_than_the_cap_apart(runtime, daemon):
    gaps = []
    for _ in range(4):
        runtime.accept(RETRY_CAP_S).socket.close()
        gaps.append(time.monotonic())
    apart = [later - earlier for earlier, later in pairwise(gaps)]
    assert apart[0] <= FIRST_TRY_S
    assert max(apart) <= RETRY_CAP_S
    assert apart[-1] > apart[0]
    assert_unhurt(daemon)


def test_after_a_long_wait_for_the_runtime_a_lost_connection_is_tried_again_at_once(node, tmp_path):
    with daemon_of(node) as daemon:
        wait_until(lambda: "waiting for the runtime" in daemon.log(), 5, "the daemon to wait")
        time_to_grow = time.monotonic() + 1.6  # until then the pauses have grown to seconds
        wait_until(lambda: time.monotonic() > time_to_grow, 5, "the pauses to grow")
        with RawRuntime(node.nri_socket) as runtime:
            runtime.accept(RETRY_CAP_S).welcome().socket.close()
            with runtime.accept(FIRST_TRY_S) as again:
                is_served(daemon, again.welcome())


# ---- SIGTERM, whatever the runtime does ----


def no_runtime(_runtime: RawRuntime) -> list[RawPlugin]:
    _runtime.close()
    return []


def silent(runtime: RawRuntime) -> list[RawPlugin]:
    plugin = runtime.accept()
    plugin.take_registration()
    return [plugin]


def configured_only(runtime: RawRuntime) -> list[RawPlugin]:
    plugin = runtime.accept()
    plugin.configure()
    return [plugin]


def serving(runtime: RawRuntime) -> list[RawPlugin]:
    return [runtime.accept().welcome()]


def not_reading(runtime: RawRuntime) -> list[RawPlugin]:
    plugin = runtime.accept().welcome()
    fill(plugin)
    return [plugin]


def in_the_middle(runtime: RawRuntime) -> list[RawPlugin]:
    plugin = runtime.accept().welcome()
    plugin.send(plugin.request("CreateContainer", b"x" * 100)[1][:30])
    return [plugin]


def fill(plugin: RawPlugin) -> int:
    """Send calls and read no answer, until both directions are full; return how many were sent."""
    sent = 0
    plugin.socket.settimeout(0.3)
    request = calls.REQUESTS["CreateContainer"](
        pod=a_pod(), container=a_container(milli=100)
    ).SerializeToString()
    try:
        while True:
            _, data = plugin.request("CreateContainer", request)
            plugin.socket.sendall(data)
            sent += 1
    except TimeoutError:
        return sent


@pytest.mark.parametrize(
    "situation", [no_runtime, silent, configured_only, serving, not_reading, in_the_middle]
)
def test_sigterm_ends_it_within_two_seconds(situation, runtime, daemon):
    wait_until(lambda: "nri-coloc" in daemon.log() or daemon.audit("daemon.start"), 5, "the daemon to run")
    connections = situation(runtime)
    assert ends_well(daemon)
    assert "Traceback" not in daemon.log()
    for plugin in connections:
        plugin.socket.close()


def test_a_runtime_that_configures_and_then_waits_is_waited_for(runtime, daemon):
    with runtime.accept() as plugin:
        plugin.configure()
        assert plugin.quiet(1.0)
        plugin.synchronize()
        is_served(daemon, plugin)


def test_a_runtime_that_stops_reading_is_left_and_never_gets_half_a_message_and_then_more(runtime, daemon):
    with runtime.accept() as plugin:
        plugin.welcome()
        sent = fill(plugin)
        assert sent > 10
        with runtime.accept(RETRY_CAP_S) as again:
            is_served(daemon, again.welcome())
        # what was written before is whole messages up to the last one, which may be cut, and then the end
        assert plugin.ends()
        assert_unhurt(daemon)


def test_bytes_after_the_runtimes_farewell_are_no_concern(runtime, daemon, plugin):
    plugin.socket.shutdown(socket.SHUT_WR)
    with runtime.accept(FIRST_TRY_S) as again:
        is_served(daemon, again.welcome())
