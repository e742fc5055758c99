"""The audit's `because` of the fast loop: every figure that decided, so that a reader can do the sum again.

A tick leaves the figures only; they become words when somebody records them, once a second at most of fifty ticks.
"""

from typing import NamedTuple

from nri_coloc.model.lending import Binding
from nri_coloc.model.tuning import ReclaimTuning
from nri_coloc.reclaim.headroom import at_most, dead_band_milli, step_milli
from nri_coloc.reclaim.verdict import Lent, Scene, Verdict


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
    if verdict.binding is Binding.DWELL:
        return (
            f"last cut {min(scene.now - before.cut_at, 999):.2f} s ago, use known for"
            f" {scene.now - scene.known_since:.2f} s, dwell {scene.dwell_s} s; "
        )
    return ""
