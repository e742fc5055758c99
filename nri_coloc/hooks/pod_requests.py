"""Read the requests of a pod from its own cgroup: the kubelet writes them there, and no tenant can.

The kubelet writes the shares of the whole pod at creation and at each resize (pkg/kubelet/cm/helpers_linux.go,
ResourceConfigForPod), before it calls the runtime. On cgroup v2 many shares have one weight, and kubelets and runc map
them by two formulas. The runtime's figure is the request if the weight agrees with it. Otherwise the request is the
upper end of the weight's range. The runtime's figure alone does not count, because it is stale after a resize.

Without cgroups for pods (`cgroupsPerQOS: false`) the runtime's figure is the request: the kubelet sends it with the
sandbox. It is not stale there, because a resize needs the pod's cgroup (pkg/kubelet/kuberuntime/kuberuntime_manager.go,
doPodResizeAction).

A Guaranteed pod requests the memory that is its limit. The kubelet writes the limit of the pod with the overhead of its
runtime class: before the containers' limits if it grows, after them if it falls. So the file shows at least the request
(decision 73). The daemon writes this file too, for reclaimed pods: such a value is not read.

`placing.supply` decides whether a CPU request has to be read.
"""

from collections.abc import Mapping
from typing import Final, Literal, Protocol

from nri_coloc.core import knobs, kubepods
from nri_coloc.core.knobs import KERNELS_SHARES, MIN_SHARES, UNLIMITED_BYTES
from nri_coloc.core.workload import KubeQoS, Pod, milli_of
from nri_coloc.repair import targets

_KERNELS_WEIGHT: Final = 100
"""cpu.weight of a new cgroup (Documentation/admin-guide/cgroup-v2, "Weights")."""

_MOST_DIGITS: Final = 9
_MOST_DIGITS_OF_BYTES: Final = 19


class Files(Protocol):
    """Files of cgroups, and their original values."""

    def text(self, path: str, controller: Literal["cpu", "memory"], name: str) -> str | None: ...

    def originals(self, path: str) -> Mapping[str, str]: ...


class PodRequests:
    """Reads one or two files per call.

    version: of the cgroup hierarchy, 1 or 2.
    """

    def __init__(self, files: Files, version: int) -> None:
        self._files = files
        self._is_v1 = version == 1
        self._name = "cpu.shares" if self._is_v1 else "cpu.weight"
        self._least = MIN_SHARES if self._is_v1 else knobs.MIN_WEIGHT
        self._limit = "memory.limit_in_bytes" if self._is_v1 else "memory.max"

    def read(self, pod: Pod) -> int | None:
        """Return the request in thousandths of a CPU; None if no kubelet has written one."""
        path = targets.pod_path(pod)
        if not path:
            return _told(pod)
        found = self._value(path)
        if found is None:
            return None
        if found == (KERNELS_SHARES if self._is_v1 else _KERNELS_WEIGHT) and not self._has_kubelet(path):
            return None
        return milli_of(found) if self._is_v1 else _behind(found, pod)

    def memory(self, pod: Pod) -> int | None:
        """Return a Guaranteed pod's memory request in bytes; None if its cgroup shows no limit of the kubelet's."""
        path = targets.pod_path(pod)
        if not path or pod.kube_qos is not KubeQoS.GUARANTEED or self._limit in self._files.originals(path):
            return None
        limit = _number(self._files.text(path, "memory", self._limit), _MOST_DIGITS_OF_BYTES)
        return max(0, limit - pod.overhead_bytes) if limit and limit < UNLIMITED_BYTES else None

    def _value(self, path: str) -> int | None:
        """Return the value of a pod's file; None if there is none.

        If the file holds our smallest weight, this is the original value, if that is known.
        """
        found = _number(self._files.text(path, "cpu", self._name))
        if found == self._least:
            return _number(self._files.originals(path).get(self._name)) or found
        return found

    def _has_kubelet(self, path: str) -> bool:
        """Return whether a kubelet manages this hierarchy: it gives its BestEffort cgroup the smallest weight.

        The kubelet does so in pkg/kubelet/cm/qos_container_manager_linux.go, Start. The file of a pod that requests one
        CPU shows nothing, because it has the kernel's default.
        """
        best_effort = kubepods.best_effort_of(path)
        found = _number(self._files.text(best_effort, "cpu", self._name)) if best_effort else None
        return found is not None and found <= self._least


def _told(pod: Pod) -> int | None:
    """Return the request that the kubelet sent with a sandbox, thousandths of a CPU; None if it sent none."""
    return pod.resources.cpu_request if pod.resources is not None and pod.resources.shares else None


def _behind(weight: int, pod: Pod) -> int:
    """Return the request behind a weight, thousandths of a CPU.

    A weight stands for a range of 26 thousandths or more. If whole CPUs lie in the range they are the request. Nearly
    all requests there are whole, and rounding the upper end up would give one CPU too many.
    """
    told = pod.resources.shares if pod.resources is not None else None
    if told and weight in (knobs.cpu_weight(told), knobs.bent_cpu_weight(told)):
        return milli_of(told)
    least, most = map(milli_of, knobs.shares_behind(weight))
    whole = most // 1000 * 1000
    return whole if whole >= max(least, 1000) else most


def _number(text: str | None, most_digits: int = _MOST_DIGITS) -> int | None:
    word = (text or "").strip()
    return int(word) if len(word) <= most_digits and word.isascii() and word.isdigit() else None
