"""The audit's `because` of the fast loop: the term that bound, and every figure that decided, so that a reader can do
the sum again. The same figures by name, for programs, are the record's `inputs`.

A tick leaves the figures only; they become words when somebody records them, once a second at most of fifty ticks.
"""

from collections.abc import Mapping
from math import isfinite
from typing import NamedTuple

from nri_coloc.model.lending import Binding
from nri_coloc.model.tuning import ReclaimTuning
from nri_coloc.reclaim.headroom import at_most, dead_band_milli, step_milli
from nri_coloc.reclaim.verdict import Lent, Scene, Verdict

Input = int | float | str | None


class Grounds(NamedTuple):
    """All that decided one tick."""

    before: Lent
    verdict: Verdict
    scene: Scene
    tuning: ReclaimTuning


def because(grounds: Grounds | None) -> str:
    """Say how the box came to its size; None is lending disabled. Amounts are milli-CPU (`m`)."""
    if grounds is None:
        return "lending is disabled: the box has all CPUs of share"
    return f"{grounds.verdict.binding}: {_terms(grounds)}"


def inputs(grounds: Grounds | None) -> Mapping[str, Input]:
    """Return by name what the sentence words, in the same units; times in seconds, None for never."""
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


def _terms(grounds: Grounds) -> str:
    before, verdict, scene, tuning = grounds
    after, binding = verdict.lent, verdict.binding
    cpus = f"{after.cpus} of {scene.lendable} CPUs after {before.cpus}"
    if binding is Binding.PAUSED:
        return f"{tuning.paused}: the floor, {cpus}"
    if binding is Binding.LEARNING:
        kept = "as it was found" if scene.now < scene.learns_until else "the floor"
        return f"no rate yet, it takes two readings: {kept}, {cpus}"
    if binding is Binding.STALE and scene.age_s > tuning.stale_s:
        return f"last rate {scene.age_s:.2f} s old, more than {tuning.stale_s} s: the floor, {cpus}"
    if binding is Binding.LATE and scene.late_s > tuning.stale_s:
        return f"tick {scene.late_s:.2f} s late, more than {tuning.stale_s} s: the floor, {cpus}"
    step, band = step_milli(scene.lendable, tuning), dead_band_milli(scene.lendable, tuning)
    return (
        f"{_cause(grounds)}{scene.lendable} CPUs x {tuning.watermark} - online {scene.online}m"
        f" - system {scene.system}m - reserve {tuning.reserve_milli}m leaves {verdict.now_milli}m, the peak of"
        f" {scene.dwell_s} s ({scene.peak}m) leaves {verdict.peak_milli}m; lent {after.milli}m after {before.milli}m"
        f" (step {step}m, dead band {band}m): {cpus}, in cores of {scene.threads} from {tuning.whole_core_from} on"
        f"{_more(grounds)}{_bounded(after, scene.most)}"
    )


def _gives_way(grounds: Grounds) -> str:
    if grounds.before.more.cpus:
        return f"the core more away for {grounds.verdict.lent.more.relief_s} s"
    return f"cut to {grounds.tuning.cut}"


def _more(grounds: Grounds) -> str:
    """Return what a box of tasks that yield has beyond the sum."""
    _, verdict, scene, tuning = grounds
    if scene.equal:
        return f"; none more: {scene.equal} weighs as little as the box"
    if not scene.yields:
        return ""
    more, part = verdict.lent.more, tuning.yielded_from
    if more.cpus:
        return f"; its tasks yield and {part} of a core is left: {more.cpus} more, {verdict.lent.box} in all"
    if more.back_at > scene.now:
        return f"; none more for {more.back_at - scene.now:.2f} s, use rose by {scene.rise}m"
    return f"; its tasks yield, none more without {part} of a core and the dead band"


def _bounded(after: Lent, most: int) -> str:
    """Return what an operator lets the box have, where that is less."""
    if not most or max(after.milli, 1000 * after.box) <= 1000 * most:
        return ""
    return f"; pools.reclaim.maxCPUs lets it have {most} CPUs and {at_most(after.milli, most)}m of that"


def _cause(grounds: Grounds) -> str:
    """Return what the sum alone does not show."""
    before, verdict, scene, tuning = grounds
    if verdict.binding is Binding.STALL:
        stall = scene.stall
        waited, most = (stall.lasting, tuning.stall / 2) if scene.yields else (stall.blamed, tuning.stall)
        over = f" over {tuning.lasting_window_s} s" if scene.yields else ""
        return (
            f"online pods waited {waited:.3f} of the time{over} beyond {stall.own:.3f} of their own making"
            f" ({stall.signal}), more than {most}: {_gives_way(grounds)}; "
        )
    if verdict.binding is Binding.LATE:
        return f"tick {scene.late_s:.3f} s late for {scene.period_s} s: no growth; "
    if verdict.binding is Binding.STALE:
        return f"no new rate, the last is {scene.age_s:.3f} s old: no growth; "
    if verdict.binding is Binding.GROWTH_STEP and verdict.lent.grown_at < scene.now:
        return f"last growth {scene.now - before.grown_at:.2f} s ago, a step every {before.step_s(tuning):.2f} s; "
    if verdict.binding is Binding.DWELL:
        return (
            f"last cut {min(scene.now - before.cut_at, 999):.2f} s ago, use known for"
            f" {scene.now - scene.known_since:.2f} s, dwell {scene.dwell_s} s; "
        )
    return ""
