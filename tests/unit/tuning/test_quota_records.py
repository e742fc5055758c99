"""Each raise and each fall of a quota is recorded once, with the figures that decided it."""

import pytest

from nri_coloc.core.decisions import ContainerGone
from nri_coloc.core.lending import Binding, Headroom
from nri_coloc.core.settings import Tuning
from nri_coloc.repair import drift
from tests.unit.tuning.quota_bed import APP, BUSY, QUOTA, Rig, switched_off


@pytest.fixture
def rig() -> Rig:
    return Rig()


class TestWhatIsTold:
    def test_a_raise_is_recorded_for_container_and_pod_with_its_inputs(self, rig):
        rig.raised()
        pod, app = rig.heard.records
        assert rig.heard.said() == [("pod.limit", "quota_burst"), ("container.update", "quota_burst")]
        assert (pod.pod, pod.container, pod.before, pod.after) == (
            "web", "", {"quota": 100_000}, {"quota": 120_000},
        )  # fmt: skip
        assert pod.extra["inputs"] == {"raised_by": 20_000, "containers": 1}
        assert (app.container, app.before, app.after) == ("app", {"quota": 100_000}, {"quota": 120_000})
        assert pod.decision_id == app.decision_id
        figures = {"node": "idle", "own_quota": 100_000, "used_milli": 1000, "held_back": 0.5}
        assert figures.items() <= app.extra["inputs"].items()

    def test_raise_that_waits_for_its_pod_names_both_quotas(self, rig):
        rig.files.highest = 110_000
        rig.raised()
        app = rig.heard.records[-1]
        assert app.after == {"quota": 110_000}
        assert (
            app.because
            == "quota raised to its pod's: the pod's rises first (quota=110000, wanted_quota=120000)"
        )

    def test_it_is_counted_as_other_decisions_are(self, rig):
        rig.raised()
        counted = 'decisions_total{event="container.update",reason="quota_burst"} 1.0'
        assert counted in rig.report.metrics.render().decode()

    def test_a_quota_that_stays_is_not_told_again(self, rig):
        rig.raised()
        rig.heard.records.clear()
        rig.files.writes = 0
        for _ in range(3):
            rig.pass_by(held=0.0)
        assert rig.heard.records == []

    def test_every_step_of_the_return_is_told(self, rig):
        rig.raised()
        rig.pass_by()
        rig.heard.records.clear()
        rig.headroom = Headroom(100, 0, 7900, Binding.ONLINE_USE, 8000)
        for _ in range(5):
            rig.pass_by(1400, held=0.0)
        told = [(one.before["quota"], one.after["quota"]) for one in rig.heard.records if one.container]
        assert told == [(144_000, 115_200), (115_200, QUOTA)]
        assert rig.heard.records[-1].extra["inputs"]["node"] == "overload"

    def test_what_the_kernel_refused_is_not_told_as_done(self, rig):
        rig.files.refuses_quotas = True
        rig.raised()
        assert rig.heard.records == []

    def test_a_value_accepted_later_is_recorded_as_ours(self, rig, monkeypatch):
        monkeypatch.setattr(drift, "FIRST_PAUSE_S", 0.0)
        rig.raised()
        rig.files.refuses_quotas, rig.files.failures = True, (BUSY,)
        rig.headroom = Headroom(100, 0, 7900, Binding.ONLINE_USE, 8000)
        rig.pass_by(1400, held=0.0)
        rig.heard.records.clear()
        rig.files.refuses_quotas, rig.files.failures = False, ()
        rig.bandwidths.sweep()
        assert {one.reason for one in rig.heard.records} == {"quota_burst"}

    @pytest.mark.parametrize(
        ("end", "own"),
        [
            (lambda rig: rig.bursts.end(), 100_000),
            (switched_off, 100_000),
            (lambda rig: rig.resize(110_000), 110_000),
        ],
        ids=["the daemon ends", "switched off", "resized"],
    )
    def test_whatever_ends_a_raise_is_told(self, rig, end, own):
        rig.raised()
        end(rig)
        assert rig.heard.records[-1].extra["inputs"]["own_quota"] == own

    def test_what_a_former_life_left_is_told_when_it_goes_back(self):
        rig = Rig(Tuning())
        rig.files.left, rig.files.quotas = {APP}, {APP: 200_000}
        rig.pass_by()
        (app,) = rig.heard.records
        assert (app.before, app.after) == ({"quota": 200_000}, {"quota": QUOTA})

    @pytest.mark.parametrize(
        ("left", "event", "reason"),
        [
            (200_000, "container.update", "quota_burst"),
            (40_000, "pressure.recover", "unwatched"),
        ],
        ids=["raised", "lowered"],
    )
    def test_a_left_quota_is_recorded_as_what_it_was(self, left, event, reason):
        rig = Rig(Tuning())
        rig.files.left, rig.files.quotas = {APP}, {APP: left}
        rig.pass_by()
        (app,) = rig.heard.records
        assert (app.event, app.reason, app.after) == (event, reason, {"quota": QUOTA})

    def test_a_container_that_is_gone_meanwhile_is_not_told_of(self, rig):
        rig.pass_by()
        rig.files.meanwhile = lambda: rig.node.decide(ContainerGone("app"))
        rig.pass_by()
        assert [one.container for one in rig.heard.records] == [""]
