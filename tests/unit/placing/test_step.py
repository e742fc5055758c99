"""placing/step.py: every event has an answer, and the same event always the same one."""

from typing import Any, get_args

import pytest

from nri_coloc.core import events
from nri_coloc.core.decisions import Outcome
from nri_coloc.core.knobs import Knobs
from nri_coloc.core.pod_facts import NO_FACTS
from nri_coloc.core.settings import Tuning
from nri_coloc.core.workload import Resources
from nri_coloc.placing.step import step
from tests.unit.placing.kit import DEDICATED, Node, container, pod

MAIN = container("main", milli=2000)
EVENTS: dict[type, Any] = {
    events.PodStarted: events.PodStarted(pod(), DEDICATED),
    events.PodResized: events.PodResized(pod(cpu_request=3000)),
    events.PodRemoved: events.PodRemoved("web"),
    events.ContainerCreating: events.ContainerCreating(pod(), MAIN, DEDICATED),
    events.ContainerCreated: events.ContainerCreated("web", "main", 0b11),
    events.ContainerStarting: events.ContainerStarting(pod(), MAIN, DEDICATED),
    events.ContainerUpdating: events.ContainerUpdating(pod(), MAIN, DEDICATED, Resources()),
    events.ContainerGone: events.ContainerGone("main"),
    events.Synchronized: events.Synchronized((), ()),
    events.Reconfigured: events.Reconfigured(Node().state.topology, {}, {}),
    events.AmountsGranted: events.AmountsGranted({"app": Knobs(quota=1)}, "there is less"),
    events.PoolsSized: events.PoolsSized({"reclaim": 2}, "online pods use 4 of 8 CPUs"),
    events.FactsReported: events.FactsReported(NO_FACTS),
    events.CPUsFreed: events.CPUsFreed(),
}


def test_every_event_is_tried_here():
    assert EVENTS.keys() == set(get_args(events.Event))


@pytest.mark.parametrize("event", EVENTS.values(), ids=lambda event: type(event).__name__)
class TestEveryEvent:
    def test_it_has_an_answer_on_an_empty_node(self, event):
        assert isinstance(step(Node().state, event, Tuning()), Outcome)

    def test_it_has_the_same_answer_twice(self, event):
        node = Node()
        node.create("main", 2000)
        assert step(node.state, event, Tuning()) == step(node.state, event, Tuning())

    def test_the_former_state_is_left_as_it_was(self, event):
        node = Node()
        node.create("main", 2000)
        pods, containers = dict(node.state.pods), dict(node.state.containers)
        step(node.state, event, Tuning())
        assert (dict(node.state.pods), dict(node.state.containers)) == (pods, containers)
