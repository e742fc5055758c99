"""Where this machine keeps its cgroups, and which folder below that a pod or container has.

The paths come from the runtime's messages and so from strangers: each is split into components and joined again. A path
that could leave the hierarchy is refused.

A path here never begins with a slash, so that joining it to a folder cannot lose the folder; "" is the root of the
hierarchy. systemd's notation is turned as runc turns it (systemd.slice(5); runc, ExpandSlice).
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Final, Literal

from nri_coloc.core import kubepods
from nri_coloc.core.knobs import CONTROLLERS, Controller
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host import files

Hierarchy = Literal[Controller, "unified", "cpuacct"]
"""A field of `CgroupLayout`: the hierarchy of a controller, or one that is only read."""

_MARK: Final = "cgroup.controllers"
"""The file that every cgroup of a v2 hierarchy has and none of v1 (Documentation/admin-guide/cgroup-v2)."""

_NAME_MAX: Final = 255
_PATH_MAX: Final = 4096
_SLICE: Final = ".slice"
_SCOPE: Final = ".scope"
_NO_SLICES: Final = (".service", _SCOPE, ".mount", ".socket", ".swap")
"""Ends of the names of systemd's units that hold processes and no slices."""

_LEVELS_SEARCHED: Final = 3
_FOLDERS_SEARCHED: Final = 64
"""Bounds of the search for kubepods: levels below the root, and cgroups of one level that are listed."""

_MOST_NAMED: Final = 4
"""Cgroups that a sentence names."""


@dataclass(frozen=True, slots=True)
class CgroupLayout:
    """The folder of each hierarchy, None where it is not mounted.

    version: 2 if the controllers are in the v2 hierarchy, else 1. A hybrid machine has version 1: its controllers are
        in v1 hierarchies, and a v2 hierarchy without them is mounted beside these (systemd's "hybrid").
    cpu, cpuset, memory, blkio: the hierarchy of the controller; on version 2 the same folder for all.
    unified: the v2 hierarchy, which has PSI: on version 2 that folder, on a hybrid machine the one beside v1.
    cpuacct: v1's CPU time, mounted with `cpu` or alone; only read.
    """

    version: int
    cpu: str | None = None
    cpuset: str | None = None
    memory: str | None = None
    blkio: str | None = None
    unified: str | None = None
    cpuacct: str | None = None

    @property
    def mounts(self) -> tuple[str, ...]:
        """The folders of the hierarchies in which we set anything, each once."""
        found = (self.folder(controller, "") for controller in CONTROLLERS)
        return tuple(dict.fromkeys(filter(None, found)))

    def folder(self, hierarchy: Hierarchy, path: str) -> str | None:
        """Return the folder of one cgroup in a hierarchy, None where it is not mounted; ValueError as `below_root`."""
        root: str | None = getattr(self, hierarchy)
        return None if root is None else f"{root}/{below_root(path)}".rstrip("/")


def detect(host_root: str) -> CgroupLayout:
    """Look below `host_root`; without any cgroup tree the layout has no folders.

    Raises KernelInterfaceError if the tree cannot be listed.
    """
    root = f"{host_root.rstrip('/')}/sys/fs/cgroup"
    names = files.entries(root)
    if _MARK in names:
        return _unified(root)
    mounts = {name: f"{root}/{name}" for name in sorted(names) if names[name]}
    beside = f"{root}/unified"
    has_unified = _MARK in files.entries(beside)
    v1 = {controller: mount for controller in CONTROLLERS if (mount := _mount_of(controller, mounts))}
    if has_unified and not v1:
        return _unified(beside)
    counted = _mount_of("cpuacct", mounts)
    return CgroupLayout(1 if v1 else 2, **v1, unified=beside if has_unified else None, cpuacct=counted)


def _unified(folder: str) -> CgroupLayout:
    return CgroupLayout(
        version=2, cpu=folder, cpuset=folder, memory=folder, blkio=folder, unified=folder, cpuacct=folder
    )


def _mount_of(controller: str, mounts: Mapping[str, str]) -> str | None:
    """Return a v1 controller's mount; some are mounted together, as "cpu,cpuacct"."""
    if controller in mounts:
        return mounts[controller]
    return next((mounts[name] for name in mounts if controller in name.split(",")), None)


def capabilities(layout: CgroupLayout, cgroup_path: str) -> frozenset[str]:
    """Return the names of the control files that a cgroup has, in any of its controllers' folders.

    A cgroup that does not exist has none. Raises ValueError as `below_root`, KernelInterfaceError if a
    folder cannot be listed.
    """
    folders = {layout.folder(controller, cgroup_path) for controller in CONTROLLERS}
    return frozenset(
        name
        for folder in folders
        if folder is not None
        for name, is_folder in files.entries(folder).items()
        if not is_folder
    )


def is_literal(layout: CgroupLayout, cgroups_path: str) -> bool:
    """Return whether systemd's notation of a container's cgroup is itself the name of a cgroup.

    runc makes one if the kubelet's driver is systemd and the runtime's is cgroupfs. Never raises.
    """
    folder = layout.cpuset or layout.memory
    if folder is None or ":" not in cgroups_path or "/" in cgroups_path:
        return False
    return Path(folder, cgroups_path).is_dir()


def container_path(cgroups_path: str) -> str:
    """Turn a container's `cgroups_path` into its path below the hierarchy's root.

    "/kubepods/podU/ID" under the cgroupfs driver, "kubepods-podU.slice:cri-containerd:ID" under systemd's.
    Raises ValueError for anything else, and for the root: no container lives there.
    """
    if ":" in cgroups_path.partition("/")[0]:
        return _systemd_scope(cgroups_path)
    path = below_root(cgroups_path)
    if not path:
        raise ValueError(f"{cgroups_path!r} names no cgroup below the root")
    return path


def _systemd_scope(cgroups_path: str) -> str:
    parts = cgroups_path.split(":")
    if len(parts) != 3 or not parts[2]:
        raise ValueError(f"{cgroups_path!r} is not SLICE:PREFIX:NAME")
    parent, prefix, name = parts
    unit = name if name.endswith(_SLICE) else f"{prefix}-{name}{_SCOPE}"
    if "/" in unit:
        raise ValueError(f"{cgroups_path!r} has a slash in the name of a unit")
    # runc puts a scope without a slice into system.slice
    return below_root(f"{_expanded(parent or 'system.slice')}/{unit}")


def is_scope(path: str) -> bool:
    """Return whether systemd makes a container's cgroup: the driver is systemd, and a scope is written late."""
    return path.endswith(_SCOPE)


def pod_path(cgroup_parent: str) -> str:
    """Return the path of a pod's `cgroup_parent` below the hierarchy's root; "" if it has no cgroup.

    If the last component is a slice, it alone counts, as for containerd: systemd knows the rest. Raises ValueError for
    a text that cannot be a cgroup.
    """
    path = below_root(cgroup_parent)
    last = path.rpartition("/")[2]
    return below_root(_expanded(last)) if last.endswith(_SLICE) else path


def _expanded(name: str) -> str:
    """Return a slice's path: "a-b.slice" lies in "a.slice"; "-.slice" is the root.

    A dash inside a name is written \\x2d, so every dash that is seen parts two levels.
    """
    stem = name.removesuffix(_SLICE)
    if stem == "-" and name != stem:
        return ""
    levels = stem.split("-")
    if name == stem or "/" in name or not all(levels):
        raise ValueError(f"{name!r} is not the name of a systemd slice")
    return "/".join("-".join(levels[: depth + 1]) + _SLICE for depth in range(len(levels)))


def every_kubepods(layout: CgroupLayout) -> tuple[str, ...]:
    """Return the cgroup of all pods of each kubelet that the hierarchy shows, the outermost first.

    A kubelet's --cgroup-root may lie above it. The search goes level by level; never into kubepods, where a pod may
    make any cgroup, and never into a unit that holds no slices (systemd.slice(5)). Never raises.
    """
    found: list[str] = []
    level = [""]
    for _ in range(_LEVELS_SEARCHED):
        children = [path for above in level for path in _children(layout, above)]
        found += filter(_is_kubepods, children)
        others = (path for path in children if not (path.endswith(_NO_SLICES) or _is_kubepods(path)))
        level = list(islice(others, _FOLDERS_SEARCHED))
    return tuple(found)


def only_kubepods(layout: CgroupLayout) -> tuple[str, ...]:
    """Return the cgroup of all pods for the time before the first pod, if the hierarchy has exactly one.

    Several show nothing: only a pod's own path tells which kubelet's pods come to this daemon. Never raises.
    """
    found = every_kubepods(layout)
    return found if len(found) == 1 else ()


def ambiguity(layout: CgroupLayout) -> str:
    """Say which cgroups may be the cgroup of all pods, and how to leave one; "" if at most one may be. Never raises."""
    found = every_kubepods(layout)
    if len(found) < 2:
        return ""
    named = ", ".join(f"/{path}" for path in found[:_MOST_NAMED]) + (
        ", …" if len(found) > _MOST_NAMED else ""
    )
    return (
        f"{len(found)} cgroups may be the cgroup of all pods ({named}): the first pod's path decides, and until then "
        "no memory is offered; if a kubelet left one behind, remove that with rmdir, children first"
    )


def _is_kubepods(path: str) -> bool:
    return kubepods.is_kubepods(path.rpartition("/")[2])


def _children(layout: CgroupLayout, path: str) -> list[str]:
    folder = layout.folder("cpuset", path) or layout.folder("cpu", path)
    try:
        names = files.entries(folder) if folder is not None else {}
    except KernelInterfaceError:
        return []
    return [f"{path}/{name}".lstrip("/") for name in sorted(names) if names[name]]


@lru_cache(maxsize=1024)
def below_root(path: str) -> str:
    """Return a path without leading, doubled and trailing slashes and without "." components.

    Raises ValueError for "..", for NUL and for a path that is too long. Results are cached: every sweep and every new
    size of the reclaim pool asks for the same paths, and this was a third of a sweep's cost.
    """
    components = [component for component in path.split("/") if component not in ("", ".")]
    if ".." in components or "\0" in path:
        raise ValueError(f"{path[:200]!r} could lead out of the cgroup hierarchy")
    size = len(os.fsencode(path))
    if size >= _PATH_MAX or (size > _NAME_MAX and any(len(os.fsencode(c)) > _NAME_MAX for c in components)):
        raise ValueError(f"{path[:200]!r}… is longer than a path may be")
    return "/".join(components)


def beside(layout: CgroupLayout, path: str) -> tuple[str, ...]:
    """Return the cgroups that together hold all processes outside `path` which lie in any cgroup below the root.

    That is, the others at its own level and at each above it. Raises KernelInterfaceError if a folder cannot be
    listed, ValueError as `below_root`.
    """
    found: list[str] = []
    above = ""
    for step in below_root(path).split("/"):
        folder = layout.folder("cpu", above)
        others = files.entries(folder) if folder is not None else {}
        found += (f"{above}/{name}".lstrip("/") for name in sorted(others) if others[name] and name != step)
        above = f"{above}/{step}".lstrip("/")
    return tuple(found)
