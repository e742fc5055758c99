"""forecast/snapshot.py: a snapshot of the whole node is taken in slices, with pauses between them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nri_coloc.core.readings import Picture
from nri_coloc.forecast.snapshot import PictureTaker, Subjects
from nri_coloc.host import cgroup_layout
from nri_coloc.sim.memory_use import Held
from nri_coloc.sim.node import Node
from nri_coloc.sim.spec import ContainerRequest, PodRequest

MIB = 1 << 20


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def node(request, tmp_path) -> Iterator[Node]:
    with Node(tmp_path, "8cpu", cgroup=request.param) as made:
        yield made


class Clock:
    """A clock that each reading moves by 1 ms."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        self.now += 0.001
        return self.now

    def wait(self, seconds: float) -> None:
        self.now += seconds


def taker(node: Node, clock: Clock | None = None) -> PictureTaker:
    return PictureTaker(cgroup_layout.detect(str(node.host_root)), str(node.host_root), clock or Clock())


def paused(taker: PictureTaker, subjects: Subjects, pause: Callable[[int], None]) -> Iterator[Picture | None]:
    """Yield the slices of a snapshot, one for each cgroup; call `pause` after each is read."""
    for step, picture in enumerate(taker.slices(subjects, groups=1)):
        pause(step)
        yield picture


def peopled(node: Node, count: int) -> Subjects:
    for number in range(count):
        node.run_container(node.run_pod(PodRequest(f"pod-{number}")), ContainerRequest("app"))
    return Subjects(
        ("kubepods",),
        {pod.id: pod.cgroup for pod in node.runtime.pods.values()},
        {container.id: container.cgroup for container in node.runtime.containers.values()},
        {"system": "system.slice"},
        nodes=(0, 1),
    )


def test_everybody_is_in_it_by_id(node):
    subjects = peopled(node, 3)
    picture = taker(node).take(subjects)
    assert (picture.pods.keys(), picture.containers.keys()) == (
        subjects.pods.keys(),
        subjects.containers.keys(),
    )
    assert picture.host_groups.keys() == {"system"}
    assert picture.kubepods is not None
    assert picture.node.memory_total == 32 << 30


def test_what_containers_use_is_in_it(node):
    subjects = peopled(node, 2)
    one, other = subjects.containers
    node.set_demand(one, 3)
    node.set_memory(other, Held(5 * MIB, 0, 2 * MIB))
    node.tick(0)
    node.tick(2)
    picture = taker(node).take(subjects)
    usage = [picture.containers[container].usage_us for container in (one, other)]
    assert usage == [6_000_000, 0]
    assert picture.kubepods is not None
    assert (picture.kubepods.usage_us, picture.node.usage_us) == (6_000_000, 6_000_000)
    memory = picture.containers[other].memory
    assert memory is not None
    assert (memory.usage, memory.working_set) == (7 * MIB, 5 * MIB)
    assert picture.node.memory_total - picture.node.memory_free == 7 * MIB


def test_who_has_gone_is_not_in_it(node):
    subjects = peopled(node, 2)
    node.remove_pod(node.pod("default/pod-0"))
    picture = taker(node).take(subjects)
    assert (len(picture.pods), len(picture.containers)) == (1, 1)


def test_it_pauses_after_every_few_cgroups(node):
    subjects = peopled(node, 3)  # with kubepods and a host group these are eight
    steps = list(taker(node).slices(subjects, groups=3))
    assert steps[:-1] == [None, None, None]
    assert steps[-1] is not None


def test_a_pause_does_not_count_as_its_cost(node):
    clock = Clock()
    *_, picture = paused(taker(node, clock), peopled(node, 3), lambda _: clock.wait(60))
    assert picture is not None
    assert picture.at == pytest.approx(100.0, abs=0.01)
    assert 0 < picture.took_s < 1
    assert max(reading.at for reading in picture.containers.values()) > 400


def test_who_leaves_between_two_slices_is_left_out(node):
    subjects = peopled(node, 2)
    leave = {2: lambda: node.remove_pod(node.pod("default/pod-1"))}  # kubepods and the host group are read
    *_, picture = paused(taker(node), subjects, lambda step: leave.get(step, lambda: None)())
    assert picture is not None
    assert (len(picture.pods), len(picture.containers)) == (1, 1)


def test_an_empty_machine_is_a_picture_too(tmp_path: Path):
    picture = PictureTaker(cgroup_layout.detect(str(tmp_path)), str(tmp_path)).take(Subjects(nodes=()))
    assert (picture.kubepods, picture.pods, picture.node.usage_us) == (None, {}, None)
