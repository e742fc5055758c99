"""The kernel's words for I/O, summed over the devices; pure.

A device on top of another (dm, md) is listed beside it, so both count. Formats:
Documentation/admin-guide/cgroup-v1/blkio-controller.rst, cgroup-v2.rst.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from nri_coloc.model.readings import IOReading
from nri_coloc.sampling import counters

_V2: Final = (b"rbytes", b"wbytes", b"rios", b"wios")


def io_stat(text: bytes | None) -> IOReading | None:
    """Read v2's io.stat; an empty file means that nothing was read or written yet.

    Some kernels print a device without figures, on the next one's line (as "8:0 8:16 rbytes=1 …"), and others
    add figures of io.cost: only what is known is looked for.
    """
    if text is None:
        return None
    sums = dict.fromkeys(_V2, 0)
    for word in text.split():
        name, _, value = word.partition(b"=")
        if name not in sums:
            continue
        number = counters.whole(value)
        if number is None:
            return None
        sums[name] += number
    return IOReading(*(sums[name] for name in _V2))


def blkio(service_bytes: bytes | None, serviced: bytes | None) -> IOReading | None:
    """Read v1's blkio.throttle.io_service_bytes and io_serviced, or their `_recursive` twins."""
    moved, operations = _by_kind(service_bytes), _by_kind(serviced)
    if moved is None or operations is None:
        return None
    return IOReading(moved[b"Read"], moved[b"Write"], operations[b"Read"], operations[b"Write"])


def _by_kind(text: bytes | None) -> Mapping[bytes, int] | None:
    """Sum the lines "MAJOR:MINOR KIND N"; the last line is the total of all kinds and has no device."""
    if text is None:
        return None
    sums = {b"Read": 0, b"Write": 0}
    for words in _words(text):
        if len(words) != 3 or words[1] not in sums:
            continue
        number = counters.whole(words[2])
        if number is None:
            return None
        sums[words[1]] += number
    return sums


def _words(text: bytes) -> Iterable[list[bytes]]:
    return (line.split() for line in text.split(b"\n"))
