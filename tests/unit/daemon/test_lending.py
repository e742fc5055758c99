"""The size of the box while its first member comes: what a tick decides that did not see it yet."""

from collections.abc import Iterator
from typing import Any, cast

import pytest

from nri_coloc.daemon.lending import Lending
from nri_coloc.daemon.node import Node
from nri_coloc.model.state import RECLAIM
from nri_coloc.model.tuning import ReclaimTuning, Tuning
from tests.rig.waiting import poll
from tests.unit.daemon.kit import a_node, a_report, start_pod

PATIENCE_S = 20
A_FEW_TICKS_S = 0.3
TICK_S = 0.01
FLOOR = 2
TUNING = Tuning(reclaim=ReclaimTuning(idle_tick_s=TICK_S, quiet_tick_s=TICK_S))


class Nobody:
    """Stands for whoever writes, and for a sampler that has nothing to read."""

    def __getattr__(self, _name: str) -> Any:
        return lambda *_anything: ()


@pytest.fixture
def node() -> Node:
    """A machine where nobody lives on what is lent."""
    return a_node(TUNING)


@pytest.fixture
def lending(node: Node) -> Iterator[Lending]:
    """Ticking there."""
    stands = cast("Any", Nobody())
    found = Lending(node, stands, stands, stands, a_report(node)[0])
    found.start()
    yield found
    found.stop()
    assert found.ended(PATIENCE_S)


def box(node: Node) -> int:
    return node.state.pools.reclaim.bit_count()


def test_a_box_that_nobody_is_in_has_no_size_of_its_own(node: Node, lending: Lending):
    with lending.expecting_member():
        assert node.state.pools.counts == {RECLAIM: FLOOR}
    assert poll(lambda: not node.state.pools.counts, PATIENCE_S)
    assert box(node) == 8


def test_ticks_while_the_first_member_is_decided_about_leave_it_the_box_and_not_all_of_share(
    node: Node, lending: Lending
):
    with lending.expecting_member():
        widened = poll(lambda: box(node) > FLOOR, A_FEW_TICKS_S)
        start_pod(node, "batch")
        assert (widened, box(node)) == (False, FLOOR)
    assert not poll(lambda: RECLAIM not in node.state.pools.counts, A_FEW_TICKS_S)
