"""service/remarks.py: remarks of all rooms on the settings of one file."""

import pytest

from nri_coloc.core.settings import (
    DiskTuning,
    KubernetesSettings,
    PressureTuning,
    RungTuning,
    ScheduleTuning,
    Settings,
    Tuning,
    WindowTuning,
)
from nri_coloc.service.remarks import remarks

ALWAYS = WindowTuning(days=frozenset(range(7)), opens=0, closes=0)


def test_usual_settings_have_no_remark():
    assert remarks(Settings()) == ()


def test_a_window_and_a_disk_line_have_a_remark_each():
    settings = Settings(
        schedule=ScheduleTuning(windows=(ALWAYS,)),
        tuning=Tuning(pressure=PressureTuning(disk=DiskTuning(closes=True, above=0.04))),
    )
    window, disk = remarks(settings)
    assert window.startswith("schedule.windows[0] changes nothing")
    assert disk.startswith("pressure.disk is 4: a node that was closed may stay closed")


def pressed(pressure: PressureTuning, *, report: bool = False, evict: bool = False) -> Settings:
    kubernetes = KubernetesSettings(report=report, evict=evict)
    return Settings(tuning=Tuning(pressure=pressure), kubernetes=kubernetes)


@pytest.mark.parametrize(
    ("report", "evict", "missing"),
    [
        (False, False, "kubernetes.report: status and kubernetes.evict: true;"),
        (False, True, "kubernetes.report: status;"),
        (True, False, "kubernetes.evict: true;"),
    ],
)
def test_evictions_need_two_more_settings(report, evict, missing):
    (said,) = remarks(pressed(PressureTuning(evict=True), report=report, evict=evict))
    assert f"evicts no pod without {missing}" in said


def test_evictions_with_all_settings_have_no_remark():
    assert remarks(pressed(PressureTuning(evict=True), report=True, evict=True)) == ()


def test_degrading_needs_verdicts_on_cpu():
    (said,) = remarks(pressed(PressureTuning(degrade=True, cpu=RungTuning(judges=False))))
    assert said.startswith("pressure.degrade has no effect with pressure.cpu.action: off")


def test_degrading_with_verdicts_has_no_remark():
    assert remarks(pressed(PressureTuning(degrade=True))) == ()
