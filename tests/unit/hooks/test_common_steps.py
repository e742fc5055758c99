"""Values of other containers in an answer are noted: the runtime writes them after it, perhaps late."""

from typing import cast

from nri_coloc._pb import nri_pb2
from nri_coloc.core.knobs import Knobs
from nri_coloc.hooks.common_steps import Consequences, HookReport
from nri_coloc.runtime.pusher import Pusher
from tests.unit.parts import a_node


class Answered:
    """Fake pusher that keeps the values of answers."""

    def __init__(self) -> None:
        self.found: list[tuple[str, Knobs]] = []

    def answered(self, container_id: str, values: Knobs) -> None:
        self.found.append((container_id, values))


def test_updates_in_an_answer_count_as_answered():
    pusher, none = Answered(), cast("HookReport", None)
    steps = Consequences(a_node(), cast("Pusher", pusher), none, before_answer={}, after=())
    answer = nri_pb2.StopContainerResponse(update=[nri_pb2.ContainerUpdate(container_id="app")])
    answer.update[0].linux.resources.cpu.cpus = "0-3"
    steps.learn(answer)
    steps.learn(None)
    assert pusher.found == [("app", Knobs(cpus="0-3"))]
