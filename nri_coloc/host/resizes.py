"""Recognise the kubelet's value in a file of a pod's cgroup that no process of ours watched.

A process knows which values it wrote. It does not know the last values of the previous process: the journal holds
original values. But our values of a pod's cgroup have marks of their own, so the value of a resize that came while no
daemon ran can be told from ours, at the next start as well as by `restore`.
"""

from typing import Final

from nri_coloc.core import knobs, kubepods
from nri_coloc.core.knobs import MIN_SHARES, NO_LIMIT, cpu_weight
from nri_coloc.host.knob_files import MEMORY_BOUNDS, PROTECTIONS, as_bytes, as_quota

QUOTAS: Final = frozenset(file.name for file in knobs.files("quota"))

_LEAST: Final = {"cpu.shares": str(MIN_SHARES), "cpu.weight": str(cpu_weight(MIN_SHARES))}
"""The one CPU weight that the daemon writes to a pod's cgroup, by file (`placing.reclaim_cgroups`)."""


def is_kubelets(file: str, shown: str, original: str | None, *, only_lowered: bool = False) -> bool:
    """Return whether a file of a pod's own cgroup shows a value that no process of ours wrote, and no original value.

    - A CPU weight of ours is the least one.
    - A memory bound of ours is never above the original value. A resize to a value below it is not recognised.
    - A memory protection of ours is never below the original value, on a pod's cgroup and on those above it. A kubelet
      with Memory QoS writes there too. A value of it above the original one is not recognised.
    - A raised quota of ours is odd (`host.bandwidth_files`, rule 3). Where the kubelet set none, a VM's may be even.

    original: by the journal, None if the file is not in it.
    only_lowered: the file is a memory bound that we only ever lower, as a host group's. It is judged in any cgroup.
    """
    folder, _, name = file.rpartition("/")
    shown = shown.strip()
    if original is None or shown == original.strip():
        return False
    if name in PROTECTIONS:
        is_a_containers = kubepods.is_a_pods(folder.rpartition("/")[0])
        return not is_a_containers and as_bytes(shown) < as_bytes(original)
    if not (only_lowered or kubepods.is_a_pods(folder)):
        return False
    if name in MEMORY_BOUNDS:
        return as_bytes(shown) > as_bytes(original)
    if name in QUOTAS:
        return as_quota(original) != NO_LIMIT and (as_quota(shown) == NO_LIMIT or not as_quota(shown) % 2)
    return name in _LEAST and shown != _LEAST[name]
