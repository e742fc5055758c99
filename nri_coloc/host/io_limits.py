"""Limits of a cgroup's I/O, one line for each device: v2's io.max, v1's blkio.throttle.

Both take one device a write and show only devices with a limit (Documentation/admin-guide/cgroup-v2, "IO Interface
Files"; cgroup-v1/blkio-controller). On v1 a limit holds for the tasks of the cgroup itself, not for cgroups below it,
and buffered writes belong to the root. So restoring is not one write of the original text: each device that has a
limit now gets its former line, or the line that removes its limit.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host import files

NAMES: Final[Mapping[int, tuple[str, ...]]] = {
    1: ("blkio.throttle.read_bps_device", "blkio.throttle.write_bps_device"),
    2: ("io.max",),
}
"""Files that are written, by version of cgroups."""

ALL_NAMES: Final = frozenset(name for names in NAMES.values() for name in names)

_LINE: Final = re.compile(r"(\d{1,7}:\d{1,7})\s+(\S.*)")


def line(name: str, device: str, limit: int | None) -> str:
    """Return the line that limits one device to so many bytes a second, read and written each; None for no limit."""
    if name == "io.max":
        text = "max" if limit is None else str(limit)
        return f"{device} rbps={text} wbps={text}"
    return f"{device} {limit or 0}"


def shown(text: str) -> dict[str, str]:
    """Return the limits that a file shows, by device; a device whose values are all "max" has none."""
    lines = (_LINE.fullmatch(each.strip()) for each in text.splitlines())
    found = {match[1]: match[2] for match in lines if match is not None}
    return {device: values for device, values in found.items() if not _is_none(values)}


def holds(name: str, text: str, device: str, limit: int) -> bool:
    """Return whether a file shows a limit of ours for a device."""
    values = shown(text).get(device, "").split()
    wanted = line(name, device, limit).split()[1:]
    return bool(values) and set(wanted) <= set(values)


def restore(file: str, was: str) -> bool:
    """Give each device of a file its former line, or no limit; return False if the file is gone."""
    now = files.read(file)
    if now is None:
        return False
    name, former = file.rpartition("/")[2], shown(was)
    for device in dict.fromkeys((*shown(now), *former)):
        values = former.get(device)
        if not files.write(file, line(name, device, None) if values is None else f"{device} {values}"):
            return False
    return True


def write(file: str, devices: Iterable[str], limit: int) -> bool:
    """Limit devices and read the limits back; return False if the file is gone. Raises KernelInterfaceError."""
    name = file.rpartition("/")[2]
    for device in devices:
        text = line(name, device, limit)
        if not files.write(file, text):
            return False
        found = files.read(file) or ""
        if not holds(name, found, device, limit):
            raise KernelInterfaceError(file, f"write {text!r} to", f"it shows {found[:80]!r} afterwards")
    return True


def _is_none(values: str) -> bool:
    return values == "0" or all(word.partition("=")[2] == "max" for word in values.split())
