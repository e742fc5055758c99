"""Asking the running daemon over HTTP, for the commands that show what it knows.

It is on this machine: no proxy is asked, whatever the environment says. Names in its answers come from pods, and a
terminal must not obey them: `plain` makes them fit to print.
"""

import http.client
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlencode

from nri_coloc.core import endpoint
from nri_coloc.errors import ColocError, SettingsError

TIMEOUT_S: Final = 30.0
PAGE: Final = 1000
"""The most records that `/v1/audit` gives at once."""


_WHITE_SPACE: Final = re.compile(r"[^\S ]+")


class DaemonSilent(ColocError):
    """The daemon cannot be asked, or answered what makes no sense."""


def ask(address: str, path: str, **query: str | int) -> dict[str, Any]:
    """Return what the daemon says at a path, whatever its status (a `/readyz` that says no is an answer too)."""
    try:
        host, port = endpoint.split(address)
    except ValueError as error:
        raise SettingsError(f"--http: {error}; allowed: {endpoint.ALLOWED}") from error
    try:
        connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
    except http.client.InvalidURL as error:
        raise SettingsError(f"--http {address!r}: no such address: {error}") from error
    try:
        connection.request("GET", f"{path}?{urlencode(query)}" if query else path)
        response = connection.getresponse()
        found = json.load(response)
    except (OSError, http.client.HTTPException, ValueError, RecursionError) as error:
        raise DaemonSilent(f"cannot ask the daemon at {address}: {error}") from error
    finally:
        connection.close()
    if not isinstance(found, dict):
        raise DaemonSilent(f"the server at {address} is not nri-coloc")
    if response.status == HTTPStatus.BAD_REQUEST and "error" in found:
        raise SettingsError(f"the daemon at {address} refuses that: {found['error']}")
    return found


def records(address: str, pod: str = "", since: int = 0) -> list[dict[str, Any]]:
    """Return the audit records that the daemon still has, of one pod if it is named; oldest first.

    `since`: the sequence number after which they begin.
    """
    found: list[dict[str, Any]] = []
    while True:
        page = ask(address, "/v1/audit", since=since, pod=pod, limit=PAGE)
        try:
            found += page["records"]
            ended, since = len(page["records"]) < PAGE or page["next"] <= since, page["next"]
        except (KeyError, TypeError) as error:
            what = f"says: {page['error']}" if "error" in page else "is not nri-coloc"
            raise DaemonSilent(f"the server at {address} {what}") from error
        if ended:
            return found


@contextmanager
def understood(address: str) -> Iterator[None]:
    """Have an answer that lacks what the daemon's has be a stranger's; raises DaemonSilent."""
    try:
        yield
    except (KeyError, TypeError, AttributeError) as error:
        raise DaemonSilent(f"the server at {address} is not nri-coloc") from error


def plain(text: object) -> str:
    """Return a text on one line: a line break or tab as one space, other control characters as "?"."""
    return "".join(sign if sign.isprintable() else "?" for sign in _WHITE_SPACE.sub(" ", str(text)))
