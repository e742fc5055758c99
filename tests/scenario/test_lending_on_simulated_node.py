"""Demand, counters, samples and the fast loop together: a burst on the simulated node shrinks the reclaim pool."""

from collections.abc import Iterator

import pytest

from nri_coloc.core.lending import Binding, Change
from nri_coloc.core.readings import FastReadings, Role
from nri_coloc.core.settings import ReclaimTuning
from nri_coloc.core.workload import KubeQoS
from nri_coloc.host import cgroup_layout
from nri_coloc.host.readings import CgroupReader
from nri_coloc.lending import fast_loop, groups, records, run_delay
from nri_coloc.lending.fast_loop import LoopMemory, Tick
from nri_coloc.lending.groups import Facts, PodFacts
from nri_coloc.lending.sampler import FastSampler
from nri_coloc.sim.node import Node
from nri_coloc.sim.spec import ContainerRequest, PodRequest, native
from tests.scenario.versions import VERSIONS

CPUS = 8
PERIOD_S = 0.02


class Bed:
    """Run a node on a clock of its own, with one online pod and reclaimed pods, whose cpuset follows the loop."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.now = 1000.0
        self.memory = LoopMemory()
        self.size = 0
        self.web = self._run("web", KubeQoS.BURSTABLE, native(4000))
        self.batch = [self._run(f"etl-{number}", KubeQoS.BEST_EFFORT, native(0)) for number in range(3)]
        self.sampler = FastSampler(
            cgroup_layout.detect(str(node.host_root)), str(node.host_root), lambda: self.now
        )
        pods = [PodFacts(self._pod(self.web), Role.ONLINE)]
        pods += [PodFacts(self._pod(container), Role.BOX) for container in self.batch]
        self.sampler.watch(groups.choose(Facts(("kubepods",), tuple(pods))))
        for container in self.batch:
            node.set_demand(container, CPUS)

    def _run(self, name, qos, resources) -> str:
        pod = self.node.run_pod(PodRequest(name, qos=qos, shares=resources.shares or 2))
        return self.node.run_container(pod, ContainerRequest("app", resources))

    def _pod(self, container: str) -> str:
        return self.node.runtime.containers[container].pod.cgroup

    def tick(self) -> Tick:
        self.now += PERIOD_S
        self.node.tick(self.now)
        readings = FastReadings(self.now, self.sampler.read(self.now), lendable=CPUS, cpus=CPUS)
        done = fast_loop.tick(self.memory, readings, ReclaimTuning(), self.now)
        self.memory = done.memory
        if done.target.cpus != self.size:
            self._resize(done.target.cpus)
        return done

    def _resize(self, cpus: int) -> None:
        self.size = cpus
        for container in self.batch:
            for path in (self._pod(container), self.node.runtime.containers[container].cgroup):
                self.node.tree.write(path, "cpuset.cpus", f"{CPUS - cpus}-{CPUS - 1}")
                self.node.tree.settle(path)

    def run(self, seconds: float) -> Tick:
        for _ in range(round(seconds / PERIOD_S) - 1):
            self.tick()
        return self.tick()


@pytest.fixture(params=VERSIONS)
def bed(request, tmp_path) -> Iterator[Bed]:
    with Node(tmp_path, "8cpu", cgroup=request.param) as node:
        made = Bed(node)
        yield made
        made.sampler.close()


def test_a_calm_node_lends_most_of_its_cpus(bed):
    bed.node.set_demand(bed.web, 0.2)
    assert bed.run(6).target.cpus >= CPUS - 2


def test_a_burst_takes_cpus_back_within_three_ticks(bed):
    bed.node.set_demand(bed.web, 0.2)
    lent = bed.run(6).target.cpus
    bed.node.set_demand(bed.web, CPUS)
    burst = [bed.tick() for _ in range(3)]
    assert burst[-1].target.cpus <= 1
    assert Change.SUPPRESS in [tick.target.change for tick in burst]
    bed.node.set_demand(bed.web, 0.2)
    assert bed.run(12).target.cpus == lent


def test_less_than_the_unused_half_is_lent(bed):
    bed.node.set_demand(bed.web, CPUS / 2)
    assert 1 <= bed.run(6).target.cpus <= CPUS / 2


@pytest.mark.parametrize("path", ["", "kubepods"], ids=["the node's", "the pods'"])
def test_a_reset_counter_lends_no_system_use(bed, path):
    bed.node.tree.make("system")
    bed.node.workload.attach("system", lambda _seconds: CPUS / 2)
    lent = bed.run(6).target.cpus
    bed.node.workload.set_back(path)
    assert {tick.target.cpus for tick in (bed.tick() for _ in range(300))} <= {lent, lent - 1}


class TestWithoutPSI:
    """Test online tasks that wait beside the reclaim pool: it shrinks, and only their schedstat shows the waiting."""

    @pytest.fixture(params=VERSIONS)
    def bed(self, request, tmp_path) -> Iterator[Bed]:
        with Node(tmp_path, "no-psi", cgroup=request.param) as node:
            made = Bed(node)
            node.set_demand(made.web, 0.2)
            assert made.run(6).target.cpus >= CPUS - 2
            yield made
            made.sampler.close()

    def follow(self, bed: Bed) -> None:
        """Choose tasks as the slow loop does."""
        root = str(bed.node.host_root)
        (group,) = bed.sampler.without_pressure
        path = bed.node.runtime.containers[bed.web].cgroup
        tasks = CgroupReader(cgroup_layout.detect(root), root).tasks(path)
        bed.sampler.follow({group: run_delay.busiest({}, tasks)})

    def test_a_stall_suppresses_at_once_with_its_signal(self, bed):
        self.follow(bed)
        bed.run(0.2)
        bed.node.set_delay(bed.web, 0.6)
        cut = next(tick for tick in (bed.tick() for _ in range(6)) if tick.target.change is Change.SUPPRESS)
        assert cut.target.binding is Binding.STALL
        assert records.inputs(cut.grounds)["stall_signal"] == "run-queue delay"

    def test_who_waits_a_little_loses_nothing(self, bed):
        self.follow(bed)
        bed.node.set_delay(bed.web, 0.05)
        assert bed.run(2).target.cpus >= CPUS - 2

    def test_a_task_that_ends_leaves_the_box_as_it_is(self, bed):
        self.follow(bed)
        bed.run(0.2)
        bed.node.processes.end(bed.node.runtime.containers[bed.web].pid)
        assert bed.run(1).target.cpus >= CPUS - 2
