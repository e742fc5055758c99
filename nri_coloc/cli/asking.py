"""Query the running daemon over HTTP, for the commands that show its state.

The daemon is on this machine, so no proxy is used, even if the environment names one. Another process may have its port
(`listeners`): only root and the caller's own user are believed. Names in its answers come from pods, and a terminal
must not obey them: `core.texts` makes them safe to print.
"""

import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from ipaddress import ip_address
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from nri_coloc.cli import listeners
from nri_coloc.core import endpoint
from nri_coloc.core.texts import plain
from nri_coloc.errors import ColocError, KernelInterfaceError, SettingsError

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
        connection.connect()
        _refuse_strangers(connection, address)
        connection.request("GET", f"{path}?{urlencode(query)}" if query else path)
        response = connection.getresponse()
        found = json.load(response)
    except (OSError, http.client.HTTPException) as error:
        remedy = "start it, or give the address that it listens on with --http"
        raise DaemonSilent(f"cannot ask the daemon at {address}: {plain(error)}; {remedy}") from error
    except (ValueError, RecursionError) as error:
        raise stranger(address) from error
    finally:
        connection.close()
    if not isinstance(found, dict):
        raise stranger(address)
    if response.status in (HTTPStatus.BAD_REQUEST, HTTPStatus.MISDIRECTED_REQUEST) and "error" in found:
        raise SettingsError(f"the daemon at {address} refuses that: {plain(found['error'])}")
    return found


def _refuse_strangers(connection: http.client.HTTPConnection, address: str) -> None:
    """Raise DaemonSilent if a process of another user than root and ours listens at this machine's address."""
    host, port = connection.sock.getpeername()[:2]
    try:
        found = listeners.strangers(host, port)
    except KernelInterfaceError as error:
        raise DaemonSilent(f"the user that listens at {address} is unknown: {error}") from error
    if found is None and ip_address(host).is_loopback:
        raise DaemonSilent(f"the process that listened at {address} has ended; try again")
    if found:
        raise DaemonSilent(
            f"a process of user {min(found)} listens at {address} in the daemon's place: end it (`ss -ltnp` names it), "
            "and the daemon takes the port"
        )


class OfPod(NamedTuple):
    """The audit records of one pod; a record may be in both lists.

    kept: the records that explain the pod's present values and the pools, of any age.
    records: the pod's records that the daemon still has, oldest first.
    """

    kept: list[dict[str, Any]]
    records: list[dict[str, Any]]

    @property
    def older(self) -> list[dict[str, Any]]:
        """Return the kept records of the pod itself that are not among `records`."""
        known = {identity(one) for one in self.records}
        return [one for one in self.kept if one["pod"] and identity(one) not in known]


def records(address: str, since: int = 0) -> list[dict[str, Any]]:
    """Return the audit records that the daemon still has, oldest first.

    since: only records with a higher sequence number.
    """
    return [record for page in _pages(address, since) for record in page["records"]]


def records_of_pod(address: str, pod: str) -> OfPod:
    """Return a pod's audit records. Each answer has the kept records too; those of the last answer are returned."""
    pages = list(_pages(address, 0, pod))
    return OfPod(pages[-1].get("kept", []), [record for page in pages for record in page["records"]])


def identity(record: Mapping[str, Any]) -> tuple[int, str]:
    """Return the sequence number and the time of a record. The number begins again with each process."""
    return record["seq"], record["ts"]


def _pages(address: str, since: int, pod: str = "") -> Iterator[dict[str, Any]]:
    """Yield the answers that together have every record after `since`; `pod`: only records of this pod."""
    while True:
        page = ask(address, "/v1/audit", since=since, pod=pod, limit=PAGE)
        try:
            # a daemon of an earlier version does not say whether there are more
            is_last = len(page["records"]) == 0 or page["next"] <= since or not page.get("more", True)
            since = page["next"]
        except (KeyError, TypeError) as error:
            if "error" in page:
                raise DaemonSilent(f"the server at {address} says: {plain(page['error'])}") from error
            raise stranger(address) from error
        yield page
        if is_last:
            return


@contextmanager
def understood(address: str) -> Iterator[None]:
    """Raise DaemonSilent if the block finds that an answer lacks a field of the daemon's, or has another value."""
    try:
        yield
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise stranger(address) from error


def stranger(address: str) -> DaemonSilent:
    """Return the error for a server whose answers are not those of the daemon."""
    return DaemonSilent(f"the server at {address} is not nri-coloc; give the daemon's address with --http")
