"""Name the settings that an operator probably did not mean, for `check-config`, the record of a reload, and
`/v1/state`, of which `doctor` warns."""

from nri_coloc.core.settings import Settings
from nri_coloc.pressure import disk_space
from nri_coloc.schedule import remarks as of_schedule


def remarks(settings: Settings) -> tuple[str, ...]:
    """Return one sentence with the remedy for each of them."""
    of_disks = disk_space.remark(settings.tuning.pressure.disk)
    return (*of_schedule.remarks(settings.schedule), *((of_disks,) if of_disks else ()))
