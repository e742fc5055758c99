"""The kubelet's own CPU manager while the daemon runs: the CPUs that it pins, and their effect on our settings.

Its files are checked by identity, time and size, as the configuration is: two stats. The kubelet replaces its state
file whole, when a pod is admitted and before its sandbox exists. Hooks check it too, because the next turn of the loop
may come after the container.
"""

import os
from dataclasses import replace

from nri_coloc.core import cpuset
from nri_coloc.core.settings import Tuning
from nri_coloc.host import kubelet

Identity = tuple[tuple[int, int, int] | None, ...]


class KubeletWatch:
    """`look` returns whether something changed; `over` and `problem` return the effect."""

    def __init__(self, host_root: str) -> None:
        self._host_root = host_root
        self._seen = self._identity()
        self.found = self._known = kubelet.read(host_root)

    def look(self) -> bool:
        """Read the files again if they changed; return whether their content differs."""
        identity = self._identity()
        if identity == self._seen:
            return False
        self._seen, before = identity, self.found
        self.found = kubelet.read(self._host_root)
        if self.found.policy != "unknown":
            self._known = self.found
        return self.found != before

    def over(self, tuning: Tuning) -> Tuning:
        """Return the settings with the kubelet's CPUs: its pinned ones, and beside a driver its default set."""
        if tuning.dra_driver:
            tuning = replace(tuning, kubelet_default=self._known.default)
        return replace(tuning, kept_by_kubelet=self._known.entries) if self._known.entries else tuning

    def problem(self, tuning: Tuning) -> str:
        """Return why the settings and the kubelet do not go together, "" if they do.

        A file that can no longer be read ends nothing: the last known policy and CPUs count.
        """
        unread = f"{self.found.problem}; {kubelet.MEND_FILE}; " if self.found.policy == "unknown" else ""
        if self._known.policy == "static" and not tuning.preserve_kubelet:
            active = f"the kubelet's static CPU manager is active ({self._known.source})"
            return f"{unread}{active} and pins containers too: {kubelet.MEND}"
        if unread and tuning.preserve_kubelet:
            return f"{unread}the kubelet's last known CPUs are left alone: CPUs {self._cpus()}"
        return ""

    def remark(self, tuning: Tuning) -> str:
        """Return that it is unknown whether the kubelet pins containers, "" if it is known or `problem` says so."""
        if self.found.policy != "unknown" or self.problem(tuning):
            return ""
        return f"{self.found.problem}; whether it pins containers is unknown: {kubelet.MEND_FILE}"

    def words(self) -> str:
        """Return the findings in words, for the audit."""
        if self.found.policy == "unknown":
            return self.found.problem
        if self.found.policy == "none":
            return "the kubelet's CPU manager pins nothing: its policy is none"
        return f"the kubelet's static CPU manager has pinned containers to CPUs {self._cpus()}"

    def _cpus(self) -> str:
        return cpuset.render(kubelet.union(self._known.entries)) or "none"

    def _identity(self) -> Identity:
        return tuple(_stat(path) for path in kubelet.files(self._host_root))


def _stat(path: str) -> tuple[int, int, int] | None:
    try:
        status = os.stat(path)  # noqa: PTH116 - a Path costs more than the call
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
