"""The machine's disks, and for each whether the kernel lets an I/O weight act on it.

A weight counts only where something divides the disk by it: the bfq scheduler (`io.bfq.weight`, v1's
`blkio.bfq.weight`), or on cgroup v2 the io.cost controller (`io.weight`), which is off until it is switched on for a
device (Documentation/admin-guide/cgroup-v2, "IO Interface Files"; block/bfq-iosched.c).
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from nri_coloc.host import files
from nri_coloc.host.cgroup_layout import CgroupLayout

_NO_DISKS: Final = ("loop", "ram", "zram", "dm-", "md", "sr", "fd", "nbd")
"""Devices on top of others, or of memory: nothing is scheduled there that is not scheduled below."""

_CHOSEN: Final = re.compile(r"\[([\w-]+)\]")
_COST: Final = re.compile(r"^(\d+:\d+) .*\benable=1\b", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Disk:
    """`scheduler` is the one in use, "" if the kernel does not say; `io_cost`: switched on for it."""

    name: str
    scheduler: str
    io_cost: bool

    @property
    def weighs(self) -> bool:
        """Whether an I/O weight acts on it."""
        return self.scheduler == "bfq" or self.io_cost


def read(host_root: str, layout: CgroupLayout) -> tuple[Disk, ...]:
    """Return the disks by name; KernelInterfaceError if they cannot be read."""
    root = f"{host_root.rstrip('/')}/sys/block"
    costed = _costed(layout)
    return tuple(
        _disk(root, name, costed) for name in sorted(files.entries(root)) if not name.startswith(_NO_DISKS)
    )


def words(disks: Iterable[Disk]) -> str:
    """Say of each disk whether a weight acts on it, and why."""
    return ", ".join(
        f"{d.name} {'yes' if d.weighs else 'no'} ({d.scheduler or 'no scheduler'}{', io.cost' if d.io_cost else ''})"
        for d in disks
    )


def _costed(layout: CgroupLayout) -> frozenset[str]:
    """Return the numbers of the devices for which io.cost is on; the file is empty while it is on for none."""
    if layout.version == 1 or layout.unified is None:
        return frozenset()
    return frozenset(_COST.findall(files.text(f"{layout.unified}/io.cost.qos") or ""))


def _disk(root: str, name: str, costed: frozenset[str]) -> Disk:
    chosen = _CHOSEN.search(files.text(f"{root}/{name}/queue/scheduler") or "")
    number = (files.text(f"{root}/{name}/dev") or "").strip()
    return Disk(name, chosen[1] if chosen else "", number in costed)
