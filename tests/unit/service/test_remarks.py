"""service/remarks.py: remarks of all rooms on the settings of one file."""

import pytest

from nri_coloc.core.settings import (
    ClassTuning,
    DiskTuning,
    KubernetesSettings,
    PoolTuning,
    PressureTuning,
    RungTuning,
    ScheduleTuning,
    Settings,
    Tuning,
    WindowTuning,
)
from nri_coloc.core.workload import QoSClass
from nri_coloc.service.remarks import on_machine, remarks
from tests.unit.placing.kit import machine

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


GROUPED = PoolTuning("jobs", minimum=9, group_by="namespace")
GOLD, ETL = PoolTuning("gold", minimum=6), PoolTuning("etl", minimum=3)


@pytest.mark.parametrize(
    ("tuning", "said"),
    [
        (
            Tuning(reserved=1 << 99),
            "node.reservedCPUs reserves no CPU: CPUs 99 are not online",
        ),
        (Tuning(reserved=1 << 99 | 1), "node.reservedCPUs reserves only the others: CPUs 99 are not online"),
        (
            Tuning(reserved_memory=1 << 60),
            "node.reservedMemory leaves no memory to lend",
        ),
        (
            Tuning(classes={QoSClass.DEDICATED: ClassTuning(min_request=8001)}),
            "classes.dedicated.minRequest is 8.001: no pod can have class dedicated, pods may use 8 CPUs here;",
        ),
        (
            Tuning(classes={QoSClass.SHARED: ClassTuning(memory_min="64Gi")}),
            "classes.shared.memoryMin is 64 GiB: this machine has 32 GiB;",
        ),
        (Tuning(pools=(GOLD, ETL)), "pools.gold.minCPUs 6 + pools.etl.minCPUs 3: pods may use 8 CPUs here"),
        (Tuning(pools=(GOLD, GROUPED)), "pools.jobs.minCPUs 9: pods may use 8 CPUs here"),
    ],
    ids=["no reserve", "a smaller reserve", "memory", "class", "class memory", "pools", "a group"],
)
def test_what_the_machine_lacks_is_named(tuning, said):
    (remark,) = on_machine(Settings(tuning=tuning), machine())
    assert remark.startswith(said)
    assert remark.rpartition("; ")[2].startswith(("set ", "name "))


@pytest.mark.parametrize(
    "tuning",
    [
        Tuning(),
        Tuning(reserved=0b11, reserved_memory=1 << 30, pools=(GOLD,)),
        Tuning(classes={QoSClass.SHARED: ClassTuning(memory_high="100%", memory_low="1Gi")}),
    ],
    ids=["none", "some", "class memory"],
)
def test_settings_within_the_machine_have_no_remark(tuning):
    assert on_machine(Settings(tuning=tuning), machine()) == ()
