"""Check that the daemon's report equals the simulated cgroup files: the demo's own proof.

The check is repeated for a while, because writing, reading back and reporting take time.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from nri_coloc.core import cpuset
from nri_coloc.core.texts import counted
from nri_coloc.errors import ColocError
from nri_coloc.sim.node import Node

SETTLE_S: Final = 40.0
"""How long the same difference may last. The daemon checks every cgroup every two seconds if the machine permits it;
the wait ends as soon as both agree."""

Reported = Sequence[Mapping[str, Any]]


class ReportIsWrong(ColocError):
    """The daemon's report differs from the files that it wrote."""


class Check:
    """Compares at certain hours, repeatedly until report and files agree; after `SETTLE_S` seconds it fails."""

    def __init__(self, node: Node, hours: Sequence[float]) -> None:
        self.compared: list[int] = []
        self._node = node
        self._due = list(hours)
        self._waits = False
        self._wrong: list[str] = []
        self._since = 0.0

    @property
    def waits(self) -> bool:
        """Return whether a comparison has not succeeded yet."""
        return self._waits

    def look(self, hour: float, reported: Reported) -> None:
        """Compare if a comparison is due; raise ReportIsWrong after the same difference for `SETTLE_S` seconds."""
        while self._due and self._due[0] <= hour:
            self._due.pop(0)
            self._waits = True
        if not self._waits:
            return
        wrong = list(differences(self._node, reported))
        if wrong != self._wrong:
            self._wrong, self._since = wrong, time.monotonic()
        if not wrong:
            self.compared.append(len(reported))
            self._waits = False
        elif time.monotonic() > self._since + SETTLE_S:
            raise ReportIsWrong("the daemon's report and the cgroup files differ: " + "; ".join(wrong))

    def words(self) -> str:
        """Return the numbers of compared containers, as a sentence."""
        counts = ", ".join(map(str, self.compared))
        return (
            f"Check passed: the daemon's report and the cgroup files agree on {sum(self.compared)} pins "
            f"({len(self.compared)} comparisons, of {counts} containers);\n"
            "no other pod could run on a dedicated container's CPUs."
        )


def differences(node: Node, reported: Reported) -> Iterator[str]:
    """Yield a sentence for each container whose files differ from the daemon's report."""
    known = node.runtime.containers
    if {one["id"] for one in reported} != set(known):
        yield f"{counted(len(reported), 'container')} in the report, {len(known)} on the node"
        return
    files = {one["id"]: node.cpus(one["id"]) for one in reported}
    for one in reported:
        name, found = known[one["id"]].name, files[one["id"]]
        for kind in ("cpus", "actual_cpus"):
            if cpuset.parse(one[kind]) != found:
                yield f"{name}: {kind} {one[kind] or 'none'}, the files have {cpuset.render(found)}"
        strangers = (other for other in files if known[other].pod is not known[one["id"]].pod)
        if one["exclusive"] and any(files[stranger] & found for stranger in strangers):
            yield f"{name}: another pod may run on its CPUs {cpuset.render(found)}"
