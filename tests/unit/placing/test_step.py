"""placing/node.py: every event has an answer, and the same event always the same one."""

from typing import Any, get_args

import pytest

from nri_coloc.core import decisions
from nri_coloc.core.decisions import Outcome
from nri_coloc.core.knobs import Knobs
from nri_coloc.core.pod_facts import NO_FACTS
from nri_coloc.core.settings import Tuning
from nri_coloc.core.workload import Resources
from nri_coloc.placing.node import step
from tests.unit.placing.kit import DEDICATED, Node, container, pod

MAIN = container("main", milli=2000)
EVENTS: dict[type, Any] = {
    decisions.PodStarted: decisions.PodStarted(pod(), DEDICATED),
    decisions.PodResized: decisions.PodResized(pod(cpu_request=3000)),
    decisions.PodRemoved: decisions.PodRemoved("web"),
    decisions.ContainerCreating: decisions.ContainerCreating(pod(), MAIN, DEDICATED),
    decisions.ContainerCreated: decisions.ContainerCreated("web", "main", 0b11),
    decisions.ContainerStarting: decisions.ContainerStarting(pod(), MAIN, DEDICATED),
    decisions.ContainerUpdating: decisions.ContainerUpdating(pod(), MAIN, DEDICATED, Resources()),
    decisions.ContainerGone: decisions.ContainerGone("main"),
    decisions.Synchronized: decisions.Synchronized((), ()),
    decisions.Reconfigured: decisions.Reconfigured(Node().state.topology, {}, {}),
    decisions.AmountsGranted: decisions.AmountsGranted({"app": Knobs(quota=1)}, "there is less"),
    decisions.PoolsSized: decisions.PoolsSized({"reclaim": 2}, "online pods use 4 of 8 CPUs"),
    decisions.FactsReported: decisions.FactsReported(NO_FACTS),
    decisions.CPUsFreed: decisions.CPUsFreed(),
}


def test_every_event_is_tried_here():
    assert EVENTS.keys() == set(get_args(decisions.Event))


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

    def test_a_changed_state_has_a_higher_generation(self, event):
        before = Node().state
        after = step(before, event, Tuning()).state
        assert after is before or after.generation > before.generation
