"""Query the running daemon over HTTP, for the commands that show its state.

The daemon is on this machine, so no proxy is used, even if the environment names one. Names in its answers come from
pods, and a terminal must not obey them: `core.texts` makes them safe to print.
"""

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlencode

from nri_coloc.core import endpoint
from nri_coloc.core.texts import plain
from nri_coloc.errors import ColocError, SettingsError

TIMEOUT_S: Final = 30.0
PAGE: Final = 1000
"""The most records in one answer of `/v1/audit`."""


class DaemonSilent(ColocError):
    """The daemon does not answer, or its answer is not valid."""


def ask(address: str, path: str, **query: str | int) -> dict[str, Any]:
    """Return the daemon's answer at a path, also with an HTTP error status, such as 503 of `/readyz`."""
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
    except (OSError, http.client.HTTPException) as error:
        remedy = "start it, or give the address that it listens on with --http"
        raise DaemonSilent(f"cannot ask the daemon at {address}: {error}; {remedy}") from error
    except (ValueError, RecursionError) as error:
        raise stranger(address) from error
    finally:
        connection.close()
    if not isinstance(found, dict):
        raise stranger(address)
    if response.status == HTTPStatus.BAD_REQUEST and "error" in found:
        raise SettingsError(f"the daemon at {address} refuses that: {plain(found['error'])}")
    return found


def records(address: str, pod: str = "", since: int = 0) -> list[dict[str, Any]]:
    """Return the audit records that the daemon still has, oldest first.

    pod: only records of this pod, "" for all.
    since: only records with a higher sequence number.
    """
    found: list[dict[str, Any]] = []
    while True:
        page = ask(address, "/v1/audit", since=since, pod=pod, limit=PAGE)
        try:
            found += page["records"]
            ended, since = len(page["records"]) < PAGE or page["next"] <= since, page["next"]
        except (KeyError, TypeError) as error:
            if "error" in page:
                raise DaemonSilent(f"the server at {address} says: {plain(page['error'])}") from error
            raise stranger(address) from error
        if ended:
            return found


def records_of_pod(address: str, pod: str) -> list[dict[str, Any]]:
    """Return a pod's audit records, also older ones that the daemon keeps because they explain present values."""
    found = records(address, pod)
    kept = ask(address, "/v1/audit", pod=pod, limit=1).get("kept", [])
    with understood(address):
        return [*(one for one in kept if one["pod"] and one not in found), *found]


@contextmanager
def understood(address: str) -> Iterator[None]:
    """Raise DaemonSilent if the block finds that an answer lacks a field of the daemon's answers."""
    try:
        yield
    except (KeyError, TypeError, AttributeError) as error:
        raise stranger(address) from error


def stranger(address: str) -> DaemonSilent:
    """Return the error for a server whose answers are not those of the daemon."""
    return DaemonSilent(f"the server at {address} is not nri-coloc; give the daemon's address with --http")
