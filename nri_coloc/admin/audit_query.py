"""The query of `/v1/audit`: since, pod and limit out of a stranger's text, or a sentence why not."""

from typing import Final, NamedTuple
from urllib.parse import parse_qsl

_MAX_DIGITS: Final = 18
"""A seq of nineteen digits would take longer than the machine lives; int() of a megabyte takes seconds."""


class BadQuery(ValueError):
    """The text is fit to be sent back."""


class AuditQuery(NamedTuple):
    """`pod` is "NAME" or "NAMESPACE/NAME", "" for all."""

    since: int = 0
    pod: str = ""
    limit: int = 100


def parse(text: str) -> AuditQuery:
    """Read a query string; a parameter that is unknown, given twice or no number is refused."""
    given: dict[str, str] = {}
    for name, value in _pairs(text):
        if name not in AuditQuery._fields:
            raise BadQuery(f"unknown parameter {name[:40]!r}; known are since, pod and limit")
        if name in given:
            raise BadQuery(f"{name} is given twice")
        given[name] = value
    return AuditQuery(
        since=_number(given, "since", default=0, least=0),
        pod=_pod(given.get("pod", "")),
        limit=_number(given, "limit", default=100, least=1),
    )


def _pairs(text: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(text, keep_blank_values=True, max_num_fields=8)
    except ValueError as error:
        raise BadQuery(f"the query cannot be read: {error}") from error


def _number(given: dict[str, str], name: str, default: int, least: int) -> int:
    text = given.get(name, "")
    if not text:
        return default
    if len(text) > _MAX_DIGITS:
        raise BadQuery(f"{name} may have {_MAX_DIGITS} digits at most, not the {len(text)} of {text[:40]!r}")
    if not (text.isascii() and text.isdigit() and int(text) >= least):
        raise BadQuery(f"{name} must be a whole number of at least {least}, not {text[:40]!r}")
    return int(text)


def _pod(text: str) -> str:
    namespace, slash, name = text.rpartition("/")
    if (slash and not namespace) or "/" in namespace or (text and not name):
        raise BadQuery(f"pod must be NAME or NAMESPACE/NAME, not {text[:80]!r}")
    return text
