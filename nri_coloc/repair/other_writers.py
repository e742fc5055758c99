"""The writers of other rooms that the actuator calls: memory limits, quotas, scheduling hints and OOM scores.

Rooms do not import each other, so each writer is described here by the methods that the actuator needs.
"""

from collections.abc import Callable
from typing import Protocol

from nri_coloc.core.knobs import Capability
from nri_coloc.core.report import Subject
from nri_coloc.core.state import Assignment
from nri_coloc.host.knob_files import Later
from nri_coloc.repair.drift import Drifts, Refusals


class MemoryWrites(Protocol):
    """Writes that may reclaim memory, made on a thread of their own."""

    def release(self, path: str) -> None: ...

    def later(self, later: Later, subject: Subject) -> None: ...


class Bandwidths(Protocol):
    """Quotas of pods and containers, by id.

    drifts: their drift, by pod id.
    """

    @property
    def drifts(self) -> Drifts: ...

    def place(self, container_id: str) -> None: ...

    def follow(self, container_id: str) -> None: ...

    def sweep(self) -> None: ...

    def resized(self, pod_id: str) -> None: ...

    def is_resized(self, pod_id: str) -> bool: ...


class Hints(Protocol):
    """Scheduling hints of containers' tasks.

    refusals: by container, the hints that the kernel refused.
    """

    @property
    def refusals(self) -> Refusals: ...

    def place(self, container_id: str) -> None: ...

    def sweep(self) -> None: ...


class Scores(Protocol):
    """OOM scores of containers' processes.

    ids: the containers with a known score.
    """

    @property
    def ids(self) -> set[str]: ...

    def answered(self, assignment: Assignment) -> None: ...

    def keep(self, assignment: Assignment) -> None: ...

    def forget(self, container_id: str) -> None: ...


LookAgain = Callable[[Capability], Capability]
"""Returns the known capabilities, completed by the control files of pods' own cgroups once there are pods."""
