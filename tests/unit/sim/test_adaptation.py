import pytest

from nri_coloc._pb import nri_pb2
from nri_coloc.nri import multiplexer
from nri_coloc.nri.calls import HookKind
from nri_coloc.sim.adaptation import Adaptation, Answered, split
from nri_coloc.sim.go_reader import GoOutOfMemory
from nri_coloc.ttrpc import frames
from nri_coloc.ttrpc._pb import ttrpc_pb2
from nri_coloc.ttrpc.connection import Connection, Response, Role
from nri_coloc.ttrpc.errors import LocalError
from nri_coloc.ttrpc.status import Code
from tests.unit.nri.pair import Pair, containers, pods

POD = nri_pb2.PodSandbox(id="p")
CONTAINER = nri_pb2.Container(id="c")


def method_of(sent: tuple[int, bytes]) -> str:
    ((_, message),) = multiplexer.Trunk().receive_data(sent[1])
    return ttrpc_pb2.Request.FromString(bytes(message[frames.HEADER_SIZE :])).method


@pytest.mark.parametrize("limit", [2_000, 20_000, 1 << 22])
def test_parts_hold_everything_once_and_only_the_last_says_so(limit):
    parts = split(pods(40), containers(70), limit)
    assert [pod for part in parts for pod in part.pods] == pods(40)
    assert [container for part in parts for container in part.containers] == containers(70)
    assert [part.more for part in parts] == [True] * (len(parts) - 1) + [False]
    assert all(part.ByteSize() <= limit for part in parts)


def test_few_large_objects_are_not_split_and_fail():
    assert len(split(pods(4, 1000), containers(4, 1000), 100)) == 1
    with pytest.raises(LocalError, match="exceeds the limit"):
        list(Adaptation(message_limit=1000).synchronize(pods(4, 1000), containers(4, 1000)))


def test_one_huge_object_among_many_small_ones_leaves_parts_of_eight():
    parts = split(pods(1, 100_000) + pods(30), containers(30), 1000)
    assert len(parts[0].pods) == len(parts[0].containers) == 4


def test_an_unimplemented_call_makes_it_fall_back_to_state_change():
    pair = Pair().serve()
    sent = pair.runtime.hook(HookKind.START_CONTAINER, POD, CONTAINER)
    assert method_of(sent) == "StartContainer"
    event = pair.call(sent)
    pair.reply(pair.session.refuse(event.call, Code.UNIMPLEMENTED, "method StartContainer"))
    assert method_of(pair.runtime.hook(HookKind.START_CONTAINER, POD, CONTAINER)) == "StateChange"


def test_a_pod_hook_as_a_state_change_has_no_container():
    pair = Pair((0, 6, 1)).serve()
    assert pair.call(pair.runtime.hook(HookKind.RUN_POD_SANDBOX, POD)).container is None


def test_an_unknown_call_of_the_plugin_is_unimplemented():
    runtime, plugin = Adaptation(), Connection(Role.CLIENT)
    _, message = plugin.send_request("Runtime", "Nothing", b"")
    assert runtime.receive_data(multiplexer.frame(multiplexer.RUNTIME_SERVICE, message)) == []
    ((_, answer),) = multiplexer.Trunk().receive_data(runtime.data_to_send())
    assert plugin.receive_data(answer) == [Response(1, Code.UNIMPLEMENTED, "method Nothing", b"")]


def test_an_oversized_answer_fails_its_call():
    runtime = Adaptation()
    stream, _ = runtime.hook(HookKind.CREATE_CONTAINER, POD, CONTAINER)
    header = frames.HEADER.pack(frames.MESSAGE_LIMIT + 1, stream, frames.RESPONSE, 0)
    found = runtime.receive_data(multiplexer.frame(multiplexer.PLUGIN_SERVICE, header))
    for _ in range(1025):
        found += runtime.receive_data(multiplexer.frame(multiplexer.PLUGIN_SERVICE, bytes(4096)))
    (answered,) = found
    assert isinstance(answered, Answered)
    assert (answered.method, answered.code) == ("CreateContainer", Code.RESOURCE_EXHAUSTED)


def test_a_fault_of_the_plugin_is_answered():
    runtime = Adaptation()
    runtime.receive_data(multiplexer.frame(multiplexer.RUNTIME_SERVICE, frames.frame(2, frames.REQUEST, b"")))
    assert runtime.data_to_send()


def test_framing_that_would_hurt_containerd_hurts_here():
    message = frames.frame(1, frames.REQUEST, bytes(5000))
    with pytest.raises(GoOutOfMemory):
        Adaptation().receive_data(
            multiplexer.HEADER.pack(multiplexer.RUNTIME_SERVICE, len(message)) + message
        )
