"""The processes of a rig, and the removal of a rig whose owner has ended, by another process.

A rig's folder is bound into its mount namespace, and the roots of its containers lie there. So `/proc/<pid>/mountinfo`
of each of its processes names the folder: kubelet, containerd, shims and pods alike. `rig.json` in the folder names the
owner, with its start time, and the machine's settings that the kubelet has changed.
"""

import json
import os
import secrets
import shutil
import signal
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from tests.rig import RigError, kubepods, owner
from tests.rig.waiting import comes

CGROUP_ROOT: Final = "/kubelet"
"""As in a kind node. With `/` the kubelet would end whatever another rig has below `/kubepods`."""

FOLDERS: Final = Path("/tmp")
PREFIX: Final = "cluster-"


def new_folder() -> Path:
    """Return a path for a rig's folder; nothing is made yet."""
    return FOLDERS / f"{PREFIX}{secrets.token_hex(4)}"


def note(folder: Path, pid: int, settings: Mapping[str, str], cgroup: str = CGROUP_ROOT) -> None:
    """Write down the owner process of a rig, `pid`, the settings to restore and the cgroup to remove."""
    noted = {"owner": [pid, owner.started(pid)], "settings": dict(settings), "cgroup": cgroup}
    (folder / "rig.json").write_text(json.dumps(noted))


def take_away(folders: Path = FOLDERS, *, also_owned: bool = False) -> list[Path]:
    """Remove every rig whose owner has ended and return their folders; RigError if a rig has a living owner.

    also_owned: remove rigs with a living owner, too.
    """
    found = dict(_rigs(folders))
    for folder, noted in found.items():
        if _has_owner(noted) and not also_owned:
            raise RigError(
                f"process {noted['owner'][0]} has a cluster in {folder}: end it, or take it away with "
                "`make cluster-down`"
            )
        _remove(folder, noted)
    return list(found)


def take_away_ended(folders: Path = FOLDERS) -> list[Path]:
    """Remove every rig and return their folders; none beside a rig with a living owner.

    A rig that begins takes the others away, and all have one cgroup root.
    """
    in_use = any(_has_owner(noted) for _, noted in _rigs(folders))
    return [] if in_use else take_away(folders)


def _rigs(folders: Path) -> Iterable[tuple[Path, Mapping[str, Any]]]:
    """Yield the folder of each rig and what it noted."""
    for path in owner.notes(folders, PREFIX, "rig.json"):
        yield path.parent, json.loads(path.read_text())


def _has_owner(noted: Mapping[str, Any]) -> bool:
    return owner.lives(*noted["owner"])


def _remove(folder: Path, noted: Mapping[str, Any]) -> None:
    kill(lambda: inside(folder), f"processes of {folder}")
    remove_cgroups(noted["cgroup"])
    for path, text in noted["settings"].items():
        Path(path).write_text(text)
    shutil.rmtree(folder, ignore_errors=True)


def inside(folder: Path, but: int = 0) -> set[int]:
    """Return the processes of a rig, without the process `but`."""
    name = f"{folder}/"
    return {pid for pid in _all_pids() if pid != but and name in _mountinfo(pid)}


def pids_below() -> set[int]:
    """Return the processes of all pods."""
    return kubepods.processes(CGROUP_ROOT)


def kill(found: Callable[[], set[int]], what: str) -> None:
    """Kill processes until none is found; RigError if some would not end."""

    def ended() -> bool:
        for pid in found():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not found()

    if not comes(ended):
        raise RigError(f"{what} would not end: {sorted(found())}")


def remove_cgroups(root: str = CGROUP_ROOT) -> None:
    """Remove the cgroup root with all below it."""
    if not kubepods.remove(root):
        raise RigError(f"cgroups would not go: {kubepods.folders(root)}")


def _all_pids() -> Iterable[int]:
    return (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())


def _mountinfo(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/mountinfo").read_text()
    except OSError:
        return ""
