"""Removes the remains of one rig folder's containerd: shims, container processes, mounts, cgroups, files.

It is rough on purpose and works when containerd is dead, wedged or was never up. It touches only what
provably belongs to the folder: processes that name it in their command line or run in the session of
a containerd we started, cgroups in its ledger, mounts below it, and shim sockets that its own state
names. Shims listen in a place that containerd fixes (`/run/containerd/s`), which is why.
"""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.rig import RigError, kubepods, memory, owner
from tests.rig.waiting import comes

FOLDERS: Final = Path(memory.DISK if len(memory.DISK) < 60 else "/tmp")
"""Rigs' folders lie here: the path of a socket in them must be short."""

PREFIX: Final = "rig-"
SHIM_SOCKETS: Final = Path("/run/containerd/s")


@dataclass(frozen=True, slots=True)
class Traces:
    """Hold the traces by which the remains of one rig folder can be found, also after the folder is gone."""

    folder: Path
    cgroups: tuple[str, ...]
    sessions: frozenset[int]
    sockets: tuple[Path, ...]


def traces(folder: Path, sessions: Iterable[int] = ()) -> Traces:
    """Return the traces of a folder; call it before anything is removed."""
    cgroups = tuple(kubepods.Ledger(folder).removable())
    return Traces(folder, cgroups, frozenset(sessions), tuple(_shim_sockets(folder)))


def clear(found: Traces) -> None:
    """Remove everything that the traces lead to; RigError names the remains that could not be removed."""
    for cgroup in _pods(found):  # before the shims: a shim reaps the processes of its pod
        kubepods.kill(cgroup)
    comes(lambda: not any(kubepods.processes(cgroup) for cgroup in _pods(found)))
    for pid in _processes(found):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    comes(lambda: not _processes(found))
    for path in reversed(_mounts(found.folder)):
        subprocess.run(["umount", "--no-mtab", "--lazy", path], check=False, capture_output=True)
    for cgroup in found.cgroups:
        if _pods_below(cgroup, found):
            continue
        kubepods.remove(cgroup)
    _remove_files(found)
    if remains := leftovers(found):
        raise RigError(f"left behind by {found.folder}: {'; '.join(remains)}")


def take_away_left(folders: Path = FOLDERS) -> list[Path]:
    """Remove the rigs of killed runs, and return their folders.

    What cannot be removed stays: it may disturb a test, which will say so.
    """
    found = owner.without_owner(folders, PREFIX)
    for folder in found:
        with suppress(RigError):
            clear(traces(folder))
    return found


def leftovers(found: Traces) -> list[str]:
    """Return the remains in words; empty when all is gone."""
    remains = [f"process {pid}: {_command(pid)[:200]}" for pid in sorted(_processes(found))]
    remains += [f"mount {path}" for path in _mounts(found.folder)]
    remains += [
        f"cgroup {path}"
        for cgroup in found.cgroups
        if not _pods_below(cgroup, found)
        for path in kubepods.folders(cgroup)
    ]
    remains += [f"socket {path}" for path in found.sockets if path.exists()]
    return remains + ([f"folder {found.folder}"] if found.folder.exists() else [])


def _pods(found: Traces) -> list[str]:
    return [cgroup for cgroup in found.cgroups if Path(cgroup).name.startswith("pod")]


def _pods_below(cgroup: str, found: Traces) -> bool:
    """Return whether another rig (or a kubelet) has pods below a parent that we would otherwise remove."""
    if cgroup in _pods(found):
        return False
    return any(path.is_dir() for folder in kubepods.folders(cgroup) for path in folder.rglob("pod*"))


def _processes(found: Traces) -> set[int]:
    names = (f"{found.folder}/".encode(), f"{found.folder}\0".encode())
    pids = {int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()} - {os.getpid()}
    return {pid for pid in pids if _session(pid) in found.sessions or _is_runtime(pid, names)}


def _is_runtime(pid: int, names: tuple[bytes, ...]) -> bool:
    """Return whether a process is a containerd or shim whose arguments name the folder.

    An editor with a file open there is not one.
    """
    command = _raw_command(pid)
    program = command.partition(b"\0")[0].rpartition(b"/")[2]
    return program.startswith(b"containerd") and any(name in command for name in names)


def _raw_command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _command(pid: int) -> str:
    return _raw_command(pid).replace(b"\0", b" ").decode(errors="replace")


def _session(pid: int) -> int:
    """Return the session of a live process.

    A zombie counts as gone: its parent reaps it.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return -1
    return -1 if fields[0] == "Z" else int(fields[3])


def _mounts(folder: Path) -> list[str]:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [path for line in lines if (path := line.split()[4]).startswith(f"{folder}/")]


def _shim_sockets(folder: Path) -> list[Path]:
    tasks = folder / "state" / "io.containerd.runtime.v2.task" / "k8s.io"
    found = []
    for path in [*tasks.glob("*/address"), *tasks.glob("*/bootstrap.json")]:
        with suppress(OSError, ValueError):
            text = path.read_text()
            address = json.loads(text)["address"] if path.suffix == ".json" else text
            found.append(Path(address.strip().removeprefix("unix://")))
    return [path for path in found if path.parent == SHIM_SOCKETS]


def _remove_files(found: Traces) -> None:
    for path in found.sockets:
        path.unlink(missing_ok=True)
    # the folder above it stays: its removal would end every mount on it, also that of a Kubernetes node in a namespace
    with suppress(OSError):  # not empty: another containerd's
        SHIM_SOCKETS.rmdir()
    shutil.rmtree(found.folder, ignore_errors=True)
