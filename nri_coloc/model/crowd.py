"""The containers of a node by id: immutable, and a changed copy costs one shelf, not all.

A dict of 250 is copied in 1.5 µs while it is in the processor's caches. A hook finds it cold and pays five times
that, for each container's reference count is written. So the containers lie on shelves by the last sign of their
id (of a hexadecimal one: sixteen), and the ids of a pod's containers on shelves by the pod's. The order is by shelf,
then by age: the same on every run, which a set's would not be.
"""

from collections.abc import ItemsView, Iterable, Iterator, Mapping, ValuesView
from functools import reduce
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

if TYPE_CHECKING:
    from nri_coloc.model.state import Assignment

_T = TypeVar("_T")

_SHELVES: Final = 32


class Crowd(Mapping[str, "Assignment"]):
    """Made by `of`, `adding` and `without`; two with the same containers are equal."""

    __slots__ = ("_by_id", "_by_pod")

    def __init__(
        self, by_id: list[dict[str, "Assignment"]], by_pod: list[dict[str, tuple[str, ...]]]
    ) -> None:
        self._by_id = by_id
        self._by_pod = by_pod

    @classmethod
    def of(cls, assignments: Iterable["Assignment"]) -> "Crowd":
        """Gather containers."""
        return reduce(Crowd.adding, assignments, EMPTY)

    def __getitem__(self, container_id: str) -> "Assignment":
        return self._by_id[_shelf(container_id)][container_id]

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(self._by_id)

    def __len__(self) -> int:
        return sum(map(len, self._by_id))

    def __contains__(self, container_id: object) -> bool:
        return container_id in self._by_id[_shelf(str(container_id))]

    @overload
    def get(self, container_id: str, /) -> "Assignment | None": ...
    @overload
    def get(self, container_id: str, /, default: "Assignment | _T") -> "Assignment | _T": ...
    def get(self, container_id: str, /, default: Any = None) -> Any:
        """Return a container if it is there; spelled out, for the inherited one raises and catches."""
        return self._by_id[_shelf(container_id)].get(container_id, default)

    def values(self) -> ValuesView["Assignment"]:
        """Return a view of the containers; the inherited one looks each of them up by its id, five times as dear."""
        return _Values(self)

    def items(self) -> ItemsView[str, "Assignment"]:
        """Return a view of (id, container), for the same reason."""
        return _Items(self)

    @property
    def shelves(self) -> Iterable[dict[str, "Assignment"]]:
        """The containers by id, shelf by shelf; not to be changed."""
        return self._by_id

    def of_pod(self, pod_id: str) -> Iterator["Assignment"]:
        """Yield the containers of one pod, the oldest first."""
        return (self[k] for k in self._by_pod[_shelf(pod_id)].get(pod_id, ()))

    def adding(self, assignment: "Assignment") -> "Crowd":
        """Return a copy with this one added, or in the place of the one with its id."""
        by_id, by_pod = self._by_id.copy(), self._by_pod
        container_id, number = assignment.id, _shelf(assignment.id)
        shelf = by_id[number] = by_id[number].copy()
        if container_id not in shelf:
            by_pod, pod_id = by_pod.copy(), assignment.container.pod_id
            number = _shelf(pod_id)
            pods = by_pod[number] = by_pod[number].copy()
            pods[pod_id] = (*pods.get(pod_id, ()), container_id)
        shelf[container_id] = assignment
        return Crowd(by_id, by_pod)

    def without(self, container_id: str) -> "Crowd":
        """Return a copy without this one, or the crowd itself if it is not there."""
        number = _shelf(container_id)
        if container_id not in self._by_id[number]:
            return self
        by_id, by_pod = self._by_id.copy(), self._by_pod.copy()
        shelf = by_id[number] = by_id[number].copy()
        pod_id = shelf.pop(container_id).container.pod_id
        number = _shelf(pod_id)
        pods = by_pod[number] = by_pod[number].copy()
        left = tuple(k for k in pods.pop(pod_id) if k != container_id)
        if left:
            pods[pod_id] = left
        return Crowd(by_id, by_pod)


class _Values(ValuesView["Assignment"]):
    __slots__ = ()
    _mapping: Crowd

    def __iter__(self) -> Iterator["Assignment"]:
        return chain.from_iterable(shelf.values() for shelf in self._mapping.shelves)


class _Items(ItemsView[str, "Assignment"]):
    __slots__ = ()
    _mapping: Crowd

    def __iter__(self) -> Iterator[tuple[str, "Assignment"]]:
        return chain.from_iterable(shelf.items() for shelf in self._mapping.shelves)


def _shelf(id_: str) -> int:
    return ord(id_[-1]) % _SHELVES if id_ else 0


EMPTY: Final = Crowd([{} for _ in range(_SHELVES)], [{} for _ in range(_SHELVES)])
