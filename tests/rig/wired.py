"""The graph of objects: finds attributes that hold an object of the product and change while the daemon runs.

A graph begins at the wired parts and goes through attributes, tuples, bound methods, partials and closures. Values are
left out (frozen dataclasses, named tuples, mappings, enumerations, messages): the daemon replaces them by design.
"""

from collections.abc import Hashable, Iterator, Mapping
from enum import Enum
from functools import partial
from types import FunctionType, MethodType
from typing import Any

PRODUCT = "nri_coloc."
GENERATED = "_pb"


def is_ours(found: object) -> bool:
    """Return whether it is a long-lived object of the product: an instance with attributes that is no value."""
    kind = type(found)
    if not kind.__module__.startswith(PRODUCT) or GENERATED in kind.__module__.split("."):
        return False
    if isinstance(found, tuple | frozenset | Mapping | Enum | BaseException):
        return False
    return not _is_a_value(kind)


def _is_a_value(kind: type) -> bool:
    """Return whether its instances are immutable.

    The type checker ensures that for the model's records (`core.value`).
    """
    made: Any = getattr(kind, "__dataclass_params__", None)
    return made is not None and bool(made.frozen or made.unsafe_hash)


def held(value: object) -> Iterator[object]:
    """Yield the objects of the product that a value leads to without passing through another one of them."""
    if is_ours(value):
        yield value
    elif isinstance(value, MethodType):
        yield from held(value.__self__)
    elif isinstance(value, partial):
        for part in (value.func, *value.args, *value.keywords.values()):
            yield from held(part)
    elif isinstance(value, FunctionType):
        for cell in value.__closure__ or ():
            yield from held(cell.cell_contents)
    elif type(value) is tuple:
        for part in value:
            yield from held(part)


def named(value: object) -> Hashable:
    """Return the names in a value: the objects that it leads to, and the functions through which it does."""
    if is_ours(value):
        return id(value)
    if isinstance(value, MethodType):
        return (value.__func__, named(value.__self__))
    if isinstance(value, partial):
        return (named(value.func), *map(named, value.args), *map(named, value.keywords.values()))
    if isinstance(value, FunctionType):
        return (value.__code__, *(named(cell.cell_contents) for cell in value.__closure__ or ()))
    if type(value) is tuple:
        return tuple(found for found in map(named, value) if found is not None) or None
    return None


def attributes(owner: object) -> dict[str, Any]:
    """Return an object's attributes by name, also those in slots."""
    slots = [name for kind in type(owner).__mro__ for name in _slots(kind)]
    found = {name: getattr(owner, name) for name in slots if hasattr(owner, name)}
    return found | getattr(owner, "__dict__", {})


def _slots(kind: type) -> tuple[str, ...]:
    slots = kind.__dict__.get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


class Graph:
    """Hold the graph of the moment when this is made; `changed` compares it with the present one."""

    def __init__(self, *roots: object) -> None:
        self._known: dict[int, tuple[object, dict[str, Hashable]]] = {}
        waiting = [*roots]
        while waiting:
            owner = waiting.pop()
            if id(owner) in self._known:
                continue
            found = attributes(owner)
            self._known[id(owner)] = owner, {name: named(value) for name, value in found.items()}
            waiting += (each for value in found.values() for each in held(value))

    def __len__(self) -> int:
        return len(self._known)

    @property
    def classes(self) -> set[str]:
        """Return the names of the classes that the graph has objects of."""
        return {type(owner).__name__ for owner, _ in self._known.values()}

    def changed(self) -> set[str]:
        """Return the attributes that lead to other objects than they did, as `Class.attribute`."""
        return {
            f"{type(owner).__name__}.{name}"
            for owner, before in self._known.values()
            for name, value in attributes(owner).items()
            if named(value) != before.get(name)
        }
