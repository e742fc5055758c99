"""Immutable records: a frozen dataclass to the type checker, a plain one to the interpreter.

`@dataclass(frozen=True)` writes each field through `object.__setattr__`, which makes building a record three times
as dear, and a hook builds about ten of them. mypy refuses every assignment to a field either way (PEP 681), so
nothing is lost that this project relies on.
"""

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

_T = TypeVar("_T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value(cls: type[_T]) -> type[_T]:
    """Make a class a record with slots, equality and a hash over its fields."""
    return dataclass(slots=True, unsafe_hash=True)(cls)
