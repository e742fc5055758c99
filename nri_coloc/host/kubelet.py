"""Read from the kubelet's folder whether its static CPU manager pins containers, and to which CPUs.

Two files are read, and no file is written. The kubelet works with its state file, and refuses to start with another
policy than that of the file. Its configuration file is read only while there is no state file. Callers decide which
CPUs the daemon places.

The state file has two formats. Since Kubernetes 1.18 it has `entries` by pod UID and container name. From 1.36 on
`data` repeats them as a text, together with `podEntries`; if the file has `data`, only `data` is used
(pkg/kubelet/cm/cpumanager/state/checkpoint.go).
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any, Final, Literal

from nri_coloc.core import cpuset
from nri_coloc.core.cpuset import CPUMask
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host.files import text

FOLDER: Final = "/var/lib/kubelet"
STATE_FILE: Final = f"{FOLDER}/cpu_manager_state"
CONFIG_FILE: Final = f"{FOLDER}/config.yaml"

PLUGINS: Final = f"{FOLDER}/plugins_registry"

MEND: Final = (
    f"run the kubelet with --cpu-manager-policy=none (cpuManagerPolicy in its configuration), remove {STATE_FILE} "
    "and restart it; or set node.kubeletCPUManager to preserve-kubelet, which leaves the kubelet's CPUs alone"
)
"""Advice about a static CPU manager."""

MEND_FILE: Final = (
    "if a newer kubelet wrote it, install a newer nri-coloc; otherwise remove it and restart the kubelet"
)
"""Advice about a file that cannot be understood; the kubelet refuses to start with a torn state file."""

Policy = Literal["none", "static", "unknown"]
Entries = Mapping[str, Mapping[str, CPUMask]]
"""Pinned CPUs by pod uid and container name; the name "" means the whole pod."""

_KEY: Final = "cpuManagerPolicy"
_LINE: Final = re.compile(rf"""^(?:{_KEY}|"{_KEY}"|'{_KEY}')[ \t]*:(?P<value>[^#\n]*)""", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class CPUManager:
    """The kubelet's CPU manager, as its files show it.

    source: the file that was read, "" if there is none.
    problem: why the policy is unknown.
    default: the CPUs of all containers that are not pinned, 0 if the file names none.
    """

    policy: Policy
    entries: Entries = field(default_factory=dict)
    source: str = ""
    problem: str = ""
    default: CPUMask = 0

    @property
    def exclusive(self) -> CPUMask:
        """Every CPU that the kubelet has pinned a container to."""
        return union(self.entries)


def union(entries: Entries) -> CPUMask:
    """Return all CPUs of the entries."""
    return reduce(or_, (cpus for containers in entries.values() for cpus in containers.values()), 0)


def driver_socket(host_root: str) -> str:
    """Return the path of the socket by which the DRA CPU driver has registered with the kubelet, "" for none.

    The name is "dra.cpu-reg.sock", with the pod's uid before "-reg" where drivers are updated without a gap
    (k8s.io/dynamic-resource-allocation/kubeletplugin).
    """
    folder = f"{host_root.rstrip('/')}{PLUGINS}"
    try:
        found = sorted(path.name for path in Path(folder).glob("dra.cpu-*reg.sock"))
    except OSError:
        return ""
    return f"{PLUGINS}/{found[0]}" if found else ""


LARGEST: Final = 1 << 20
"""Bytes of a file that is read; of a larger one the beginning alone, which may lack the policy."""


def files(host_root: str) -> tuple[str, str]:
    """Return the two files for a watch on them, the file that takes precedence first."""
    root = host_root.rstrip("/")
    return f"{root}{STATE_FILE}", f"{root}{CONFIG_FILE}"


def read(host_root: str) -> CPUManager:
    """Look below `host_root`; without the kubelet's folder there is no such manager. Never raises."""
    state, config = files(host_root)
    return _file(state, of_state) or _file(config, of_config) or CPUManager("none")


def _file(path: str, meaning: Callable[[str, str], CPUManager]) -> CPUManager | None:
    try:
        content = text(path)
        is_huge = content is not None and Path(path).stat().st_size > LARGEST
    except KernelInterfaceError as error:
        return CPUManager("unknown", source=path, problem=str(error))
    except OSError:
        return None  # removed since it was read
    if is_huge:
        problem = f"{path} has more than 1 MiB and is not read; no kubelet writes such a file"
        return CPUManager("unknown", source=path, problem=problem)
    return None if content is None else meaning(content, path)


def of_state(content: str, source: str) -> CPUManager:
    """Read the state file's text."""
    try:
        found = json.loads(content)
        if found.get("data"):
            found = json.loads(found["data"])
        entries = {uid: _masks(containers) for uid, containers in (found.get("entries") or {}).items()}
        for uid, pod in (found.get("podEntries") or {}).items():
            entries[uid] = {**entries.get(uid, {}), "": _mask(pod["cpuSet"])}
        default = _mask(found.get("defaultCpuSet") or "")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        problem = f"{source} is not a state file of the kubelet's CPU manager: {_short(error)}"
        return CPUManager("unknown", source=source, problem=problem)
    return _named(found.get("policyName"), source, entries, default)


def of_config(content: str, source: str) -> CPUManager:
    """Find the one key in the kubelet's configuration, YAML or JSON; absent means none.

    A line at the margin is enough: in YAML a key of the top level stands nowhere else, and no YAML library is
    wanted here for one word.
    """
    if content.lstrip().startswith("{"):
        try:
            return _named(json.loads(content).get(_KEY) or "none", source)
        except (ValueError, RecursionError) as error:
            problem = f"{source} is neither YAML nor JSON: {_short(error)}"
            return CPUManager("unknown", source=source, problem=problem)
    line = _LINE.search(content)
    value = line["value"].strip().strip("\"'") if line else ""
    return _named(value or "none", source)


def _named(policy: Any, source: str, entries: Entries | None = None, default: CPUMask = 0) -> CPUManager:
    if policy == "static":
        return CPUManager("static", entries or {}, source, default=default)
    if policy == "none":
        return CPUManager("none", source=source)
    problem = f"{source} names a CPU manager policy that is neither none nor static: {_short(policy)}"
    return CPUManager("unknown", source=source, problem=problem)


def _masks(containers: Mapping[str, str]) -> dict[str, CPUMask]:
    return {name: _mask(cpus) for name, cpus in containers.items()}


def _mask(cpus: Any) -> CPUMask:
    if not isinstance(cpus, str):
        raise TypeError(f"{_short(cpus)} is not a list of CPUs")
    return cpuset.parse(cpus)


def _short(thing: object) -> str:
    return repr(str(thing)[:120])
