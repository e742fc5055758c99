"""The containers of a node by id: immutable, and a changed copy costs one shelf, not all.

A dict of 250 is copied in 1.5 µs while it is in the processor's caches. A hook finds it cold and pays five times
that, for each container's reference count is written. So the containers lie on shelves by the last sign of their
id (of a hexadecimal one: sixteen), and the ids of a pod's containers on shelves by the pod's. The order is by shelf,
then by age: the same on every run, which a set's would not be.

Beside each shelf lie the ids of its containers by pool: whoever asks for the members of one does not look at all the
others, and a container that comes or goes changes its own shelf's part of that only.
"""

from collections.abc import ItemsView, Iterable, Iterator, Mapping, ValuesView
from functools import reduce
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

if TYPE_CHECKING:
    from nri_coloc.model.state import Assignment

_T = TypeVar("_T")

_SHELVES: Final = 32


Index = list[dict[str, tuple[str, ...]]]
"""Ids of containers by what they have in common, shelf by shelf; never changed in place."""


class Crowd(Mapping[str, "Assignment"]):
    """Made by `of`, `adding` and `without`; two with the same containers are equal."""

    __slots__ = ("_by_id", "_by_pod", "_by_pool")

    def __init__(self, by_id: list[dict[str, "Assignment"]], by_pod: Index, by_pool: Index) -> None:
        self._by_id = by_id
        self._by_pod = by_pod
        self._by_pool = by_pool

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
    def shelves(self) -> list[dict[str, "Assignment"]]:
        """The containers by id, shelf by shelf; not to be changed."""
        return self._by_id

    def of_pod(self, pod_id: str) -> Iterator["Assignment"]:
        """Yield the containers of one pod, the oldest first."""
        return (self[k] for k in self._by_pod[_shelf(pod_id)].get(pod_id, ()))

    def of_pool(self, pool: str) -> list["Assignment"]:
        """Return the containers whose assignment names a pool, by shelf, then by when they came into it."""
        shelves = zip(self._by_id, self._by_pool, strict=True)
        return [shelf[k] for shelf, pools in shelves if pool in pools for k in pools[pool]]

    def in_pool(self, pool: str) -> int:
        """Return how many containers' assignments name a pool."""
        return sum([len(pools[pool]) for pools in self._by_pool if pool in pools])

    def news(self, before: "Crowd") -> Iterator["Assignment"]:
        """Yield who is new or another value than before; shelves that the two share are not looked at."""
        for shelf, former in zip(self._by_id, before.shelves, strict=True):
            if shelf is not former:
                yield from (a for k, a in shelf.items() if former.get(k) is not a)

    def adding(self, assignment: "Assignment") -> "Crowd":
        """Return a copy with this one added, or in the place of the one with its id."""
        by_id, by_pod, by_pool = self._by_id.copy(), self._by_pod, self._by_pool
        container_id, pool = assignment.container.id, assignment.pool
        number = _shelf(container_id)
        shelf = by_id[number] = by_id[number].copy()
        former = shelf.get(container_id)
        if former is None:
            pod_id = assignment.container.pod_id
            by_pod = _with(by_pod, _shelf(pod_id), pod_id, container_id)
            by_pool = _with(by_pool, number, pool, container_id)
        elif former.pool != pool:
            by_pool = _with(_less(by_pool, number, former.pool, container_id), number, pool, container_id)
        shelf[container_id] = assignment
        return Crowd(by_id, by_pod, by_pool)

    def without(self, container_id: str) -> "Crowd":
        """Return a copy without this one, or the crowd itself if it is not there."""
        number = _shelf(container_id)
        if container_id not in self._by_id[number]:
            return self
        by_id = self._by_id.copy()
        shelf = by_id[number] = by_id[number].copy()
        gone = shelf.pop(container_id)
        pod_id = gone.container.pod_id
        by_pod = _less(self._by_pod, _shelf(pod_id), pod_id, container_id)
        return Crowd(by_id, by_pod, _less(self._by_pool, number, gone.pool, container_id))


def _with(index: Index, number: int, key: str, container_id: str) -> Index:
    index = index.copy()
    shelf = index[number] = index[number].copy()
    shelf[key] = (*shelf.get(key, ()), container_id)
    return index


def _less(index: Index, number: int, key: str, container_id: str) -> Index:
    index = index.copy()
    shelf = index[number] = index[number].copy()
    ids = shelf.pop(key)
    if len(ids) > 1:
        at = ids.index(container_id)
        shelf[key] = ids[:at] + ids[at + 1 :]
    return index


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


EMPTY: Final = Crowd(
    [{} for _ in range(_SHELVES)], [{} for _ in range(_SHELVES)], [{} for _ in range(_SHELVES)]
)
