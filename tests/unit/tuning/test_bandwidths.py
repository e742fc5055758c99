"""tuning/bandwidths.py: a pod's bursts and raised quotas survive starts, resizes, resets and refusals."""

from dataclasses import replace
from threading import Thread
from types import SimpleNamespace

import pytest

from nri_coloc.core.decisions import PodRemoved
from nri_coloc.core.lending import Headroom
from nri_coloc.core.settings import Tuning
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host.bandwidth_files import PodBandwidth, Share
from nri_coloc.repair.drift import REPAIRS_PER_MINUTE
from nri_coloc.tuning import bandwidths
from nri_coloc.tuning.bandwidths import RESIZE_LASTS_S
from nri_coloc.tuning.quota_burst_loop import QuotaBurstLoop
from tests.unit.parts import create
from tests.unit.placing import kit
from tests.unit.tuning.quota_bed import APP, QUOTA, Rig


@pytest.fixture
def rig() -> Rig:
    return Rig()


class TestPodsBandwidths:
    BURSTING = replace(kit.SHARED, cpu_burst_percent=50)

    def test_a_starting_container_has_its_burst(self):
        rig = Rig(wish=self.BURSTING)
        rig.bandwidths.place("app")
        (pod,) = rig.files.applied
        assert pod.path == "kubepods/podweb"
        (share,) = pod.containers.values()
        assert (share.own, share.quota, share.burst) == (QUOTA, None, 50_000)

    def test_of_a_vm_only_the_pod_is_told(self):
        rig = Rig(wish=replace(self.BURSTING, handler="pod"))
        rig.bandwidths.place("app")
        assert rig.files.applied == [PodBandwidth("kubepods/podweb", burst=50_000)]
        assert not bandwidths.may_be_raised(rig.node.state, rig.node.state.containers["app"])

    def test_a_handler_that_is_ignored_loses_its_burst(self):
        rig = Rig(wish=self.BURSTING)
        rig.bandwidths.place("app")
        state, one = rig.node.state, rig.node.state.containers["app"]
        ignored = replace(one, wish=replace(one.wish, handler="ignore"))
        rig.node.state = replace(state, containers=state.containers.adding(ignored))
        rig.bandwidths.sweep()
        assert rig.files.applied[-1].containers == {APP: Share(QUOTA)}

    def test_pods_that_want_neither_are_not_looked_at(self, rig):
        rig.bandwidths.place("app")
        rig.bandwidths.place("nobody")
        rig.bandwidths.sweep()
        assert rig.files.applied == []

    def test_a_resize_goes_by_the_new_quota_and_ends_a_raise(self, rig):
        rig.raised()
        rig.limit("app", 150_000)
        rig.bandwidths.resized("web")
        assert rig.last_written() == [150_000]
        assert rig.files.applied[-1].extra == 0

    def test_a_siblings_resize_lowers_raised_quotas_first(self, rig):
        create(rig.node, "sidecar")
        rig.limit("sidecar", 50_000)
        rig.raised()
        before = len(rig.files.applied)
        rig.limit("sidecar", 20_000)
        rig.bandwidths.resized("web")
        assert len(rig.files.applied) == before + 1
        assert rig.files.applied[-1].containers[APP].quota == QUOTA
        assert rig.files.applied[-1].extra == 0

    def test_nobody_of_a_pod_is_raised_until_its_resize_has_ended(self, rig, monkeypatch):
        at = [100.0]
        monkeypatch.setattr(bandwidths, "time", SimpleNamespace(monotonic=lambda: at[0]))
        rig.raised()
        rig.bandwidths.resized("web")
        rig.pass_by()
        rig.bandwidths.sweep()
        assert rig.last_written() == [QUOTA]
        at[0] += RESIZE_LASTS_S
        rig.pass_by()
        assert rig.last_written()[0] > QUOTA

    def test_raise_that_waits_for_its_pod_is_no_repair(self, rig):
        rig.files.highest = QUOTA + 10_000
        rig.raised()
        rig.files.highest = QUOTA + 20_000
        rig.bandwidths.sweep()
        assert rig.files.quotas[APP] == QUOTA + 20_000
        assert {record.event for record in rig.heard.records} == {"pod.limit", "container.update"}

    def test_bursts_are_taken_back_during_a_resize(self, monkeypatch):
        at = [100.0]
        monkeypatch.setattr(bandwidths, "time", SimpleNamespace(monotonic=lambda: at[0]))
        rig = Rig(Tuning(), replace(kit.SHARED, cpu_burst_percent=50))
        rig.bandwidths.place("app")
        assert [share.burst for share in rig.files.applied[-1].containers.values()] == [50_000]
        rig.bandwidths.resized("web")
        assert [share.burst for share in rig.files.applied[-1].containers.values()] == [0]
        at[0] += RESIZE_LASTS_S
        rig.bandwidths.sweep()
        assert [share.burst for share in rig.files.applied[-1].containers.values()] == [50_000]

    def test_a_resize_of_a_pod_where_nobody_is_raised_writes_nothing(self, rig):
        rig.bandwidths.resized("web")
        rig.bandwidths.resized("nobody")
        assert rig.files.applied == []

    def test_a_raise_computed_during_a_resize_is_not_written(self, rig: Rig):
        rig.raised()

        def resized_meanwhile() -> Headroom:
            rig.resize(50_000)
            return rig.headroom

        rig.bursts = QuotaBurstLoop(rig.node, rig.bandwidths, rig.files, resized_meanwhile, rig.report)
        rig.pass_by()
        assert rig.last_written() == [50_000]

    def test_a_resize_comes_after_the_write_under_way(self, rig):
        rig.raised()
        hook = Thread(target=rig.resize, args=(50_000,))

        def resized_meanwhile() -> None:
            rig.files.meanwhile = lambda: None
            hook.start()
            hook.join(0.2)  # it must wait: without a lock it would have ended by now

        rig.files.meanwhile = resized_meanwhile
        rig.bandwidths.sweep()
        hook.join(30)
        assert rig.last_written() == [50_000]

    def test_a_quota_that_is_gone_is_left_alone(self, rig):
        rig.raised()
        rig.limit("app", -1)
        rig.bandwidths.resized("web")
        assert rig.last_written() == [None]

    def test_what_somebody_resets_is_repaired_said_and_not_for_ever(self):
        rig = Rig(wish=self.BURSTING)
        for _ in range(20):
            rig.bandwidths.sweep()
        assert len(rig.files.applied) == 1 + REPAIRS_PER_MINUTE
        assert rig.heard.said() == [("drift.repair", "found_different")] * REPAIRS_PER_MINUTE

    def test_a_reset_is_recorded_for_pod_and_containers_with_both_values(self):
        rig = Rig(wish=self.BURSTING)
        rig.bandwidths.sweep()
        rig.files.writes = 3
        rig.bandwidths.sweep()
        pod, app = rig.heard.records
        assert (pod.pod, pod.container, pod.before, pod.after) == ("web", "", {"burst": 0}, {"burst": 50_000})
        assert (app.container, app.before, app.after) == (
            "app",
            {"burst": 0},
            {"quota": 200_000, "burst": 50_000},
        )
        assert app.because == (
            "repaired: cpu.max max 100000 instead of 200000 100000, cpu.max.burst 0 instead of 50000"
        )

    def test_what_holds_is_not_said(self):
        rig = Rig(wish=self.BURSTING)
        rig.bandwidths.sweep()
        rig.files.writes = 0
        rig.bandwidths.sweep()
        assert rig.heard.records == []

    def test_refusals_are_said(self):
        rig = Rig(wish=self.BURSTING)
        rig.files.failures = (KernelInterfaceError("/cpu.max.burst", "write", "Invalid argument"),)
        rig.bandwidths.place("app")
        assert rig.heard.said() == [("write.failed", "refused")]

    def test_a_pod_that_is_gone_is_forgotten(self):
        rig = Rig(wish=self.BURSTING)
        rig.bandwidths.sweep()
        rig.node.decide(PodRemoved("web"))
        rig.bandwidths.sweep()
        rig.bandwidths.apply("web")
        assert len(rig.files.applied) == 1

    def test_an_observer_writes_nothing(self):
        rig = Rig(Tuning(observe=True), self.BURSTING)
        rig.bandwidths.sweep()
        rig.bandwidths.place("app")
        assert rig.files.applied == []
