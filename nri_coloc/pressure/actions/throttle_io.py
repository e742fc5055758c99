"""Throttle a reclaimed pod's I/O on the disks of an online pod that waits for them.

cgroup v2: `io.max` of the pod's cgroup, which holds for everything below it. cgroup v1: `blkio.throttle` of each of its
containers, because a v1 limit does not hold for cgroups below; the containers share the limit equally. On v1 buffered
writes belong to the root cgroup, so the limit reaches reads and direct writes only.
"""

from typing import Final

from nri_coloc.core.knobs import Knobs
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host.knob_files import Applied, Correction
from nri_coloc.pressure.action import Action, Files, Place, Row
from nri_coloc.pressure.verdict import Resource

LEAST: Final = float(1 << 20)
"""Bytes a second: the floor. With requests of 4 KiB it leaves 256 operations a second, 0.5 % of a modest SSD."""

MIB: Final = 1 << 20


def _is_possible(place: Place) -> bool:
    return bool(place.devices)


def _act(files: Files, place: Place, limit: float) -> Applied:
    corrected: tuple[Correction, ...] = ()
    failures: tuple[KernelInterfaceError, ...] = ()
    absent: tuple[str, ...] = ()
    paths = _paths(files, place)
    for path in paths:
        applied = files.limit_io(path, place.devices, _whole(limit / len(paths)))
        corrected += applied.corrected
        failures += applied.failures
        absent += applied.absent
    return Applied(corrected=corrected, failures=failures, absent=absent)


def _undo(files: Files, place: Place) -> tuple[KernelInterfaceError, ...]:
    return tuple(failure for path in _paths(files, place) for failure in files.unlimit_io(path))


def _paths(files: Files, place: Place) -> tuple[str, ...]:
    return (place.pod,) if files.version == 2 else place.containers


def _left(files: Files) -> set[str]:
    return files.io_limited()


def _shown(place: Place, limit: float | None) -> Knobs:
    if limit is None:
        return Knobs(io_max="max")
    return Knobs(io_max=" ".join(f"{device}={_whole(limit)}" for device in place.devices))


def _whole(limit: float) -> int:
    """Return whole KiB, at least one."""
    return max(1024, int(limit) // 1024 * 1024)


def _words(limit: float) -> str:
    return f"{limit / MIB:.1f} MiB/s"


ACTION: Final = Action(
    name="throttle_io",
    resource=Resource.IO,
    knob="io.max",
    least=LEAST,
    is_possible=_is_possible,
    act=_act,
    undo=_undo,
    left=_left,
    shown=_shown,
    words=_words,
    row=Row(
        when="an online pod waits longer for each I/O operation than its baseline, and the reclaimed pod uses the same "
        "disk",
        does="`io.max` (v1: `blkio.throttle` of its containers): half of its use, halved again while the stall lasts, "
        "1 MiB/s at the least",
        undone="doubled after each `down` calm readings once `hold` is over, then removed; halved again at one hurt "
        "reading after that; removed at once when the floor gives no pod relief",
    ),
)
