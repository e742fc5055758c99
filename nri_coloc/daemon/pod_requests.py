"""The CPU request of a pod, read from its own cgroup: the kubelet writes it there, and no tenant can.

The kubelet writes the shares of the whole pod at creation and at each resize (pkg/kubelet/cm/helpers_linux.go,
ResourceConfigForPod), before it calls the runtime. On cgroup v2 many shares have one weight, and kubelets and runc map
them by two formulas: the request is then the one that the runtime was told, where the weight agrees with that, and
else the upper end of what the weight can mean. What the runtime was told counts for nothing alone: it is stale after a
resize.
"""

from collections.abc import Mapping
from typing import Final, Literal, Protocol

from nri_coloc.core import kubepods, weights
from nri_coloc.core.knobs import KERNELS_SHARES, MIN_SHARES
from nri_coloc.core.workload import Pod, milli_of
from nri_coloc.daemon import targets

_KERNELS_WEIGHT: Final = 100
"""cpu.weight of a new cgroup (Documentation/admin-guide/cgroup-v2, "Weights")."""

_MOST_DIGITS: Final = 9


class Files(Protocol):
    """Reads files of cgroups, and knows what they held before us."""

    def text(self, path: str, controller: Literal["cpu"], name: str) -> str | None: ...

    def originals(self, path: str) -> Mapping[str, str]: ...


class PodRequests:
    """Reads one or two files a call; `version` is that of the cgroup hierarchy."""

    def __init__(self, files: Files, version: int) -> None:
        self._files = files
        self._is_v1 = version == 1
        self._name = "cpu.shares" if self._is_v1 else "cpu.weight"
        self._least = MIN_SHARES if self._is_v1 else weights.MIN_WEIGHT

    def read(self, pod: Pod) -> int | None:
        """Return the request in thousandths of a CPU; None where no kubelet has written one."""
        path = targets.pod_path(pod)
        found = self._value(path) if path else None
        if found is None:
            return None
        if found == (KERNELS_SHARES if self._is_v1 else _KERNELS_WEIGHT) and not self._has_kubelet(path):
            return None
        return milli_of(found) if self._is_v1 else _behind(found, pod)

    def _value(self, path: str) -> int | None:
        """Return the value of a pod's file; of a file that holds our smallest weight the value before us, if known."""
        found = _number(self._files.text(path, "cpu", self._name))
        if found == self._least:
            return _number(self._files.originals(path).get(self._name)) or found
        return found

    def _has_kubelet(self, path: str) -> bool:
        """Whether a kubelet keeps this hierarchy: it gives its BestEffort cgroup the smallest weight.

        Source: pkg/kubelet/cm/qos_container_manager_linux.go, Start. A pod that requests one CPU has the kernel's own
        default, so its own file does not tell.
        """
        best_effort = kubepods.best_effort_of(path)
        found = _number(self._files.text(best_effort, "cpu", self._name)) if best_effort else None
        return found is not None and found <= self._least


def _behind(weight: int, pod: Pod) -> int:
    """Return the request behind a weight, thousandths of a CPU.

    A weight stands for a range of 26 thousandths or more. Where whole CPUs lie in it they are the request: nearly all
    requests are whole there, and rounding the upper end up would give one CPU more than was asked for.
    """
    told = pod.resources.shares if pod.resources is not None else None
    if told and weight in (weights.cpu_weight(told), weights.bent_cpu_weight(told)):
        return milli_of(told)
    least, most = map(milli_of, weights.shares_behind(weight))
    whole = most // 1000 * 1000
    return whole if whole >= max(least, 1000) else most


def _number(text: str | None) -> int | None:
    word = (text or "").strip()
    return int(word) if len(word) <= _MOST_DIGITS and word.isascii() and word.isdigit() else None
