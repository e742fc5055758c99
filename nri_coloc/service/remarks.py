"""Name the settings that an operator probably did not mean, for `check-config`, the record of a reload, and
`/v1/state`, of which `doctor` warns."""

from collections.abc import Iterator

from nri_coloc.core.settings import Settings
from nri_coloc.pressure import disk_space
from nri_coloc.schedule import remarks as of_schedule


def remarks(settings: Settings) -> tuple[str, ...]:
    """Return one sentence with the remedy for each of them."""
    return (*of_schedule.remarks(settings.schedule), *_of_pressure(settings))


def _of_pressure(settings: Settings) -> Iterator[str]:
    """Yield the switches that wait for another switch, and a line of disks that the kubelet cannot reach."""
    pressure, kubernetes = settings.tuning.pressure, settings.kubernetes
    missing = (
        *(() if kubernetes.report else ("kubernetes.report: status",)),
        *(() if kubernetes.evict else ("kubernetes.evict: true",)),
    )
    if pressure.evict and missing:
        yield f"pressure.evict evicts no pod without {' and '.join(missing)}; set that, or pressure.evict: false"
    if pressure.degrade and not pressure.cpu.judges:
        yield "pressure.degrade has no effect with pressure.cpu.action: off; set report, or pressure.degrade: false"
    of_disks = disk_space.remark(pressure.disk)
    if of_disks:
        yield of_disks
