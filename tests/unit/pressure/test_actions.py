"""pressure.actions: each action has its row in docs/pressure.md, and sentences fit the audit."""

from pathlib import Path

import pytest

from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.core.workload import QoSClass
from nri_coloc.pressure import words
from nri_coloc.pressure.action import Action, Cause, Place
from nri_coloc.pressure.actions import ACTIONS, degrade_cpu
from nri_coloc.pressure.ladder import Move, Step, Throttle
from nri_coloc.pressure.verdict import Resource
from tests.unit.pressure.kit import Bench
from tests.unit.pressure.test_judging import DISK_HOG, IDLE, READER, SLOWED

DOC = (Path(__file__).parents[3] / "docs" / "pressure.md").read_text()
LONG = "n" * 63 + "/" + "p" * 253
MIB = 1 << 20


@pytest.mark.parametrize("action", ACTIONS.values(), ids=lambda action: action.name)
def test_the_row_is_documented(action: Action):
    row = action.row
    assert f"| `{action.name}` | `{action.resource}` | {row.when} | {row.does} | {row.undone} |" in DOC


@pytest.mark.parametrize(
    "reason",
    ["cpu_stall", "memory_stall", "io_stall", "calm", "no_relief", "unwatched", "reconfigured"],
)
def test_each_reason_has_a_next_step(reason: str):
    assert f"| `{reason}` | " in DOC.split("## What to do")[1]


def test_a_verdict_tells_culprit_and_figures():
    node = Bench()
    node.seconds(20, {"web": READER}, {"hog": IDLE})
    (verdict,) = node.seconds(2, {"web": SLOWED}, {"hog": DISK_HOG})
    said = words.of_verdict(verdict, QoSClass.SHARED, {"hog": LONG, "web": LONG}, "none in mode observe")
    assert said.event is AuditEvent.PRESSURE_VERDICT
    assert said.reason is Reason.IO_STALL
    assert len(said.because) <= 160
    figures = said.inputs or {}
    assert figures["hurt_readings"] == 2
    spread, margin = figures["spread"], figures["margin"]
    assert isinstance(spread, float)
    assert isinstance(margin, float)
    baseline = float(figures["baseline"] or 0)
    assert figures["bound"] == pytest.approx(max(1.5 * baseline + 3 * spread, baseline + margin))
    assert figures[f"{LONG}.hurt_use"] == pytest.approx(400 * MIB + 6400 * 16 * 1024, rel=0.01)


@pytest.mark.parametrize(
    ("move", "cause", "before", "limit", "event"),
    [
        (Move.THROTTLE, Cause.HURT, None, 5.0 * MIB, AuditEvent.PRESSURE_THROTTLE),
        (Move.EASE, Cause.CALM, 5.0 * MIB, 10.0 * MIB, AuditEvent.PRESSURE_RECOVER),
        (Move.FREE, Cause.NO_RELIEF, 5.0 * MIB, None, AuditEvent.PRESSURE_RECOVER),
        (Move.FREE, Cause.NOT_ALLOWED, 5.0 * MIB, None, AuditEvent.PRESSURE_RECOVER),
    ],
)
def test_a_step_is_told(
    move: Move, cause: Cause, before: float | None, limit: float | None, event: AuditEvent
):
    throttle = Throttle(5.0 * MIB, 10.0 * MIB, frozenset({"web"}), 0.0, 30.0)
    step = Step(
        move=move,
        cause=cause,
        pod_id="hog",
        resource=Resource.IO,
        before=before,
        limit=limit,
        throttle=throttle,
    )
    said = words.of_step(step, ACTIONS[Resource.IO], Place("p", (), ("8:0",)), {"web": LONG, "hog": LONG})
    assert said.event is event
    assert len(said.because) <= 160
    assert said.after.io_max == ("max" if limit is None else f"8:0={int(limit)}")


def degrading(cause: Cause, limit: float | None, pool: str = "p" * 63) -> degrade_cpu.Step:
    return degrade_cpu.Step(
        cause=cause,
        container_id="app",
        member=degrade_cpu.Member("hog", 12_345.0, 1000.0),
        before=None if limit else 6500.0,
        limit=limit,
        lasts_s=60.0,
        pool=pool,
        pool_cpu_milli=16_000.0,
    )


@pytest.mark.parametrize("pool", ["share", "p" * 63])
def test_a_long_name_keeps_the_new_limit(pool: str):
    said = words.of_degrading(degrading(Cause.HURT, 6500.0, pool), [LONG, LONG])
    assert len(said.because) <= 160
    assert "(limit=6.5 cores, " in said.because
    assert (said.inputs or {})["pool"] == pool


def test_one_core_is_no_plural():
    said = words.of_degrading(degrading(Cause.HURT, 1000.0, "share"), ["shop/web"])
    assert said.because == (
        "quota lowered: CPU stall of shop/web in pool share (limit=1 core, use=12.35 cores, request=1 core)"
    )


@pytest.mark.parametrize("cause", [Cause.CALM, Cause.NO_RELIEF, Cause.NOT_ALLOWED])
def test_a_restored_quota_names_the_former_limit(cause: Cause):
    said = words.of_degrading(degrading(cause, None), [])
    assert said.event is AuditEvent.PRESSURE_RECOVER
    assert said.because.endswith(" (limit_before=6.5 cores, use=12.35 cores)")
    assert len(said.because) <= 160
