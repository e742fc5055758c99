"""The real daemon that shows when it has a baseline for a busy pod, and learns one from three readings.

Run instead of `python -m nri_coloc`. The first argument is a file that appears when the daemon first compares the CPU
stall of a pod that uses CPU with a baseline of calm readings: one long wait at the pod's start lets three readings
allow any wait beside busy loops. No state or metric of the product shows a baseline, and a test that
waits for seconds fails if the machine is busy. The product learns from ten readings, one a second.

The second argument is a file, too. While it is missing, a degraded container stays degraded for ten minutes; the
product's time is one. From the first calm turn after the test makes it, the time of degrading is an hour later.

It comes before other work of the machine, as the weight of all pods does in such a test: beside that weight and a busy
test run a daemon of the usual weight would read too seldom.
"""

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from nri_coloc.cli import main
from nri_coloc.core.settings import PressureTuning
from nri_coloc.pressure import judging, verdict
from nri_coloc.pressure.actions import degrade_cpu
from nri_coloc.pressure.actions.degrade_cpu import Course, Pool, Step
from nri_coloc.pressure.judging import Judged, Seen, Watch, Watched
from nri_coloc.pressure.verdict import Resource
from tests.rig.patient_daemon import be_patient

FIRST: Final = "-20"
"""The highest priority (sched(7), "The nice value", "The autogroup feature")."""

ENOUGH: Final = 3
CALM: Final = 0.1
"""The longest wait that a calm baseline allows, part of the time. Beside busy loops the pod waits twice as long."""

LASTS_S: Final = 600.0
LATER_S: Final = 3600.0

_turn: Final = judging.turn
_degrading: Final = degrade_cpu.turn


def program(learned: Path, later: Path) -> tuple[str, ...]:
    """Return the arguments that run it."""
    return ("-m", "tests.rig.judging_daemon", str(learned), str(later))


def showing(learned: Path) -> Callable[[Watch, Seen, PressureTuning], Judged]:
    """Return the replacement of `judging.turn`, which makes the file."""

    def turn(before: Watch, seen: Seen, tuning: PressureTuning) -> Judged:
        judged = _turn(before, seen, tuning)
        if any(map(_is_compared, judged.watch.values())):
            learned.touch()
        return judged

    return turn


def skipping(later: Path) -> Callable[[Course, Mapping[str, Pool], float], tuple[Course, tuple[Step, ...]]]:
    """Return the replacement of `degrade_cpu.turn`, which skips an hour."""
    skipped_s = 0.0

    def turn(before: Course, pools: Mapping[str, Pool], now: float) -> tuple[Course, tuple[Step, ...]]:
        nonlocal skipped_s
        if later.exists() and not any(pool.hurt for pool in pools.values()):
            skipped_s = LATER_S
        return _degrading(before, pools, now + skipped_s)

    return turn


def come_first() -> None:
    """Give this process the highest priority, where the kernel weighs sessions too."""
    os.nice(int(FIRST))
    weighed = Path("/proc/self/autogroup")
    if weighed.exists():
        os.setsid()
        weighed.write_text(FIRST)


def _is_compared(pod: Watched) -> bool:
    """Return whether a pod uses CPU and its stall was compared with a calm baseline."""
    felt = pod.felt.get(Resource.CPU)
    return (
        felt is not None
        and felt.strain is not None
        and felt.strain.cpu > 0
        and felt.judgement.hurt is not None
        and (felt.judgement.bound or 0.0) <= CALM
    )


if __name__ == "__main__":
    be_patient()
    come_first()
    setattr(verdict, "ENOUGH", ENOUGH)  # noqa: B010 - only in this program
    setattr(judging, "turn", showing(Path(sys.argv[1])))  # noqa: B010 - likewise
    setattr(degrade_cpu, "LASTS_S", LASTS_S)  # noqa: B010 - likewise
    setattr(degrade_cpu, "turn", skipping(Path(sys.argv[2])))  # noqa: B010 - likewise
    sys.exit(main.main(sys.argv[3:], os.environ))
