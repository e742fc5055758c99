"""The audit's words for a folded record of the fast loop: a sentence of 160 characters, and every figure by name."""

from collections.abc import Mapping

from nri_coloc.model.lending import Change
from nri_coloc.reclaim import sentence
from nri_coloc.reclaim.folding import SWINGS_FROM, Record
from nri_coloc.reclaim.sentence import Input


def because(record: Record) -> str:
    """Return `<what was done>: <cause> (figures)`; a swing is named as such, with its extremes."""
    cpus = f"cpus {record.before.bit_count()} → {record.after.bit_count()}"
    if record.turns >= SWINGS_FROM:
        done = f"swing: {record.turns} turns in {record.at - record.since:.0f} s"
        cpus = f"between {record.cpus.low} and {record.cpus.high}, {cpus}"
    else:
        done = "suppress" if record.direction is Change.SUPPRESS else "grow"
    if record.grounds is None:
        return f"{done}: lending is disabled ({cpus})"
    return f"{done}: {sentence.cause(record.grounds)} ({sentence.figures(record.grounds)}, {cpus})"


def inputs(record: Record) -> Mapping[str, Input]:
    """Return every figure of the tick that changed the size last, and the extremes of the record's time."""
    return {
        **sentence.inputs(record.grounds),
        "span_s": round(record.at - record.since, 3),
        "ticks": record.ticks,
        "turns": record.turns,
        "cpus_before": record.before.bit_count(),
        "cpus_after": record.after.bit_count(),
        "cpus_low": record.cpus.low,
        "cpus_high": record.cpus.high,
        "online_low_milli": record.online.low,
        "online_high_milli": record.online.high,
        "headroom_low_milli": record.headroom.low,
        "headroom_high_milli": record.headroom.high,
        "worst_stall": round(record.stall, 4),
        "worst_own_stall": round(record.own_stall, 4),
    }
