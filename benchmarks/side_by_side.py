"""`hook.side_by_side.*`: our daemon beside the official Go stub, asked by the official Go adaptation, in one run.

Two runtimes of the same build, one with our daemon, one with a Go plugin whose handler is empty, get the same
pods and the same 250 containers. Then they take turns, round by round, so that other work on the machine
meets both. The time is the runtime's own: from its call of CreateContainer to the merged answer, everything
that the adaptation does included.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from threading import Event
from typing import Any, Final, Self

from google.protobuf.json_format import MessageToDict

from benchmarks import figures
from benchmarks.hook import Numbers
from benchmarks.runtime import container_of, pod_of
from nri_coloc._pb import nri_pb2
from nri_coloc.sim import machines
from tests.rig import go_programs
from tests.rig.go_peer import Peer

LIVE: Final = 250
PODS: Final = 20
ROUNDS: Final = 10
CALLS: Final = 500
WARM_UP: Final = 1000
CONNECT_SECONDS: Final = 20
ROUND_SECONDS: Final = 120
KINDS: Final = {"shared": (512, "burstable"), "reclaimed": (2, "besteffort")}
"""CPU shares and QoS folder of the created pod."""


def run() -> dict[str, figures.Figures]:
    """Return the figures of both plugins with every kind of container."""
    programs = go_programs.built(go_programs.NEWEST)
    print(f"NRI {go_programs.NEWEST.nri}; {ROUNDS} rounds of {CALLS} creations each, in turn")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="coloc-bench-")))
        machines.plant(machines.MACHINES["epyc-256"], folder / "host")
        sides = {
            "ours": Side(folder / "ours", programs.runtime, _ours(folder)),
            "gostub": Side(folder / "gostub", programs.runtime, [str(programs.emptyplugin)]),
        }
        for side in sides.values():
            stack.enter_context(side).populate()
        results: dict[str, figures.Figures] = {}
        for kind in KINDS:
            samples = _alternate(list(sides.values()), kind)
            for name, taken in zip(sides, samples, strict=True):
                results[f"hook.side_by_side.{name}.{kind}.{LIVE}"] = figures.of(taken)
            _compare(kind, *map(figures.of, samples))
    return results


def _compare(kind: str, ours: figures.Figures, theirs: figures.Figures) -> None:
    p50, p99 = ours.p50_us / theirs.p50_us, ours.p99_us / theirs.p99_us
    print(f"{kind}: ours takes {p50:.2f} of the stub's time at p50, {p99:.2f} at p99")


def _ours(folder: Path) -> list[str]:
    arguments = ["run", f"--host-root={folder}/host", f"--cri-socket={folder}/none.sock", "--http=off"]
    arguments += [f"--state-dir={folder}/state", f"--admin-socket={folder}/admin/admin.sock"]
    return [sys.executable, "-m", "nri_coloc", *arguments, "--nri-socket"]


def _alternate(sides: Sequence["Side"], kind: str) -> list[list[int]]:
    """Return nanoseconds of each side; every other round begins with the other one."""
    taken: list[list[int]] = [[] for _ in sides]
    models = [side.models(kind) for side in sides]
    for side, requests in zip(sides, models, strict=True):
        side.measure(requests, WARM_UP)
    for turn in range(ROUNDS):
        order = range(len(sides)) if turn % 2 else reversed(range(len(sides)))
        for i in order:
            taken[i] += sides[i].measure(models[i], CALLS)
    return taken


class Side:
    """One runtime with one plugin; `plugin` is a command that takes the path of the socket last."""

    def __init__(self, folder: Path, runtime: Path, plugin: Sequence[str]) -> None:
        folder.mkdir()
        self._socket = f"{folder}/nri.sock"
        self._log = folder / "log"
        self._runtime = [str(runtime), f"-socket={self._socket}"]
        self._command = [*plugin, self._socket]
        self._numbers = Numbers()
        self._settled = Event()

    def __enter__(self) -> Self:
        self._peer = Peer(self._runtime, self._log, self._answer)
        self._peer.ask("listen")
        with self._log.open("ab") as log:
            self._plugin = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=log)
        if not self._settled.wait(CONNECT_SECONDS):
            raise RuntimeError(f"the plugin did not connect: {self._log.read_text()}")
        return self

    def __exit__(self, *_: object) -> None:
        self._plugin.terminate()
        self._plugin.wait(5)
        self._peer.close()

    def _answer(self, op: str, body: Any) -> Any:
        """Answer the runtime's questions: the node is empty when a plugin connects."""
        if op == "settled" and "error" not in body:
            self._settled.set()
        return {}

    def populate(self) -> None:
        """Create the containers that share the node."""
        for request in self._new(LIVE, *KINDS["shared"]):
            self._peer.ask("CreateContainer", request)

    def models(self, kind: str) -> list[dict[str, Any]]:
        """Return requests in pods that run already."""
        return list(self._new(PODS, *KINDS[kind]))

    def _new(self, pods: int, shares: int, qos: str) -> Iterator[dict[str, Any]]:
        for _ in range(pods):
            number = self._numbers.next()
            pod = pod_of(number, qos)
            container = container_of(pod, f"{number:064x}", shares)
            self._peer.ask("RunPodSandbox", _json(nri_pb2.RunPodSandboxRequest(pod=pod)))
            yield _json(nri_pb2.CreateContainerRequest(pod=pod, container=container))

    def measure(self, models: Sequence[dict[str, Any]], calls: int) -> list[int]:
        """Return the nanoseconds of that many creations."""
        first = self._numbers.next()
        for _ in range(calls):
            self._numbers.next()
        wanted = {"calls": calls, "first": first, "requests": models}
        taken: list[int] = self._peer.ask("measure", wanted, ROUND_SECONDS)
        return taken


def _json(message: Any) -> dict[str, Any]:
    found: dict[str, Any] = MessageToDict(message, preserving_proto_field_name=True)
    return found
