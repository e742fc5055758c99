"""repair/targets.py: values that a pod must not have any more are restored; the others stay."""

from typing import cast

import pytest

from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host.cgroups import CgroupWriter
from nri_coloc.host.knob_files import FileValue, Target
from nri_coloc.repair.targets import HIGH, Leftovers
from tests.unit.parts import Cgroups, a_node, start_pod
from tests.unit.placing import kit

WEB = "kubepods/podweb"
SLOWED = Target(WEB, 0b11, (FileValue("memory", HIGH, "4096"),))
FREE = Target(WEB, 0b11)


class Bounded(Cgroups):
    """Fake writer that keeps the paths whose memory bounds were removed, and can refuse."""

    def __init__(self) -> None:
        super().__init__()
        self.loose: list[str] = []
        self.refuses = False

    def unbound(self, path: str) -> tuple[KernelInterfaceError, ...]:
        self.loose.append(path)
        return (KernelInterfaceError(f"/{path}/{HIGH}", "write", "Device or resource busy"),) * self.refuses


@pytest.fixture
def writer() -> Bounded:
    return Bounded()


@pytest.fixture
def leftovers(writer: Bounded) -> Leftovers:
    return Leftovers(cast("CgroupWriter", writer))


def a_state(wish=kit.SHARED):
    node = a_node()
    start_pod(node, "web", wish)
    return node.state


def test_all_but_the_pods_values_and_protections_goes_back(leftovers, writer):
    leftovers.clear(a_state(), "web", SLOWED)
    leftovers.clear(a_state(), "web", Target(WEB))
    protected = {"memory.low", "memory.min"}
    assert writer.put == [(WEB, {*protected, HIGH, "cpuset.cpus"}), (WEB, protected)]


def test_a_member_of_the_box_has_its_values(leftovers, writer):
    leftovers.clear(a_state(kit.RECLAIMED), "web", FREE)
    assert writer.put == []


def test_memory_is_let_loose_once_where_it_was_held(leftovers, writer):
    state = a_state()
    for target in (FREE, SLOWED, FREE, FREE):
        leftovers.clear(state, "web", target)
    assert writer.loose == [WEB]


def test_what_was_refused_is_tried_again(leftovers, writer):
    state = a_state()
    leftovers.clear(state, "web", SLOWED)
    writer.refuses = True
    assert len(leftovers.clear(state, "web", FREE)) == 1
    leftovers.clear(state, "web", FREE)
    assert writer.loose == [WEB, WEB]


def test_a_pod_that_is_gone_is_forgotten(leftovers, writer):
    leftovers.forget_gone(a_node().state)
    leftovers.clear(a_state(), "web", SLOWED)
    leftovers.forget_gone(a_state())
    leftovers.forget_gone(a_node().state)
    leftovers.clear(a_state(), "web", FREE)
    assert writer.loose == []
