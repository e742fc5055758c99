"""Read parts of an API object: parsed JSON whose shape is not trusted. Another shape raises `UnreadableError`.

The API server checks types, so that a wrong shape means another server, a proxy or a fault of ours. `null` and a
missing key are the same, as in Go.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from nri_coloc.pods import quantity

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_LONGEST_SHOWN: Final = 40
"""Characters of a wrong value in an error."""


class UnreadableError(ValueError):
    """A part of an API object has another shape than Kubernetes gives it; the text names the part."""


def child(parent: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    """Return the object at a path of keys; empty if it is missing."""
    found: Any = parent
    for key in path:
        found = found.get(key)
        if found is None:
            return {}
        if not isinstance(found, dict):
            raise UnreadableError(f"{'.'.join(path)}: {_shown(found)} is not an object")
    return found  # type: ignore[no-any-return]  # parsed JSON; the loop checked it


def children(parent: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    """Return the list of objects at a key; empty if it is missing."""
    found = parent.get(key)
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise UnreadableError(f"{key}: {_shown(found)} is not a list of objects")
    return found


def text(parent: Mapping[str, Any], key: str, longest: int) -> str:
    """Return the text at a key; empty if it is missing. `longest`: characters that Kubernetes allows there."""
    found = parent.get(key)
    if found is None:
        return ""
    if not isinstance(found, str) or len(found) > longest:
        raise UnreadableError(f"{key}: {_shown(found)} is not a text of up to {longest} characters")
    return found


def is_name(found: str) -> bool:
    """Return whether a text can be a part of a path of the API. "../x" would name another object."""
    return bool(_NAME.fullmatch(found))


def integer(parent: Mapping[str, Any], key: str, low: int, high: int) -> int:
    """Return the integer at a key; 0 if it is missing."""
    found = parent.get(key)
    if found is None:
        return 0
    if type(found) is not int or not low <= found <= high:
        raise UnreadableError(f"{key}: {_shown(found)} is not an integer from {low} to {high}")
    return found


def amount(found: Any, read: Callable[[str], int] = quantity.whole_bytes) -> int:
    """Return a quantity, rounded up to a whole unit. The API server writes texts; an integer is allowed too."""
    if type(found) is int:
        found = str(found)
    if not isinstance(found, str):
        raise UnreadableError(f"{_shown(found)} is not a quantity")
    return read(found)


def _shown(found: object) -> str:
    """Return the beginning of a value. `repr` of a whole object could take megabytes."""
    return (
        repr(found[:_LONGEST_SHOWN]) if isinstance(found, str) else f"a value of type {type(found).__name__}"
    )
