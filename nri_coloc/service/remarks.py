"""Name the settings that an operator probably did not mean, for `check-config`, the record of a reload, and
`/v1/state`, of which `doctor` warns.

`check-config` does not know the machine. What the machine lacks is named by the daemon alone.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from nri_coloc.core import cpuset
from nri_coloc.core.report import size
from nri_coloc.core.settings import ClassTuning, Settings, Tuning
from nri_coloc.core.state import RECLAIM
from nri_coloc.core.topology import Topology
from nri_coloc.core.workload import QoSClass
from nri_coloc.pods import quantity
from nri_coloc.pressure import disk_space
from nri_coloc.schedule import remarks as of_schedule

_NO_GROUP: Final = (
    "there is no such cgroup, so nothing of it is limited; it will be once it exists; name a path as "
    "/proc/<pid>/cgroup shows it"
)


def remarks(settings: Settings) -> tuple[str, ...]:
    """Return one sentence with the remedy for each of them."""
    return (*of_schedule.remarks(settings.schedule), *_of_pressure(settings))


def on_machine(settings: Settings, topology: Topology, missing_groups: Iterable[str] = ()) -> tuple[str, ...]:
    """Return one sentence with the key and the remedy for each setting that names more than the machine has.

    missing_groups: paths of host groups that do not exist.
    """
    tuning = settings.tuning
    return (
        *_of_reserve(tuning, topology),
        *_of_sizes(tuning, topology),
        *_of_memory(tuning, topology),
        *(f"reclaim.members names {path}: {_NO_GROUP}" for path in missing_groups),
    )


def _of_reserve(tuning: Tuning, topology: Topology) -> Iterator[str]:
    here = cpuset.render(topology.machine)
    if absent := tuning.reserved & ~topology.machine:
        reserves = "reserves only the others" if tuning.reserved & topology.machine else "reserves no CPU"
        yield (
            f"node.reservedCPUs {reserves}: CPUs {cpuset.render(absent)} are not online, this machine has CPUs {here}; "
            "name CPUs of this machine, or a count such as 2"
        )
    has = topology.memory_bytes
    if has and tuning.reserved_memory >= has:
        amounts = f"{size(tuning.reserved_memory)} are reserved of {size(has)}"
        yield f"node.reservedMemory leaves no memory to lend: {amounts}; set less than this machine has"


def _of_sizes(tuning: Tuning, topology: Topology) -> Iterator[str]:
    """Yield the sizes that no pod and no pool can reach, because pods may use fewer CPUs.

    Groups come with their members, and the reclaim pool's CPUs lie in `share`: these minima count one by one.
    """
    has = topology.usable.bit_count()
    least = tuning.classes.get(QoSClass.DEDICATED, ClassTuning()).min_request
    if least > 1000 * topology.online.bit_count():
        yield (
            f"classes.dedicated.minRequest is {least / 1000:g}: no pod can have class dedicated, pods may use "
            f"{topology.online.bit_count()} CPUs here; set at most that"
        )
    beside = [each for each in tuning.pools if not each.group_by and each.name != RECLAIM]
    for pools in (beside, *([each] for each in tuning.pools if each not in beside)):
        if sum(each.minimum for each in pools) > has:
            named = " + ".join(f"pools.{each.name}.minCPUs {each.minimum}" for each in pools if each.minimum)
            yield f"{named}: pods may use {has} CPUs here, so that pools stay smaller; set less"


def _of_memory(tuning: Tuning, topology: Topology) -> Iterator[str]:
    """Yield the amounts of memory of a class that exceed the machine's. A percentage is of a container's own amount."""
    has = topology.memory_bytes
    for qos, each in tuning.classes.items() if has else ():
        texts = {"memoryHigh": each.memory_high, "memoryLow": each.memory_low, "memoryMin": each.memory_min}
        for key, text in texts.items():
            amount = quantity.amount(text or "0").bytes
            if amount > has:
                amounts = f"{size(amount)}: this machine has {size(has)}"
                yield f"classes.{qos}.{key} is {amounts}; set at most that, or a percentage"


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
