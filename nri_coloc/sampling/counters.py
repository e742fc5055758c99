"""The kernel's words for CPU time, pressure and run-queue delay, as numbers; pure.

Each function takes a file's bytes (None: it could not be read) and answers None for whatever makes no sense:
empty, cut off, negative, "max", longer than a 64-bit number. A reading that is not there is a value. Formats:
Documentation/admin-guide/cgroup-v1/cpuacct.rst, cgroup-v2.rst, Documentation/accounting/psi.rst,
Documentation/scheduler/sched-stats.rst, proc(5).
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from nri_coloc.model import cpuset
from nri_coloc.model.readings import Pressure

U64_DIGITS: Final = 20
USER_HZ: Final = 100
"""In which /proc/stat counts, on every architecture with cgroups but alpha and ia64 (sysconf(3), _SC_CLK_TCK)."""

_FLAT: Final = re.compile(rb"^(\S+) (\d{1,20})$", re.MULTILINE)
_USAGE: Final = re.compile(rb"^usage_usec (\d{1,20})$", re.MULTILINE)
_PERIODS: Final = re.compile(rb"^nr_throttled (\d{1,20})$", re.MULTILINE)
_THROTTLED: Final = re.compile(rb"^throttled_(usec|time) (\d{1,20})$", re.MULTILINE)
_FULL: Final = re.compile(rb"^full [^\n]*\btotal=(\d{1,20})$", re.MULTILINE)
_CPU_LINE: Final = re.compile(rb"^cpu(\d{1,5}) ([^\n]+)$", re.MULTILINE)
_TASKS: Final = (0, 1, 2)
"""user, nice, system; guest time is in user already."""

_BUSY: Final = (*_TASKS, 5, 6, 7)
"""And irq, softirq, steal: stolen time is gone as well."""


class Throttling(NamedTuple):
    """What a cgroup's own quota did: periods that ran out, and µs held back, summed over its CPUs' queues."""

    periods: int
    throttled_us: int


class Schedstat(NamedTuple):
    """How long a task ran, and how long it waited for a CPU while it could have run, µs; both never fall."""

    ran_us: int
    waited_us: int


def whole(text: bytes | None) -> int | None:
    """Return the one unsigned number of a file."""
    return _number(text.strip()) if text is not None else None


def flat(text: bytes | None) -> dict[bytes, int]:
    """Return a flat-keyed file ("name 123" a line); lines that are anything else are left out."""
    return {name: int(number) for name, number in _FLAT.findall(text or b"")}


def cpuacct_usage_us(text: bytes | None) -> int | None:
    """Read v1's cpuacct.usage: ns, the whole subtree."""
    word = text.rstrip(b"\n") if text else b""
    return int(word) // 1000 if word.isdigit() and len(word) <= U64_DIGITS else None


def cpu_stat_usage_us(text: bytes | None) -> int | None:
    """Read the usage of the unified hierarchy's cpu.stat: µs, the whole subtree."""
    match = _USAGE.search(text) if text else None
    return int(match[1]) if match else None


def throttling(text: bytes | None) -> Throttling | None:
    """Read cpu.stat of a v1 `cpu` cgroup (`throttled_time`, ns) or of a v2 one (`throttled_usec`)."""
    microseconds = throttled_us(text)
    match = _PERIODS.search(text) if text else None
    return None if microseconds is None or match is None else Throttling(int(match[1]), microseconds)


def throttled_us(text: bytes | None) -> int | None:
    """Read only the time out of what `throttling` reads."""
    match = _THROTTLED.search(text) if text else None
    if match is None:
        return None
    return int(match[2]) // (1000 if match[1] == b"time" else 1)


def some_us(text: bytes | None) -> int | None:
    """Read the `some total=` of a pressure file: µs in which at least one task waited."""
    words, _, total = (text or b"").partition(b"\n")[0].rpartition(b" total=")
    return _number(total) if words.startswith(b"some ") else None


def pressure(text: bytes | None) -> Pressure | None:
    """Read a pressure file; the `full` line of cpu.pressure came with Linux 5.13 and counts 0 before."""
    some = some_us(text)
    if some is None or text is None:
        return None
    full = _FULL.search(text)
    return Pressure(some, int(full[1]) if full else 0)


def schedstat(text: bytes | None) -> Schedstat | None:
    """Read a task's schedstat: "on-CPU waiting timeslices", the first two in ns.

    "0 0 0" is how a kernel that does not count says so (fs/proc/base.c, proc_pid_schedstat: !sched_info_on()), and a
    task that never ran.
    """
    words = (text or b"").split()
    if len(words) != 3:
        return None
    ran, waited, slices = map(_number, words)
    if ran is None or waited is None or slices is None or not ran + waited + slices:
        return None
    return Schedstat(ran // 1000, waited // 1000)


def busy_us(text: bytes | None, *, by_tasks: bool = False) -> Mapping[int, int]:
    """Read /proc/stat: by CPU the time that it was not idle, µs in steps of 10 ms; a broken line is left out.

    `by_tasks`: without interrupts and what was stolen.
    """
    found, parts = {}, _TASKS if by_tasks else _BUSY
    for number, line in _CPU_LINE.findall(text or b""):
        ticks = [_number(word) for word in line.split()]
        busy = [ticks[at] for at in parts if at < len(ticks)]
        if int(number) <= cpuset.MAX_CPU_ID and None not in busy and len(busy) >= 3:
            found[int(number)] = sum(tick or 0 for tick in busy) * (1_000_000 // USER_HZ)
    return found


def _number(word: bytes) -> int | None:
    """Return an unsigned decimal number of at most 64 bits' length; int() alone would take "1_0" and "+1"."""
    return int(word) if len(word) <= U64_DIGITS and word.isdigit() else None
