"""Where a kubelet keeps its pods: what the names of cgroups tell, under either driver; pure.

"kubepods" under the cgroupfs driver, "kubepods.slice" under systemd's, either below the kubelet's own --cgroup-root
("kubelet.slice/kubelet-kubepods.slice"); in it the QoS classes but Guaranteed, in these the pods (pkg/kubelet/cm,
GetPodContainerName).
"""

from collections.abc import Callable, Collection, Iterable
from typing import Final

_KUBEPODS: Final = "kubepods"
_SLICE: Final = ".slice"
_QOS: Final = ("", "/burstable", "/besteffort")


def kubepods_of(path: str) -> str:
    """Return the part of a path down to kubepods, "" if it lies elsewhere."""
    parts = path.split("/")
    for depth, part in enumerate(parts):
        stem = part.removesuffix(_SLICE)
        if stem == _KUBEPODS or (stem != part and stem.endswith(f"-{_KUBEPODS}")):
            return "/".join(parts[: depth + 1])
    return ""


def of_pods(paths: Iterable[str]) -> tuple[str, ...]:
    """Return the kubepods in which these pods lie, each once: one for each kubelet whose pods they are.

    paths: the pods' own cgroups. A path outside any kubepods counts for none.
    """
    parents = dict.fromkeys([path.rpartition("/")[0] for path in paths])
    return tuple(dict.fromkeys(filter(None, map(kubepods_of, parents))))


def best_effort_of(path: str) -> str:
    """Return the QoS cgroup of BestEffort pods on the node of a pod's path, "" if the path is not below kubepods."""
    kubepods = kubepods_of(path)
    return _in(kubepods, "besteffort") if kubepods else ""


def burstable_in(kubepods: str) -> str:
    """Return the QoS cgroup of Burstable pods, below the cgroup of all pods."""
    return _in(kubepods, "burstable")


def _in(kubepods: str, qos: str) -> str:
    if not kubepods.endswith(_SLICE):
        return f"{kubepods}/{qos}"
    stem = kubepods.rpartition("/")[2].removesuffix(_SLICE)
    return f"{kubepods}/{stem}-{qos}{_SLICE}"


def levels(path: str) -> tuple[str, ...]:
    """Return a cgroup and those above it, without the root, from the top."""
    parts = path.split("/") if path else []
    return tuple("/".join(parts[: depth + 1]) for depth in range(len(parts)))


def is_kubepods(name: str) -> bool:
    """Return whether a cgroup's own name is the name that the kubelet gives to the cgroup of all pods."""
    return bool(kubepods_of(name))


def class_below(cgroup_parent: str) -> str | None:
    """Return the name of the QoS class in a pod's cgroup parent: "besteffort", "burstable" or "" for Guaranteed.

    None if the parent is not in kubepods. Names above kubepods are the kubelet's --cgroup-root and say nothing.
    """
    last = cgroup_parent.rstrip("/").rpartition("/")[2]
    stem = last.removesuffix(_SLICE)
    names = stem.split("-") if stem != last else cgroup_parent.split("/")
    if _KUBEPODS not in names:
        return None
    below = names[names.index(_KUBEPODS) + 1 :]
    return below[0] if below and f"/{below[0]}" in _QOS else ""


def is_a_pods(folder: str) -> bool:
    """Whether a folder is a pod's own cgroup: "…/kubepods/burstable/pod<uid>" or "…/kubepods-burstable-pod<uid>.slice".

    Of others a name alone says nothing: "podman", "hadoop-pods.slice".
    """
    parent, _, name = folder.rpartition("/")
    stem = name.removesuffix(_SLICE)
    if stem != name:
        classes, _, uid = stem.rpartition("-pod")
        return bool(uid) and "-" not in uid and _KUBEPODS in classes.split("-")
    kubepods = kubepods_of(parent)
    return name.startswith("pod") and name != "pod" and bool(kubepods) and parent[len(kubepods) :] in _QOS


def is_elsewhere(files: Collection[str], mounts: Collection[str], is_there: Callable[[str], bool]) -> bool:
    """Return whether cgroups' files were written below another root than the root that `is_there` looks at.

    A missing file alone proves nothing: pods end, and their cgroups with them. The kubelet's own cgroup stays after its
    pods end; for a cgroup outside it, the mounted hierarchy stays. If none of these is there, the files were
    written below another root. Without files the answer is False.
    """
    return bool(files) and not any(is_there(file) or is_there(_stays(file, mounts)) for file in files)


def _stays(file: str, mounts: Collection[str]) -> str:
    """Return the path that outlives a cgroup's file; the file itself if it lies in no mounted hierarchy."""
    return kubepods_of(file) or next((mount for mount in mounts if file.startswith(f"{mount}/")), file)
