"""The node adopts a new state only after its decision could be delivered."""

import threading

from nri_coloc.core.decisions import ContainerGone, Reconfigured, Synchronized
from nri_coloc.core.knobs import Capability
from nri_coloc.core.settings import Tuning
from tests.unit.parts import a_node, create
from tests.unit.placing import kit


def test_a_decision_is_adopted():
    node = a_node()
    create(node, "app")
    assert set(node.state.containers) == {"app"}


def test_an_undelivered_decision_leaves_the_state_unchanged():
    node = a_node()
    create(node, "app")
    before = node.state
    assert node.decide_if(ContainerGone("app"), lambda _: False) is None
    assert node.state is before


def test_a_delivered_decision_replaces_the_state():
    node = a_node()
    create(node, "app")
    outcome = node.decide_if(ContainerGone("app"), lambda _: True)
    assert outcome is not None
    assert node.state is outcome.state
    assert not node.state.containers


def test_whether_it_counts_is_asked_before_anybody_else_can_decide():
    node = a_node()
    seen = []

    def counts(outcome):
        other = threading.Thread(target=lambda: seen.append(node.decide(ContainerGone("nobody"))))
        other.start()
        other.join(0.05)
        assert seen == [], "another decision came in between"
        return True

    node.decide_if(ContainerGone("nobody"), counts)


def test_only_a_list_that_was_taken_in_tells_who_there_is():
    node = a_node()
    node.told = False
    create(node, "app")
    node.decide_if(Synchronized((), ()), lambda _: False)
    assert not node.told
    node.decide(Synchronized((), ()))
    assert node.told


def test_who_there_is_stays_told_whatever_happens_next():
    node = a_node()
    node.decide(ContainerGone("nobody"))
    assert node.told


def test_new_tuning_and_the_state_under_it_come_together():
    node = a_node()
    tuning = Tuning(reserved=kit.mask("7"))
    node.retune(Reconfigured(node.state.topology, {}, {}), tuning)
    assert node.tuning is tuning
    assert node.state.pools.reserved == kit.mask("7")


CAN = Capability(2, frozenset({"memory.high"}))


def test_capabilities_are_replaced():
    node = a_node()
    node.learn(CAN)
    assert node.can is CAN


def test_capabilities_replace_the_ones_they_were_derived_from():
    node = a_node()
    node.learn(CAN, instead_of=node.can)
    assert node.can is CAN


def test_a_newer_connections_capabilities_are_not_overwritten():
    node = a_node()
    before = node.can
    node.learn(CAN)
    node.learn(Capability(1), instead_of=before)
    assert node.can is CAN
