"""The daemon's samplers see the use and the memory of simulated containers, by both clocks."""

import pytest

from nri_coloc.core.readings import Role, Sample
from nri_coloc.core.workload import KubeQoS
from nri_coloc.host import cgroup_layout, counters
from nri_coloc.host.counters import CgroupFiles, Schedstat
from nri_coloc.host.readings import CgroupReader
from nri_coloc.lending.groups import Group
from nri_coloc.lending.sampler import FastSampler
from nri_coloc.sim.counter_files import KEPT, CounterFiles
from nri_coloc.sim.memory_use import Held
from nri_coloc.sim.node import Node
from nri_coloc.sim.spec import ContainerRequest, PodRequest, native
from tests.rig import open_files
from tests.rig.waiting import wait_until

MIB = 1 << 20


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def node(request, tmp_path):
    with Node(tmp_path, "8cpu", cgroup=request.param) as made:
        yield made


def online(node: Node, name: str = "web", shares: int = 1024) -> str:
    pod = node.run_pod(PodRequest(name, "shop", KubeQoS.BURSTABLE, shares=shares))
    return node.run_container(pod, ContainerRequest("app", native(1000)))


def offline(node: Node, name: str = "etl") -> str:
    return node.run_container(
        node.run_pod(PodRequest(name, "batch", KubeQoS.BEST_EFFORT)), ContainerRequest("w")
    )


def path(node: Node, container_id: str) -> str:
    return node.runtime.containers[container_id].cgroup


def sampler(node: Node, *groups: Group) -> FastSampler:
    made = FastSampler(cgroup_layout.detect(str(node.host_root)), str(node.host_root))
    made.watch(groups)
    return made


def rates(before: tuple[Sample, ...], after: tuple[Sample, ...], seconds: float) -> list[float]:
    """Return the CPUs used, by sample."""
    pairs = zip(before, after, strict=True)
    return [((b.usage_us or 0) - (a.usage_us or 0)) / seconds / 1e6 for a, b in pairs]


def test_a_demand_that_rises_is_seen_in_the_samples(node):
    web, etl = online(node), offline(node)
    reading = sampler(node, Group(Role.PODS, ("kubepods",)), Group(Role.BOX, (path(node, etl),)))
    seen = []
    node.set_demand(etl, 8)
    for second, cpus in enumerate((0.2, 8, 0.2)):
        node.set_demand(web, cpus)
        node.tick(second)
        before = reading.read(second)
        node.tick(second + 0.5)
        seen.append(rates(before, reading.read(second + 0.5), 0.5))
        node.set_demand(web, 0)
    reading.close()
    assert [round(pods, 1) for pods, _ in seen] == [8.0, 8.0, 8.0]
    calm, burst, again = (box for _, box in seen)
    assert [calm, again] == [pytest.approx(7.8, abs=0.01)] * 2
    assert burst < 0.3  # the share that the smallest weight gives


def test_online_pods_that_want_the_same_cpus_stall(node):
    web = online(node)
    other = online(node, "cart")
    reading = sampler(node, Group(Role.ONLINE, stalled="kubepods/burstable"))
    node.set_demand(web, 8)
    node.tick(0)
    node.set_demand(other, 8)
    node.tick(1)
    node.tick(3)
    (sample,) = reading.read(3)
    reading.close()
    assert sample.stalled_us == pytest.approx(1_500_000, rel=0.01)  # each has a half, for three seconds


@pytest.mark.parametrize("version", [1, 2])
def test_without_psi_the_tasks_schedstat_tells_what_was_waited(version, tmp_path):
    with Node(tmp_path, "no-psi", cgroup=version) as node:
        web = online(node)
        node.set_demand(web, 2)
        node.set_delay(web, 0.25)
        node.tick(0)
        node.tick(2)
        reader = CgroupReader(cgroup_layout.detect(str(node.host_root)), str(node.host_root))
        (found,) = reader.tasks(path(node, web)).values()
        assert found == Schedstat(4_000_000, 500_000)


def test_a_satisfied_container_waits_for_the_time_it_is_given(node):
    web = online(node)
    node.set_demand(web, 1)
    node.set_delay(web, 0.5)
    node.tick(0)
    node.tick(2)
    stalled = counters.some_us((node.tree.read(path(node, web), "cpu.pressure") or "").encode())
    assert stalled == 1_000_000


def test_nobody_stalls_longer_than_time_passes(node):
    for number in range(4):
        node.set_demand(online(node, f"web-{number}"), 8)
    node.tick(0)
    node.tick(2)
    stalled = counters.some_us((node.tree.read("kubepods", "cpu.pressure") or "").encode())
    machine = counters.some_us((node.host_root / "proc/pressure/cpu").read_bytes())
    assert stalled == machine
    assert 1_000_000 < (machine or 0) <= 2_000_000


def test_a_demand_of_nothing_uses_nothing(node):
    web = online(node)
    node.set_demand(web, 4)
    node.tick(0)
    node.set_demand(web, 0)
    assert node.workload.is_idle
    assert node.workload.tick(1).by_path == {}


def test_what_a_cgroup_beside_kubepods_uses_is_seen(node):
    node.workload.attach("system.slice", lambda _: 1.5)
    reading = sampler(node, Group(Role.SYSTEM, ("system.slice",)))
    node.tick(0)
    before = reading.read(0)
    node.tick(2)
    assert rates(before, reading.read(2), 2) == [pytest.approx(1.5)]
    reading.close()


class TestMemory:
    def memory(self, node: Node, cgroup: str):
        names = (
            ("memory.usage_in_bytes", "memory.stat", "memory.limit_in_bytes", "memory.oom_control")
            if node.tree.version == 1
            else ("memory.current", "memory.stat", "memory.max", "memory.events")
        )
        texts = ((node.tree.read(cgroup, name) or "").encode() for name in names)
        return counters.reading(CgroupFiles(*texts))

    def test_a_new_cgroup_holds_nothing(self, node):
        found = self.memory(node, path(node, online(node)))
        assert (found.usage, found.working_set, found.limit, found.oom_kills) == (0, 0, None, 0)

    def test_what_a_container_holds_is_seen_in_all_above_it(self, node):
        web, cart = online(node), online(node, "cart")
        node.set_memory(web, Held(100 * MIB, 20 * MIB, 30 * MIB))
        node.set_memory(cart, Held(1 * MIB))
        for cgroup, usage in ((path(node, web), 150), ("kubepods/burstable", 151), ("kubepods", 151)):
            assert self.memory(node, cgroup).usage == usage * MIB
        own = self.memory(node, path(node, web))
        assert (own.anon, own.file, own.inactive_file, own.working_set) == (
            100 * MIB,
            50 * MIB,
            30 * MIB,
            120 * MIB,
        )

    def test_the_machine_has_that_much_less_and_gets_it_back(self, node):
        meminfo = node.host_root / "proc/meminfo"
        before = counters.meminfo(meminfo.read_bytes())
        web = online(node)
        node.set_memory(web, Held(100 * MIB, 20 * MIB, 30 * MIB))
        during = counters.meminfo(meminfo.read_bytes())
        assert before is not None
        assert during is not None
        assert (before.free - during.free, during.inactive_file) == (150 * MIB, 30 * MIB)
        node.remove_pod(node.pod("shop/web"))
        assert counters.meminfo(meminfo.read_bytes()) == before

    def test_the_zones_have_watermarks(self, node):
        low = counters.watermark((node.host_root / "proc/zoneinfo").read_bytes(), 4096)
        assert low is not None
        assert 0 < low < 1 << 30


class TestClock:
    def test_the_wall_clock_moves_the_counters(self, node):
        web = online(node)
        reading = sampler(node, Group(Role.PODS, ("kubepods",)))
        node.start_clock()
        assert reading.read(0)[0].usage_us == 0
        node.set_demand(web, 2)
        wait_until(lambda: (reading.read(1)[0].usage_us or 0) > 100_000, 20, "CPU time that is used")
        reading.close()

    def test_idle_time_is_not_charged_to_the_next(self, node):
        web = online(node)
        node.tick(0)
        node.workload.rest(1000)
        node.set_demand(web, 1)
        node.tick(1001)
        usage = node.workload._counters[""].used
        assert usage == pytest.approx(1.0)

    def test_an_idle_nodes_clock_sleeps_until_somebody_wants_something(self, node, monkeypatch):
        ticks: list[float] = []
        monkeypatch.setattr(node.workload, "tick", ticks.append)
        node.start_clock()
        node.start_clock()  # a second time does nothing
        assert ticks == []
        node.set_demand(online(node), 1)
        wait_until(lambda: ticks, 20, "a tick")


def test_counter_files_show_what_is_put_however_many_there_are(node, tmp_path):
    name = "cpu.pressure"
    paths = [f"kubepods/pod{number}" for number in range(KEPT + 2)]
    files = CounterFiles(node.tree)
    before = open_files.below(tmp_path)
    for cgroup in paths:
        node.tree.make(cgroup)
        for text in ("a longer text", "short"):
            files.put(cgroup, name, text)
    assert {node.tree.read(cgroup, name) for cgroup in paths} == {"short"}
    files.put("kubepods/absent", name, "x")
    files.forget(paths[0])
    node.tree.remove(paths[0])
    node.tree.make(paths[0])
    files.put(paths[0], name, "anew")
    assert node.tree.read(paths[0], name) == "anew"
    files.close()
    assert open_files.below(tmp_path) == before
