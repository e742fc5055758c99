"""Right and wrong verdicts beside nginx on a real containerd: `python -m benchmarks pressure --seed N --cases K`.

nginx reads half of its files past the page cache, as a database does, and half of them through it, so that it waits for
the disk and for memory. Two innocent reclaimed pods and one of the cases of `pressure_cases.py` are beside it.

Each case is played twice. In mode `observe` the daemon places and limits nothing: the verdict alone is judged, beside a
reclaimed pod that has the weight of its request. In mode `enforce` the daemon protects the online pod: a case that hurt
before and hurts no longer is counted as `protected`.

A case takes 24 s in each mode: two cases of each kind ten minutes, with two minutes for the nodes. Other load on the
machine hurts the online pod too, so the figures are worth something on an idle machine alone.
"""

import argparse
import json
import os
import random
import shutil
import tempfile
import time
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from benchmarks import figures, recorded_turns
from benchmarks.colocation import kubelet, programs
from benchmarks.colocation.arrangements import seated_daemon
from benchmarks.colocation.kubelet import LEAST_SHARES
from benchmarks.colocation.server import Server
from benchmarks.colocation.turn import P99, WARM_UP_S, Pace, load, percentile
from benchmarks.pressure_cases import (
    CALM_S,
    FIRST_S,
    INNOCENTS,
    KINDS,
    RESOURCES,
    Case,
    Part,
    Played,
    Result,
    Stalls,
    cases,
    results,
    summary,
    told,
)
from tests.rig import RigError, cgroups, kubepods, packages, workloads
from tests.rig.configuration import NEWEST
from tests.rig.containerd import bring_up
from tests.rig.cri import Cri
from tests.rig.daemon import PROGRAM, Daemon
from tests.rig.workloads import Workload

JSON: Final = Path("build/pressure.json")
ALLOCATABLE: Final = 1224 << 20
"""The limit of kubepods, bytes: 768 MiB, and the margin of 456 MiB that is not lent (`core.memory_margin`)."""

DATA_BYTES: Final = 2 << 30
"""More than the page cache of all pods may hold."""

LEARNS_S: Final = 20.0
BESIDE_S: Final = 2 * (CALM_S - FIRST_S)
"""Two parts as long as a calm one: a pause of the machine has the same weight in the p99 of each."""

RESTS_S: Final = 3.0

BEGINS_S: Final = 0.5
"""Seconds after the hog's start that belong to neither part: containerd and runc use the machine too."""

RATE: Final = 1000
"""Requests a second, for which nginx uses a fifth of two CPUs."""

OVERDUE_MS: Final = 10_000.0
"""The p99 of a case whose requests were still under way ten seconds after its end: the load gives up then."""

MODES: Final = ("observe", "enforce")


class Stage:
    """The node with its online pod, its innocents and the daemon. `calm`: as in `pressure_cases.neighbours`."""

    def __init__(
        self, cri: Cri, daemon: Daemon, folder: Path, built: Path, *, rate: int, record: Path | None
    ) -> None:
        self._cri, self._daemon, self._folder, self._built = cri, daemon, folder, built
        self._rate, self._record = rate, record
        self.calm: list[Part | None] = []
        online = folder / "online"
        online.mkdir()
        self.server = Server(cri, online, direct=True)
        for name, command in INNOCENTS.items():
            self._run(self._sandbox(name), command)
        os.sync()

    def learn(self) -> None:
        """Let the daemon learn the online pod's baseline; its end is the first calm part."""
        if self._record:
            recorded_turns.mark(self._record, "learning")
        with self._load(LEARNS_S, 0) as running:
            first = self._alone(running, LEARNS_S)
        if first is None:
            raise RigError("requests were overdue before the first case")
        self.calm.append(first)

    def close(self) -> None:
        """Measure the calm part after the last case."""
        if self._record:
            recorded_turns.mark(self._record, "closing")
        with self._load(CALM_S, 0) as running:
            self.calm.append(self._alone(running, CALM_S))

    def _alone(self, running: Any, ends_s: float) -> Part | None:
        """Return the calm part at the end of a load."""
        begins_s = ends_s - (CALM_S - FIRST_S)
        time.sleep(WARM_UP_S + begins_s)
        before = self._stalls()
        requests = _requests(running)
        shares = self._stalls().shares_since(before)
        return Part((_p99(requests, begins_s, ends_s),), shares) if requests else None

    def play(self, case: Case) -> Played:
        """Play a case. The hog's pod is there before; its container begins after the calm part."""
        pod, seen = self._sandbox(case.name, case.request), self._newest()
        if self._record:
            recorded_turns.mark(self._record, f"{case.kind} {case.number}")
        with self._load(CALM_S + BEGINS_S + BESIDE_S, case.number) as running:
            time.sleep(WARM_UP_S + FIRST_S)
            moments = [self._stalls()]
            time.sleep(CALM_S - FIRST_S)
            moments.append(self._stalls())
            self._run(pod, case.command, case.request)
            requests = _requests(running)
            moments.append(self._stalls())
        self._cri.remove_pod(pod.id)
        kubepods.remove(pod.cgroup)
        begun, half = CALM_S + BEGINS_S, BESIDE_S / 2
        alone_ms, *beside_ms = (
            _p99(requests, begin, begin + half) if requests else OVERDUE_MS
            for begin in (FIRST_S, begun, begun + half)
        )
        calm = Part((alone_ms,), moments[1].shares_since(moments[0]))
        self.calm.append(calm if requests else None)
        time.sleep(RESTS_S)
        return Played(
            case, Part(tuple(beside_ms), moments[2].shares_since(moments[1])), tuple(self._verdicts(seen))
        )

    def _load(self, seconds: float, seed: int) -> AbstractContextManager[Any]:
        return load(self._built, self.server.port, Pace(self._rate, self._rate, seconds), seed)

    def _sandbox(self, name: str, request: int = LEAST_SHARES) -> Any:
        parent = kubepods.BESTEFFORT if request == LEAST_SHARES else kubepods.BURSTABLE
        annotations = {workloads.QOS: "reclaimed"}
        return self._cri.run_pod(name, annotations=annotations, cgroup_parent=parent, shares=request)

    def _run(self, pod: Any, command: tuple[str, ...], request: int = LEAST_SHARES) -> Workload:
        mounts = {"/scratch": self._folder}
        made = self._cri.create_container(
            pod, "app", command=command, mounts=mounts, shares=request, oom=1000
        )
        return Workload(self._cri, pod, made).start()

    def _stalls(self) -> Stalls:
        cgroup = self.server.workload.pod.cgroup
        texts = [cgroups.unified(cgroup, f"{name}.pressure") or "" for name in RESOURCES]
        cpu, memory, io = (int(text.splitlines()[0].rpartition("total=")[2]) for text in texts)
        return Stalls(time.monotonic(), cpu, memory, io, own=kubelet.used_us(cgroup))

    def _newest(self) -> int:
        return max((int(one["seq"]) for one in self._daemon.audit("pressure.verdict")), default=-1)

    def _verdicts(self, seen: int) -> Iterator[tuple[str, tuple[str, ...]]]:
        for one in self._daemon.audit("pressure.verdict"):
            if int(one["seq"]) > seen:
                inputs = one["inputs"]
                names = (key.removesuffix(".hurt_use") for key in inputs if key.endswith(".hurt_use"))
                yield str(inputs["resource"]), tuple(names)


def _requests(running: Any) -> list[tuple[float, int]]:
    """Return the arrival, s, and the duration, ns, of each request; empty if some were overdue.

    RigError if the load failed.
    """
    answers, words = running.communicate()
    if running.returncode and b"still under way" not in words:
        raise RigError(f"the load failed: {words.decode(errors='replace')}")
    times = array("q", answers)
    return [(arrival / 1e9, took) for arrival, took in zip(times[0::2], times[1::2], strict=True)]


def _p99(requests: Iterable[tuple[float, int]], begin: float, end: float) -> float:
    return percentile([took for arrival, took in requests if begin <= arrival < end], P99)


def run(arguments: Sequence[str]) -> None:
    """Play the cases; print and write the results. RigError if the node cannot be set up."""
    options = _parser().parse_args(arguments)
    found: list[Result] = []
    try:
        for mode in options.modes:
            played: list[Played] = []
            with _stage(mode, rate=options.rate, record=options.record) as stage:
                try:
                    stage.learn()
                    for case in cases(options.seed, options.cases, options.kinds):
                        played.append(stage.play(case))
                        print(f"  {mode}: {case.kind} {case.number} played", flush=True)
                    stage.close()
                finally:
                    found += results(mode, stage.calm, played, found) if played else []
    finally:
        _report(found, options.seed)


def _report(found: Sequence[Result], seed: int) -> None:
    print(*(f"  {told(one)}" for one in found), *summary(found), sep="\n")
    JSON.parent.mkdir(exist_ok=True)
    about = {"machine": figures.machine(), "seed": seed, "cases": [asdict(one) for one in found]}
    JSON.write_text(json.dumps(about, indent=2) + "\n")


@contextmanager
def _stage(mode: str, *, rate: int, record: Path | None) -> Iterator[Stage]:
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="pressure-", dir=packages.cache().parent))
        stack.callback(shutil.rmtree, folder)
        built = programs.built()
        _write_data(folder)
        stack.enter_context(kubelet.node(ALLOCATABLE))
        containerd = bring_up(NEWEST)
        stack.callback(containerd.stop)
        cri = stack.enter_context(containerd.cri())
        stack.callback(cri.remove_all)
        program = recorded_turns.program(record) if record else PROGRAM
        daemon = stack.enter_context(seated_daemon(containerd, "", mode=mode, program=program))
        yield Stage(cri, daemon, folder, built, rate=rate, record=record)


def _write_data(folder: Path) -> None:
    with (folder / "data").open("wb") as file:
        piece = random.Random(0).randbytes(1 << 20)
        for _ in range(DATA_BYTES >> 20):
            file.write(piece)
    (folder / "out").write_bytes(b"")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks pressure")
    parser.add_argument("--seed", type=int, default=1, help="of all parameters")
    parser.add_argument("--cases", type=int, default=2, help="of each kind")
    parser.add_argument("--kinds", nargs="+", choices=[*KINDS], default=[*KINDS])
    parser.add_argument("--modes", nargs="+", choices=MODES, default=[*MODES], help="of the daemon, in order")
    parser.add_argument("--rate", type=int, default=RATE, help="requests a second")
    parser.add_argument("--record", type=Path, help="a file for the readings, to `replay-turns`")
    return parser
