"""Keep original values on the cgroups themselves, as extended attributes; they end with the cgroup and with the boot.

The journal in the state folder can be lost. A mark cannot be lost while our value is in force. Kernels take such
attributes on cgroups since 5.7 (fs/kernfs/inode.c, kernfs_vfs_user_xattr_set), 128 on each. Older kernels have only the
journal.

A mark decides the value that `restore` writes, so no tenant may write one. A container can own its own cgroup and never
its pod's, so its mark is on the pod's cgroup. If another user than root may write to a folder, its mark is on the
folder above.

A container in no pod's cgroup, as of a kubelet with `cgroupsPerQOS: false`, may own the folder that carries its mark.
So a mark can name the files that the daemon writes alone: it cannot open devices or freeze tasks.

Several daemons of one machine may see the same cgroups, so a mark names its daemon (`Owner`).
"""

import errno
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from nri_coloc.core import knobs, kubepods
from nri_coloc.host import files, oom_scores, scheduler
from nri_coloc.host.knob_files import WITH_SWAP, makes_sense
from nri_coloc.host.originals import Entry

NAME: Final = "user.nri-coloc"
"""The attribute with a cgroup's own values. The attribute for a cgroup below it ends with the relative path."""

_WRITTEN: Final = frozenset(
    {file.name for file in knobs.files()} | {*WITH_SWAP.values(), scheduler.NAME, *oom_scores.NAMES}
)
"""Names of files: of all that the daemon and the runtime write, and of the lists that stand for a policy or score."""

_compact: Final = json.JSONEncoder(separators=(",", ":")).encode

_BELOW: Final = f"{NAME}."
_GONE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENODEV})
_NONE: Final = frozenset({errno.ENODATA, *_GONE})
_WRITABLE_BY_OTHERS: Final = 0o022
_UPWARDS: Final = ".."


class Owner(NamedTuple):
    """The daemon that wrote a mark; both fields are empty if an older version wrote it, because that named no daemon.

    folder: its state folder.
    name: a random name that the journal in this folder holds.
    """

    folder: str = ""
    name: str = ""


class Mark(NamedTuple):
    """One value of a mark."""

    entry: Entry
    owner: Owner


class Marks:
    """Marks below the mounts of the hierarchies; files elsewhere have none. Folders are paths on this machine."""

    def __init__(self, mounts: Iterable[str] = ()) -> None:
        self._mounts = tuple(dict.fromkeys(mounts))
        self.refusal = ""
        """Why the kernel takes no marks here, "" while it does."""

    @property
    def work(self) -> bool:
        """Whether marks show which values are ours."""
        return bool(self._mounts) and not self.refusal

    def covers(self, file: str) -> bool:
        """Return whether a file is below a mount; without mounts every file is.

        A path that leads upwards is not.
        """
        is_below = self._is_below(file.rpartition("/")[0]) or not self._mounts
        return is_below and _UPWARDS not in file.split("/")

    def probe(self) -> None:
        """Check whether the kernel takes marks."""
        for mount in self._mounts:
            self._set(mount, f"{NAME}.probe", b"1")
            self._remove(mount, f"{NAME}.probe")

    def write(self, folder: str, values: Mapping[str, Entry], owner: Owner) -> bool:
        """Write a cgroup's mark: its values by file name; without values the mark is removed.

        Return False if the cgroup has no mark now, although marks work: the cgroup that carries it has no room.
        """
        carrier = self._carrier(folder)
        if not carrier:
            return True
        if values:
            return self._set(carrier, _name(carrier, folder), _text(values, owner))
        self._remove(carrier, _name(carrier, folder))
        return True

    def of(self, folder: str) -> dict[str, Mark]:
        """Return the values of one cgroup's mark, by file."""
        carrier = self._carrier(folder)
        if not carrier:
            return {}
        try:
            return _values_of(carrier, _name(carrier, folder))
        except OSError:
            return {}  # there is no mark, the cgroup ended, or the kernel keeps no attributes

    def read(self) -> dict[str, Mark]:
        """Return the values of all marks of all daemons, by file."""
        found: dict[str, Mark] = {}
        for mount in self._mounts:
            for carrier in _carriers(mount):
                found |= _read(carrier)
        return found

    def folders(self) -> Iterator[str]:
        """Yield the folder of every present cgroup."""
        for mount in dict.fromkeys(self._mounts):
            yield from files.tree(mount)

    def _carrier(self, folder: str) -> str:
        """Return the cgroup that carries a cgroup's mark, "" if there is none."""
        carrier = folder
        while self._is_below(carrier):
            parent = carrier.rpartition("/")[0]
            if not kubepods.is_a_pods(parent):
                status = _status(carrier)
                if status is None:
                    return ""
                if _is_roots(status):
                    return carrier
            carrier = parent
        return ""

    def _is_below(self, folder: str) -> bool:
        return any(folder == mount or folder.startswith(f"{mount}/") for mount in self._mounts)

    def _set(self, folder: str, name: str, text: bytes) -> bool:
        """Set an attribute; return False if the cgroup has no room for it."""
        try:
            os.setxattr(folder, name, text)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                return _set_with_room(folder, name, text)
            if error.errno not in _GONE:
                self.refusal = f"{folder}: {os.strerror(error.errno or 0)}"
        return True

    def _remove(self, folder: str, name: str) -> None:
        try:
            os.removexattr(folder, name)
        except OSError as error:
            if error.errno not in _NONE:
                self.refusal = f"{folder}: {os.strerror(error.errno or 0)}"


def _set_with_room(carrier: str, name: str, text: bytes) -> bool:
    """Remove this attribute and the marks of ended cgroups, and set it; return False if there is still no room.

    A cgroup takes 128 attributes, and the kernel counts one that is replaced twice for a moment (fs/kernfs/inode.c,
    kernfs_vfs_user_xattr_add). Without room no outdated mark stays.
    """
    try:
        for each in os.listxattr(carrier):
            below = each.removeprefix(_BELOW)
            if each == name or (below != each and _status(f"{carrier}/{below}") is None):
                os.removexattr(carrier, each)
        os.setxattr(carrier, name, text)
    except OSError as error:
        return error.errno in _GONE
    return True


def _status(folder: str) -> os.stat_result | None:
    try:
        return os.stat(folder)  # noqa: PTH116 - a Path costs more than the call
    except OSError:
        return None


def _is_roots(status: os.stat_result) -> bool:
    """Return whether only root may write to a folder; this process's own user counts as root."""
    return status.st_uid in (0, os.geteuid()) and not status.st_mode & _WRITABLE_BY_OTHERS


def _carriers(folder: str) -> Iterator[str]:
    """Yield a folder and the folders below it that may carry marks.

    Folders below a pod's carry none: the pod's folder carries its containers' marks. Folders below one that another
    user may write to are left out, because their marks are not trusted.
    """
    return files.tree(folder, _may_lead_to_marks)


def _may_lead_to_marks(folder: str) -> bool:
    status = _status(folder)
    return status is not None and _is_roots(status) and not kubepods.is_a_pods(folder)


def _read(carrier: str) -> dict[str, Mark]:
    found: dict[str, Mark] = {}
    try:
        names = [name for name in os.listxattr(carrier) if name == NAME or name.startswith(_BELOW)]
        if not names or not _is_roots(os.stat(carrier)):  # noqa: PTH116 - a Path costs more than the call
            return {}
        for name in names:
            found |= _values_of(carrier, name)
    except OSError:
        return found  # the cgroup ended meanwhile, or the kernel keeps no attributes
    return found


def _name(carrier: str, folder: str) -> str:
    """Return the name of the attribute that is a cgroup's mark."""
    return NAME if carrier == folder else f"{_BELOW}{folder.removeprefix(f'{carrier}/')}"


def _values_of(carrier: str, name: str) -> dict[str, Mark]:
    """Return the values of one attribute, by file; raise OSError if it cannot be read."""
    folder = carrier if name == NAME else f"{carrier}/{name.removeprefix(_BELOW)}"
    if _UPWARDS in folder.split("/"):
        return {}
    return {f"{folder}/{file}": mark for file, mark in _values(os.getxattr(carrier, name)).items()}


def _text(values: Mapping[str, Entry], owner: Owner) -> bytes:
    """Return the text of a mark: its originals, the files whose original is unknown, the daemon, and values of ours.

    The last part is a list of lists, each with a file's name first: an older version ignores it.
    """
    texts = {name: entry.original for name, entry in values.items()}
    unknown = [name for name, entry in values.items() if not entry.is_known]
    ours = [(name, *entry.ours) for name, entry in values.items() if entry.ours]
    return _compact([texts, unknown, owner._asdict(), ours]).encode()


@lru_cache(maxsize=64)
def _values(text: bytes) -> Mapping[str, Mark]:
    """Return the values of a mark; none if this program would not have written the text. Many pods have one text."""
    try:
        texts, *more = json.loads(text)
        unknown = {str(name) for names in more[:1] for name in names}
        owner = _owner(more[1]) if len(more) > 1 else Owner()
        ours = {str(name): tuple(map(str, values)) for part in more[2:3] for name, *values in part}
        return {
            str(name): Mark(Entry(str(was), str(name) not in unknown, ours.get(str(name), ())), owner)
            for name, was in texts.items()
            if name in _WRITTEN and makes_sense(name, str(was))
        }
    except (ValueError, TypeError, AttributeError, RecursionError):
        return {}


def _owner(entry: Mapping[str, Any]) -> Owner:
    return Owner(str(entry.get("folder", "")), str(entry.get("name", "")))
