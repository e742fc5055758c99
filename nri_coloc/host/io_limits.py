"""Limits of a cgroup's I/O, one line for each device: v2's io.max, v1's blkio.throttle.

Both take one device a write and show only devices with a limit (Documentation/admin-guide/cgroup-v2, "IO Interface
Files"; cgroup-v1/blkio-controller). On v1 a limit holds for the tasks of the cgroup itself, not for cgroups below it,
and buffered writes belong to the root. So restoring is not one write of the original text: each device that has a
limit now gets its former line, or the line that removes its limit.

A former limit that is lower, such as that of a runtime's blockio class, stays in force.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host import files
from nri_coloc.host.knob_files import number

NAMES: Final[Mapping[int, tuple[str, ...]]] = {
    1: ("blkio.throttle.read_bps_device", "blkio.throttle.write_bps_device"),
    2: ("io.max",),
}
"""Files that are written, by version of cgroups."""

ALL_NAMES: Final = frozenset(name for names in NAMES.values() for name in names)

_LINE: Final = re.compile(r"(\d{1,7}:\d{1,7})\s+(\S.*)")


def line(name: str, device: str, limit: int | None, former: str = "") -> str:
    """Return the line that limits one device to so many bytes a second, read and written each; None for no limit.

    former: the device's former values, which stay if they are lower.
    """
    if name != "io.max":
        return f"{device} {_lower(limit, former) or 0}"
    words = dict(word.split("=", 1) for word in former.split() if "=" in word)
    values = ((key, _lower(limit, words.get(key, ""))) for key in ("rbps", "wbps"))
    return " ".join((device, *(f"{key}={'max' if value is None else value}" for key, value in values)))


def _lower(limit: int | None, former: str) -> int | None:
    was = number(former) or None
    return was if limit is None else limit if was is None else min(limit, was)


def shown(text: str) -> dict[str, str]:
    """Return the limits that a file shows, by device; a device whose values are all "max" has none."""
    lines = (_LINE.fullmatch(each.strip()) for each in text.splitlines())
    found = {match[1]: match[2] for match in lines if match is not None}
    return {device: values for device, values in found.items() if not _is_none(values)}


def holds(name: str, text: str, device: str, limit: int, former: str = "") -> bool:
    """Return whether a file shows a limit of ours for a device; `former` as for `line`."""
    values = shown(text).get(device, "").split()
    wanted = line(name, device, limit, former).split()[1:]
    return bool(values) and set(wanted) <= set(values)


def restore(file: str, was: str) -> bool:
    """Give each device of a file its former line, or no limit; return False if the file is gone.

    A device that is gone has nothing to be restored. Raises KernelInterfaceError when all other devices are restored.
    """
    now = files.read(file)
    if now is None:
        return False
    name, former = file.rpartition("/")[2], shown(was)
    lines = {
        device: f"{device} {former[device]}" if device in former else line(name, device, None)
        for device in (*shown(now), *former)
    }
    return _each(lines, lambda device: files.write(file, lines[device]) or files.read(file) is not None)


def write(file: str, devices: Iterable[str], limit: int, former: Mapping[str, str]) -> bool:
    """Limit devices and read the limits back; return False if the file is gone.

    former: original values by device. Raises KernelInterfaceError when all other devices are limited.
    """
    name = file.rpartition("/")[2]

    def limited(device: str) -> bool:
        text = line(name, device, limit, former.get(device, ""))
        is_written, found = files.write(file, text), files.read(file)
        if found is None:
            return False
        if not is_written:
            raise KernelInterfaceError(file, f"write {text!r} to", "the device is gone")
        if not holds(name, found, device, limit, former.get(device, "")):
            raise KernelInterfaceError(file, f"write {text!r} to", f"it shows {found[:80]!r} afterwards")
        return True

    return _each(devices, limited)


def _each(devices: Iterable[str], write_one: Callable[[str], bool]) -> bool:
    """Write all devices, also after a refused one; return False if the file is gone. Raises the first refusal.

    The kernel answers ENODEV for a device that is gone (block/blk-cgroup.c, blkg_conf_open_bdev), as for a cgroup.
    """
    refusals: list[KernelInterfaceError] = []
    for device in devices:
        try:
            if not write_one(device):
                return False
        except KernelInterfaceError as error:
            refusals.append(error)
    if refusals:
        raise refusals[0]
    return True


def _is_none(values: str) -> bool:
    return values == "0" or all(word.partition("=")[2] == "max" for word in values.split())
