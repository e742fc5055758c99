"""What many companions cost the API server.

etcd and API server are real and alone on this machine; nodes and pods are objects without a kubelet. Each simulated
companion has a token of its own, so that the policies judge its node, and sends the requests of an idle companion:

* a report each minute, on a new connection, because the client closes an idle one after five seconds;
* two watches, of its node and of its pods, each opened again after 290 s;
* its figures for people each five minutes.

`python -m benchmarks companions 500 120`: 500 companions for 120 seconds. `beside-companion` measures a companion.
"""

import json
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from http.client import HTTPSConnection
from itertools import count
from typing import Any, Final

from benchmarks import api_costs
from benchmarks.figures import Figures
from nri_coloc.kubernetes import requests
from nri_coloc.kubernetes.api import WATCH_S, Api
from nri_coloc.kubernetes.publication import SUMMARY_S
from nri_coloc.kubernetes.reporting import HEARTBEAT_S
from tests.cluster.api import kit
from tests.cluster.api_server import ADDRESS, ApiServer, node

NODES: Final = 5000


def run(number: int = 500, seconds: int = 120) -> dict[str, Figures]:
    """Print the costs; there are no durations to keep."""
    with api_costs.served() as server, ExitStack() as stack:
        fleet = Fleet(server, number)
        others = api_costs.watches(server)
        idle = _part(server, lambda: time.sleep(seconds / 4))
        for turn in range(2 * number):
            fleet.watch(turn)
        stack.callback(fleet.close)
        time.sleep(seconds / 8)
        sent: list[int] = []
        part = _part(server, lambda: sent.append(_play(fleet, seconds)))
        watches = api_costs.watches(server) - others
        print(f"{number} companions, {watches} watches: {sent[0] / seconds:.1f} requests a second,")
    print(f"  API server and etcd {part:.1%} of a core, {idle:.1%} without companions")
    print(f"  {1000 * (part - idle) * seconds / sent[0]:.1f} ms of CPU a request")
    print(f"  by calculation for {NODES} nodes: {sent[0] / seconds * NODES / number:.0f} requests a second,")
    print(f"  {(part - idle) * NODES / number:.2f} cores")
    return {}


@dataclass(frozen=True)
class Kind:
    """Requests that each companion repeats after `every_s` seconds. `send` takes the number of the turn."""

    every_s: float
    send: Callable[[int], None]


def _play(fleet: "Fleet", seconds: float) -> int:
    """Send the requests of all companions, spread evenly over the time; return their number."""
    began, sent = time.monotonic(), 0
    for at_s, kind, turn in _turns(fleet.kinds(), seconds):
        time.sleep(max(0.0, began + at_s - time.monotonic()))
        kind.send(turn)
        sent += 1
    time.sleep(max(0.0, began + seconds - time.monotonic()))
    late_s = time.monotonic() - began - seconds
    if late_s > 1.0:
        print(f"too slow: the last request was sent {late_s:.1f} s late")
    return sent


def _turns(kinds: list[Kind], seconds: float) -> list[tuple[float, Kind, int]]:
    """Return all turns within a time: seconds from the beginning, kind and number."""
    found = [(at_s, kind, turn) for kind in kinds for turn, at_s in _times(kind.every_s, seconds)]
    return sorted(found, key=lambda each: each[0])


def _times(every_s: float, seconds: float) -> Iterator[tuple[int, float]]:
    for turn in count():
        if turn * every_s >= seconds:
            return
        yield turn, turn * every_s


class Fleet:
    """Simulated companions of one node each."""

    def __init__(self, server: ApiServer, number: int) -> None:
        admin = server.admin()
        self._server = server
        self._names = [f"n{each}" for each in range(number)]
        self._tokens = [_joined(admin, name) for name in self._names]
        self._version = admin.get("/api/v1/nodes", limit="1")["metadata"]["resourceVersion"]
        self._context = ssl.create_default_context(cafile=str(server.folder / "certs" / "apiserver.crt"))
        self._context.check_hostname = False
        self._watches: dict[int, HTTPSConnection] = {}
        admin.close()

    def kinds(self) -> list[Kind]:
        """Return the requests of all companions together."""
        number = len(self._names)
        return [
            Kind(HEARTBEAT_S / number, self.report),
            Kind(WATCH_S / (2 * number), self.watch),
            Kind(SUMMARY_S / number, self.summarise),
        ]

    def report(self, turn: int) -> None:
        """Send the report of one node."""
        self._patch(turn, kit.status(self._name(turn)), kit.report(f"{turn}"))

    def summarise(self, turn: int) -> None:
        """Write the figures of one node."""
        body = {"spec": {"summary": {"offer": {"cpuMilli": turn, "memoryBytes": turn}}}}
        self._patch(turn, f"{kit.OBJECTS}/{self._name(turn)}", body)

    def watch(self, turn: int) -> None:
        """Open a watch in place of the former one. Nothing is read: the kernel keeps the little that comes."""
        number = turn % (2 * len(self._names))
        name = self._name(number // 2)
        path = (
            f"/api/v1/pods?fieldSelector={requests.selector(name)}"
            if number % 2
            else f"/api/v1/nodes?fieldSelector=metadata.name={name}"
        )
        if number in self._watches:
            self._watches.pop(number).close()
        query = f"watch=true&allowWatchBookmarks=true&timeoutSeconds={2 * WATCH_S}"
        path = f"{path}&{query}&resourceVersion={self._version}"
        self._watches[number] = self._asked(number // 2, "GET", path)

    def close(self) -> None:
        """Close all watches."""
        for each in self._watches.values():
            each.close()

    def _name(self, turn: int) -> str:
        return self._names[turn % len(self._names)]

    def _patch(self, turn: int, path: str, body: dict[str, Any]) -> None:
        self._asked(turn, "PATCH", path, json.dumps(body)).close()

    def _asked(self, turn: int, method: str, path: str, body: str | None = None) -> HTTPSConnection:
        """Send a request on a new connection; return it when the API server has accepted the request."""
        connection = HTTPSConnection(ADDRESS, self._server.port, timeout=30, context=self._context)
        token = self._tokens[turn % len(self._tokens)]
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/merge-patch+json"}
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        if answer.status != 200:
            raise AssertionError(f"{method} {path}: {answer.status}: {answer.read()!r}")
        if method != "GET":
            answer.read()
        return connection


def _joined(admin: Api, name: str) -> str:
    """Make a node, its companion's pod and its ColocationNode; return the token of the companion."""
    admin.create("/api/v1/nodes", node(name))
    admin.create(kit.OBJECTS, kit.colocation_node(name))
    admin.create(kit.COMPANIONS, kit.companion_pod(name))
    return kit.companion_token(admin, name)


def _part(server: ApiServer, work: Callable[[], None]) -> float:
    """Return the part of a core that API server and etcd used during some work."""
    began, before = time.monotonic(), api_costs.server_cpu_s(server)
    work()
    return (api_costs.server_cpu_s(server) - before) / (time.monotonic() - began)
