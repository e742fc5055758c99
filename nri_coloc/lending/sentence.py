"""Word the cause of one tick's size of the reclaim pool, and list every figure that decided it.

The size can be derived again from `inputs`. The words name the binding term and the figures that operators ask for. A
tick keeps only the figures. They become words when a record is written: once a second at most, of fifty ticks.
"""

from collections.abc import Mapping
from math import isfinite
from types import MappingProxyType
from typing import Final, NamedTuple

from nri_coloc.core.figures import shown
from nri_coloc.core.lending import Binding
from nri_coloc.core.settings import ReclaimTuning
from nri_coloc.lending.headroom import dead_band_milli, step_milli
from nri_coloc.lending.pool_size import Lent, Scene, Verdict

Input = int | float | str | None


class Grounds(NamedTuple):
    """All inputs and the result of one tick."""

    before: Lent
    verdict: Verdict
    scene: Scene
    tuning: ReclaimTuning


def because(grounds: Grounds | None) -> str:
    """Return `resize: <cause> (figures)`, 160 characters at most; None means that lending is disabled."""
    if grounds is None:
        return "resize: lending is disabled, the reclaim pool has all CPUs of share"
    cpus = f"cpus {grounds.before.box} → {grounds.verdict.lent.box}"
    return f"resize: {cause(grounds)} ({figures(grounds)}, {cpus})"


def figures(grounds: Grounds) -> str:
    """Return the figures that operators ask for first."""
    found = {"online_milli": grounds.scene.online, "lendable_cpus": grounds.scene.lendable}
    lend = (shown("lend", grounds.tuning.lend),) if grounds.tuning.lend < 1 else ()
    return ", ".join([*_stall(grounds), *(shown(name, value) for name, value in found.items()), *lend])


def inputs(grounds: Grounds | None) -> Mapping[str, Input]:
    """Return every figure by name; milli-CPU, times in seconds, None for never."""
    if grounds is None:
        return {}
    before, verdict, scene, tuning = grounds
    after, stall = verdict.lent, scene.stall
    return {
        "binding": verdict.binding.value,
        "lendable_cpus": scene.lendable,
        "threads_per_core": scene.threads,
        "max_cpus": scene.most,
        "online_milli": scene.online,
        "system_milli": scene.system,
        "peak_milli": scene.peak,
        "rise_milli": scene.rise,
        "watermark": tuning.watermark,
        "reserve_milli": tuning.reserve_milli,
        "lend": tuning.lend,
        "lend_before": before.lend,
        "left_milli": verdict.now_milli,
        "left_by_peak_milli": verdict.peak_milli,
        "before_milli": before.milli,
        "before_cpus": before.box,
        "after_milli": after.milli,
        "after_cpus": after.box,
        "more_cpus": after.more.cpus,
        "step_milli": step_milli(scene.lendable, tuning),
        "dead_band_milli": dead_band_milli(scene.lendable, tuning),
        "whole_core_from": tuning.whole_core_from,
        "yields": scene.yields,
        "equal_pod": scene.equal,
        "extra_core_back_s": _seconds(after.more.back_at - scene.now)
        if after.more.back_at > scene.now
        else 0.0,
        "yielded_from": tuning.yielded_from,
        "cut": tuning.cut,
        "pause": tuning.paused,
        "stall": stall.blamed,
        "lasting_stall": stall.lasting,
        "own_stall": stall.own,
        "stall_signal": stall.signal.value,
        "stall_bound": tuning.stall / 2 if scene.yields else tuning.stall,
        "dwell_s": _seconds(scene.dwell_s),
        "step_s": _seconds(before.step_s(tuning)),
        "cut_ago_s": _seconds(scene.now - before.cut_at),
        "grown_ago_s": _seconds(scene.now - before.grown_at),
        "known_for_s": _seconds(scene.now - scene.known_since),
        "rate_age_s": _seconds(scene.age_s),
        "late_s": _seconds(scene.late_s),
        "period_s": _seconds(scene.period_s),
        "stale_s": tuning.stale_s,
    }


def _seconds(span: float) -> float | None:
    return round(span, 6) if isfinite(span) else None


_CAUSES: Final[Mapping[Binding, str]] = MappingProxyType(
    {
        Binding.PAUSED: "an operator paused lending",
        Binding.STALL: "online pods stalled",
        Binding.DWELL: "the last suppression is too recent to grow",
        Binding.GROWTH_STEP: "online use fell, one step",
        Binding.DEAD_BAND: "online use moved within the dead band",
        Binding.ALL_LENT: "online use is low, all is lent",
        Binding.FLOOR: "online use leaves only the floor",
        Binding.SCHEDULE: "the lent part fell",
    }
)


def cause(grounds: Grounds) -> str:
    """Return the term that decided the size, and the change of the extra core."""
    return f"{_bound(grounds)}{_extra_core(grounds)}"


def _bound(grounds: Grounds) -> str:
    before, verdict, scene, tuning = grounds
    binding = verdict.binding
    if before.lend < tuning.lend and binding in (Binding.ONLINE_USE, Binding.GROWTH_STEP):
        return "the lent part rose, one step"
    if binding is Binding.FLOOR and tuning.lend < 1 and verdict.unused_milli >= 1000:
        return "the lent part leaves only the floor"
    if binding is Binding.ONLINE_USE:
        return "online use rose" if verdict.lent.milli < before.milli else "online use fell"
    if binding is Binding.LEARNING:
        kept = "kept as found" if scene.now < scene.learns_until else "the floor"
        return f"use is not known yet, {kept}"
    if binding is Binding.STALE:
        far = scene.age_s > tuning.stale_s
        return f"readings are {min(scene.age_s, 999):.2f} s old, {'the floor' if far else 'no growth'}"
    if binding is Binding.LATE:
        far = scene.late_s > tuning.stale_s
        return f"the tick was {min(scene.late_s, 999):.2f} s late, {'the floor' if far else 'no growth'}"
    return _CAUSES.get(binding, binding.value)


def _extra_core(grounds: Grounds) -> str:
    had, has = grounds.before.more.cpus, grounds.verdict.lent.more.cpus
    if had == has:
        return ""
    return ", extra core granted" if has > had else ", extra core taken back"


def _stall(grounds: Grounds) -> tuple[str, ...]:
    """Return the stall that was judged, share of wall time. Behind tasks that yield only a lasting stall counts."""
    if grounds.verdict.binding is not Binding.STALL:
        return ()
    stall = grounds.scene.stall
    judged = ("lasting_stall", stall.lasting) if grounds.scene.yields else ("stall", stall.blamed)
    return (shown(*judged),)
