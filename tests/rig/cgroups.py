"""The values that the kernel holds: a cgroup's own files, read for assertions.

Written apart from the product's own reader on purpose, so that a mistake there cannot hide here. Works on v1
controllers and on the unified hierarchy. A file or cgroup that does not exist reads as None.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path("/sys/fs/cgroup")
NO_LIMIT_V1: Final = 1 << 60  # v1 shows "no limit" as the largest multiple of a page


def online() -> frozenset[int]:
    """Return the CPUs of this machine."""
    return members(Path("/sys/devices/system/cpu/online").read_text())


def is_v2() -> bool:
    """Return whether the controllers are on the unified hierarchy (a hybrid machine counts as v1)."""
    return "cpuset" in _words(ROOT / "cgroup.controllers")


def file(cgroup: str, controller: str, name: str) -> Path:
    """Return the path of one file of a cgroup such as `/kubepods/pod1/abc`."""
    return (ROOT if is_v2() else ROOT / controller) / cgroup.lstrip("/") / name


def unified(cgroup: str, name: str) -> str | None:
    """Return a file of the unified mount, which a hybrid machine has beside the v1 controllers (PSI)."""
    return _text((ROOT if is_v2() else ROOT / "unified") / cgroup.lstrip("/") / name)


def cpus(cgroup: str) -> frozenset[int] | None:
    """Return the CPUs that were set; on v2 the empty set means "as the parent"."""
    return _set(_text(file(cgroup, "cpuset", "cpuset.cpus")))


def effective_cpus(cgroup: str) -> frozenset[int] | None:
    """Return the CPUs that the cgroup's tasks may use now."""
    name = "cpuset.cpus.effective" if is_v2() else "cpuset.effective_cpus"
    return _set(_text(file(cgroup, "cpuset", name)))


def mems(cgroup: str) -> frozenset[int] | None:
    """Return the memory nodes that were set."""
    return _set(_text(file(cgroup, "cpuset", "cpuset.mems")))


def shares(cgroup: str) -> int | None:
    """Return v1's cpu.shares; None on v2, see `weight`."""
    return None if is_v2() else _number(_text(file(cgroup, "cpu", "cpu.shares")))


def weight(cgroup: str) -> int | None:
    """Return v2's cpu.weight; None on v1, see `shares`."""
    return _number(_text(file(cgroup, "cpu", "cpu.weight"))) if is_v2() else None


def quota(cgroup: str) -> tuple[int, int] | None:
    """Return quota and period in microseconds; a quota of -1 is no limit."""
    if not is_v2():
        limit = _number(_text(file(cgroup, "cpu", "cpu.cfs_quota_us")))
        period = _number(_text(file(cgroup, "cpu", "cpu.cfs_period_us")))
        return None if limit is None or period is None else (limit, period)
    words = _words(file(cgroup, "cpu", "cpu.max"))
    return (-1 if words[0] == "max" else int(words[0]), int(words[1])) if words else None


def burst(cgroup: str) -> int | None:
    """Return the CFS burst in microseconds; None if the kernel has none."""
    return _number(_text(file(cgroup, "cpu", "cpu.max.burst" if is_v2() else "cpu.cfs_burst_us")))


def memory_limit(cgroup: str) -> int | None:
    """Return the hard limit in bytes; None if there is none."""
    limit = _number(_text(file(cgroup, "memory", "memory.max" if is_v2() else "memory.limit_in_bytes")))
    return limit if limit is not None and limit < NO_LIMIT_V1 else None


def memory_and_swap_limit(cgroup: str) -> int | None:
    """Return v1's limit of memory and swap together, in bytes; None on v2, and if there is none."""
    limit = None if is_v2() else _number(_text(file(cgroup, "memory", "memory.memsw.limit_in_bytes")))
    return limit if limit is not None and limit < NO_LIMIT_V1 else None


def bfq_weight(cgroup: str) -> int | None:
    """Return the default BFQ weight."""
    text = _text(file(cgroup, "blkio", "io.bfq.weight" if is_v2() else "blkio.bfq.weight"))
    return _number(text.split()[-1]) if text else None


def weighs(cgroup: str, weight: int) -> bool:
    """Return whether the cgroup has this BFQ weight.

    If the kernel has no BFQ, the answer is true for every cgroup that exists.
    """
    path = file(cgroup, "blkio", "io.bfq.weight" if is_v2() else "blkio.bfq.weight")
    return bfq_weight(cgroup) == weight if path.exists() else path.parent.is_dir()


def disks() -> dict[str, str]:
    """Return the real disks of this machine: their paths by their numbers, such as `254:0`."""
    found = (path for path in sorted(Path("/sys/block").iterdir()) if (path / "device").exists())
    return {(disk / "dev").read_text().strip(): f"/dev/{disk.name}" for disk in found}


def most_written(cgroup: str, device: str) -> int | None:
    """Return the bytes a second that the cgroup may write to a device number; None if there is no limit."""
    if is_v2():
        line = _line_of(file(cgroup, "io", "io.max"), device)
        limit = dict(word.split("=") for word in line[1:]).get("wbps")
    else:
        line = _line_of(file(cgroup, "blkio", "blkio.throttle.write_bps_device"), device)
        limit = line[1] if line else None
    return int(limit) if limit not in (None, "max") else None


def _line_of(path: Path, first: str) -> list[str]:
    lines = (_text(path) or "").splitlines()
    return next((words for words in map(str.split, lines) if words[0] == first), [])


def pids(cgroup: str) -> frozenset[int]:
    """Return the processes directly in the cgroup."""
    return frozenset(int(word) for word in _words(file(cgroup, "cpuset", "cgroup.procs")))


def oom_score_adj(pid: int) -> int | None:
    """Return the oom_score_adj of a process."""
    return _number(_text(Path(f"/proc/{pid}/oom_score_adj")))


def oom_score(pid: int) -> int | None:
    """Return the kernel's score of a live process for the OOM killer, or None.

    An ended process scores 0 until its parent waits for it. It has no memory.
    """
    score = _number(_text(Path(f"/proc/{pid}/oom_score")))
    return score if _words(Path(f"/proc/{pid}/statm"))[:1] not in ([], ["0"]) else None


def allowed_cpus(pid: int) -> frozenset[int] | None:
    """Return the CPUs that the scheduler would run a process on now, apart from any cgroup file."""
    for line in (_text(Path(f"/proc/{pid}/status")) or "").splitlines():
        if line.startswith("Cpus_allowed_list:"):
            return _set(line.partition(":")[2])
    return None


def _text(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except (FileNotFoundError, NotADirectoryError, ProcessLookupError):
        return None
    except OSError as error:
        if error.errno == 19:  # ENODEV: the cgroup was removed while the file was open
            return None
        raise


def _words(path: Path) -> list[str]:
    return (_text(path) or "").split()


def _number(text: str | None) -> int | None:
    return int(text) if text and text.lstrip("-").isdigit() else None


def _set(text: str | None) -> frozenset[int] | None:
    return None if text is None else members(text)


def members(text: str) -> frozenset[int]:
    """Return the numbers of a list such as "0-3,8"."""
    return frozenset(_members(text))


def _members(text: str) -> Iterator[int]:
    for part in filter(None, text.strip().split(",")):
        low, _, high = part.partition("-")
        yield from range(int(low), int(high or low) + 1)
