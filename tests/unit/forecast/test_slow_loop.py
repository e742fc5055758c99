"""The slow loop on a simulated node's files, turn by turn."""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import cast

import pytest

from nri_coloc.core.decisions import PoolsSized
from nri_coloc.core.lending import Binding
from nri_coloc.core.readings import Picture
from nri_coloc.core.settings import PoolTuning, ReclaimTuning, Tuning
from nri_coloc.core.state import RECLAIM, NodeState
from nri_coloc.forecast import forecast_file
from nri_coloc.forecast import slow_loop as subject
from nri_coloc.forecast.expectations import Forecast
from nri_coloc.forecast.forecast_file import NAME, ForecastFile
from nri_coloc.forecast.node_snapshots import EVERY_WHOLE, NodeSnapshots
from nri_coloc.forecast.slow_loop import Conclusions, Listen, Survey
from nri_coloc.forecast.snapshot import PictureTaker
from nri_coloc.host import cgroup_layout
from nri_coloc.memory.bounds import BoxMemory
from nri_coloc.memory.division import Found
from nri_coloc.memory.worker import Bounds, MemoryWorker
from nri_coloc.sim.memory_use import Held
from nri_coloc.sim.node import Node
from nri_coloc.sim.spec import ContainerRequest, PodRequest
from tests.rig.waiting import wait_until
from tests.unit.parts import a_node, a_report, create, start_pod
from tests.unit.placing.kit import RECLAIMED

GIB = 1 << 30


class Taken:
    bounds: dict[str, Bounds] | None = None

    def submit(self, bounds: dict[str, Bounds]) -> None:
        self.bounds = bounds

    def found(self, _paths: Iterable[str]) -> dict[str, Found]:
        """Return nothing: no cgroup was bounded before."""
        return {}


class Rig:
    def __init__(self, sim: Node, folder: str, tuning: Tuning | None = None) -> None:
        self.sim = sim
        self.node = a_node(tuning)
        self.report, self.heard = a_report(self.node)
        self.worker = Taken()
        self.said: list[str] = []
        root = str(sim.host_root)
        taker = PictureTaker(cgroup_layout.detect(root), root)
        self.memory = BoxMemory(self.node, cast("MemoryWorker", self.worker), self.report)
        self.file = ForecastFile(folder, self.said.append)
        self.outside: tuple[str, ...] = ()
        self.listen: Listen = lambda *_: iter(())
        self.wall: Callable[[], float] = time.time
        self.survey = Survey(
            self.node,
            NodeSnapshots(self.node, taker, lambda: self.outside),
            Conclusions(self.memory, self.file, self.report, self.told_wall),
            self.report,
            listen=self.listened,
        )

    def listened(self, before: Picture | None, picture: Picture, state: NodeState) -> Iterator[None]:
        return self.listen(before, picture, state)

    def told_wall(self) -> float:
        return self.wall()

    @property
    def offer(self):
        return self.survey.offer.capacity

    def metric(self, name: str) -> float:
        lines = self.report.metrics.render().decode().splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith(f"nri_coloc_{name} "))


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def sim(request, tmp_path) -> Iterator[Node]:
    with Node(tmp_path, "8cpu", cgroup=request.param) as node:
        yield node


@pytest.fixture
def rig(sim, tmp_path) -> Rig:
    return Rig(sim, str(tmp_path))


def test_the_first_turn_asks_for_another_soon(rig):
    assert rig.survey.turn() == subject.SOON_S
    assert subject.PERIOD_S <= rig.survey.turn() <= subject.LONGEST_S


def test_whose_waiting_is_read_is_chosen_from_the_last_two_pictures(rig):
    seen = []

    def listen(before: Picture | None, picture: Picture, _: NodeState) -> Iterator[None]:
        yield
        seen.append((before, picture))

    rig.listen = listen
    rig.survey.turn()
    first = rig.survey.picture
    rig.survey.turn()
    assert seen == [(None, first), (first, rig.survey.picture)]


def test_the_end_of_the_daemon_waits_for_no_choice(rig):
    seen = []

    def listen(*_: object) -> Iterator[None]:
        rig.survey.stop()
        yield
        seen.append("more")

    rig.listen = listen
    rig.survey.turn()
    assert seen == []


def test_an_empty_node_offers_nearly_everything(rig):
    rig.survey.turn()
    assert rig.offer.binding is Binding.NOT_MEASURED
    rig.survey.turn()
    assert rig.offer.cpu_milli == pytest.approx(7600, abs=60)
    assert rig.offer.memory_bytes > 29 * GIB
    assert rig.metric("capacity_cpu_milli") == rig.offer.cpu_milli
    assert rig.metric("headroom_memory_bytes") > 29 * GIB


class TestBeforeTheRuntimeHasToldWhoThereIs:
    @pytest.fixture
    def rig(self, rig: Rig) -> Rig:
        rig.node.told = False
        return rig

    def test_nothing_is_offered_however_often_it_looks(self, rig):
        for _ in range(3):
            assert rig.survey.turn() == subject.SOON_S
        assert (rig.offer.cpu_milli, rig.offer.memory_bytes) == (0, 0)
        assert (rig.metric("capacity_cpu_milli"), rig.metric("headroom_memory_bytes")) == (0, 0)

    def test_nothing_is_learnt(self, rig):
        rig.survey.turn()
        rig.survey.turn()
        assert rig.survey.offer.forecast == Forecast()

    def test_nobodys_memory_is_bounded(self, rig):
        rig.outside = ("yarn",)
        rig.sim.tree.make("yarn")
        rig.survey.turn()
        assert rig.worker.bounds is None

    def test_a_snapshot_before_the_list_is_not_compared(self, rig):
        rig.survey.turn()
        rig.node.told = True
        rig.survey.turn()
        assert rig.offer.binding is Binding.NOT_MEASURED
        rig.survey.turn()
        assert rig.offer.cpu_milli == pytest.approx(7600, abs=60)

    def test_that_lending_is_switched_off_is_said_all_the_same(self, sim, tmp_path):
        rig = Rig(sim, str(tmp_path), Tuning(reclaim=ReclaimTuning(enabled=False)))
        rig.node.told = False
        rig.survey.turn()
        assert rig.offer.binding is Binding.DISABLED


def test_pools_sized_by_load_offer_the_boxs_own_cpus(sim, tmp_path):
    tuning = Tuning(reclaim=ReclaimTuning(partition=True))
    rig = Rig(sim, str(tmp_path), tuning)
    start_pod(rig.node, "batch")
    rig.survey.turn()
    rig.survey.turn()
    assert rig.offer.cpu_milli > 7000, "before they are sized it is as ever"
    rig.node.decide(PoolsSized({"share": 6, "reclaim": 2}, "pool resized: a test wants it"))
    rig.survey.turn()
    assert rig.offer.cpu_milli == 2000


def test_the_operators_maximum_bounds_the_offer(sim, tmp_path):
    rig = Rig(sim, str(tmp_path), Tuning(pools=(PoolTuning(RECLAIM, maximum=2),)))
    rig.survey.turn()
    rig.survey.turn()
    assert rig.offer.cpu_milli == 2000
    assert "pools.reclaim.maxCPUs" in rig.offer.because


def test_claims_are_asked_again_when_cpus_get_an_owner(rig):
    create(rig.node, "app")
    claimed: list[object] = []
    rig.survey.offer.saw = lambda _before, _after, online, *_: claimed.append(online)
    rig.survey.turn()
    rig.node.decide(PoolsSized({"reclaim": 2}, "pool resized: a test wants it"))
    rig.survey.turn()
    assert claimed[0] is claimed[1]
    state = rig.node.state
    rig.node.state = replace(state, pools=replace(state.pools, kept=0b1, share=0b11111110, reclaim=0b110))
    rig.survey.turn()
    assert claimed[1] is not claimed[2]


def test_a_node_without_a_cgroup_for_pods_is_an_empty_one(sim, tmp_path):
    rig = Rig(sim, str(tmp_path))
    for path in ("kubepods/burstable", "kubepods/besteffort", "kubepods"):
        sim.tree.remove(path)
    rig.survey.turn()
    rig.survey.turn()
    assert rig.offer.cpu_milli == pytest.approx(7600, abs=60)
    assert rig.memory.headroom_bytes > 29 * GIB


def test_members_of_the_box_are_bounded_by_the_remainder(rig):
    pod = rig.sim.run_pod(PodRequest("batch"))
    container = rig.sim.run_container(pod, ContainerRequest("app"))
    rig.sim.set_memory(container, Held(anon=2 * GIB))
    start_pod(rig.node, "batch")  # in the rig's state this pod has its own name and path
    rig.survey.turn()
    assert rig.worker.bounds is not None
    (bounds,) = rig.worker.bounds.values()
    assert 27 * GIB < bounds.part.high < 29 * GIB
    assert ("reclaim.memory", "headroom") in rig.heard.said()


def test_a_member_outside_kubernetes_has_its_part_of_the_memory(rig):
    for path in ("yarn", "other"):
        rig.sim.tree.make(path)
    rig.outside = ("yarn",)
    rig.survey.turn()
    assert rig.worker.bounds is not None
    assert rig.worker.bounds.keys() == {"yarn"}


def test_containers_and_pods_io_are_in_one_picture_a_minute(rig):
    create(rig.node, "app")
    rig.sim.tree.make("kubepods/podweb")
    rig.sim.tree.make("kubepods/podweb/app")
    containers, moved = [], []
    for _ in range(2 * EVERY_WHOLE):
        rig.survey.turn()
        assert rig.survey.picture is not None
        assert rig.survey.picture.pods["web"].memory is not None
        containers.append(bool(rig.survey.picture.containers))
        moved.append(rig.survey.picture.pods["web"].io is not None)
    assert containers.count(True) == 2
    assert moved == containers
    assert rig.metric('working_set_bytes{class="shared",pool="share"}') == 0
    assert rig.metric('io_bytes_total{class="shared",direction="read"}') == 0


def test_a_lent_container_in_an_online_pod_is_read(rig):
    create(rig.node, "app")
    create(rig.node, "job", RECLAIMED)
    rig.sim.tree.make("kubepods/podweb/app")
    rig.sim.tree.make("kubepods/podweb/job")
    rig.survey.turn()
    assert rig.survey.picture is not None
    assert rig.survey.picture.containers.keys() == {"job"}


def test_switched_off_nothing_is_read_and_nothing_is_offered(sim, tmp_path):
    rig = Rig(sim, str(tmp_path), Tuning(reclaim=ReclaimTuning(enabled=False)))
    rig.survey.turn()
    assert rig.survey.picture is not None
    assert rig.survey.picture.node.memory_total == 0
    assert (rig.offer.cpu_milli, rig.offer.binding) == (0, Binding.DISABLED)
    assert rig.worker.bounds == {}
    assert rig.survey.looked_at > 0


def test_a_minute_of_turns_is_learnt_and_outlives_the_process(rig, tmp_path):
    create(rig.node, "app")
    rig.sim.tree.make("kubepods/podweb")
    now = [20_000 * 86_400.0]
    rig.wall = lambda: now[0]
    for _ in range(15):
        rig.survey.turn()
        now[0] += 5.0
    rig.file.save(rig.survey.offer.forecast, now[0])
    assert "shop/web" in (tmp_path / NAME).read_text()
    again = Rig(rig.sim, str(tmp_path))
    again.wall = lambda: now[0]
    again.survey.start()
    again.survey.stop()
    assert "shop/web" in again.survey.offer.forecast.histories
    assert (rig.said, again.said) == ([], [])


def test_what_was_learnt_is_saved_every_few_minutes(rig, tmp_path, monkeypatch):
    now = [20_000 * 86_400.0]
    rig.wall = lambda: now[0]
    monkeypatch.setattr(forecast_file, "SAVED_EVERY_S", 0.0)
    for _ in range(15):
        assert not (tmp_path / NAME).exists() or now[0] >= 20_000 * 86_400.0 + 60
        rig.survey.turn()
        now[0] += 5.0
    assert (tmp_path / NAME).exists()


def test_after_a_failure_it_is_saved_sooner(rig, tmp_path, monkeypatch):
    now = [20_000 * 86_400.0]
    rig.wall = lambda: now[0]
    monkeypatch.setattr(forecast_file, "RETRIED_EVERY_S", 0.0)
    rig.file.problem = "cannot write forecast: No space left on device"
    for _ in range(15):
        rig.survey.turn()
        now[0] += 5.0
    assert (tmp_path / NAME).exists()
    assert rig.file.problem == ""


def test_it_ends_between_two_slices(rig):
    rig.survey.start()
    rig.survey.stop()
    assert not rig.survey._thread.is_alive()


def test_by_order_it_looks_before_its_time(rig, monkeypatch):
    monkeypatch.setattr(subject, "SOON_S", 600.0)
    rig.survey.start()
    wait_until(lambda: rig.survey.looked_at > 0, 20, "the first picture")
    before = rig.survey.looked_at
    rig.survey.look_now()
    wait_until(lambda: rig.survey.looked_at > before, 20, "another one")
    rig.survey.stop()


def test_a_turn_that_fails_is_logged_and_followed_by_another(rig, monkeypatch):
    turns = []

    def fails() -> float:
        turns.append(1)
        if len(turns) == 2:
            rig.survey._ending.set()
        raise ValueError("an unforeseen error")

    monkeypatch.setattr(rig.survey, "turn", fails)
    monkeypatch.setattr(subject, "SOON_S", 0.0)
    rig.survey._run()
    assert len(turns) == 2
