"""Define what an action is: one file of `actions` with its condition, its action, its undo and its table row."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

from nri_coloc.core.knobs import Knobs
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host.knob_files import Applied
from nri_coloc.pressure.verdict import Resource


class Files(Protocol):
    """Writes limits: journalled before they are written, and read back."""

    @property
    def version(self) -> int: ...
    def limit_io(self, path: str, devices: Iterable[str], limit: int) -> Applied: ...
    def unlimit_io(self, path: str) -> tuple[KernelInterfaceError, ...]: ...
    def io_limited(self) -> set[str]: ...


class Place(NamedTuple):
    """One reclaimed pod's cgroups, below the hierarchy's root.

    pod: its own cgroup.
    containers: the cgroups of its containers.
    devices: devices that the limit is for, such as "8:0".
    """

    pod: str
    containers: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()


class Cause(StrEnum):
    """Why a limit is set or changed."""

    HURT = "hurt"
    CALM = "calm"
    NO_RELIEF = "no_relief"
    NOT_ALLOWED = "not_allowed"


class Row(NamedTuple):
    """The action's row in docs/pressure.md."""

    when: str
    does: str
    undone: str


@dataclass(frozen=True, slots=True)
class Action:
    """One action on one reclaimed pod.

    name: of its file.
    resource: the resource that its victims wait for.
    knob: the audit's name of the value.
    least: the floor of the limit.
    is_possible: returns whether a pod can be limited here.
    act: limits the pod and returns what was written.
    undo: takes the limit back and returns refusals.
    left: returns the cgroups that the journal holds limits of, also those of the previous process.
    shown: returns the limit as a knob; None is no limit.
    words: returns the limit for people.
    row: its row of the table.
    """

    name: str
    resource: Resource
    knob: str
    least: float
    is_possible: Callable[[Place], bool]
    act: Callable[[Files, Place, float], Applied]
    undo: Callable[[Files, Place], tuple[KernelInterfaceError, ...]]
    left: Callable[[Files], set[str]]
    shown: Callable[[Place, float | None], Knobs]
    words: Callable[[float], str]
    row: Row
