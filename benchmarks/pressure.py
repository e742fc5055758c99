"""Right and wrong verdicts beside nginx on a real containerd: `python -m benchmarks pressure --seed N --cases K`.

A case is one reclaimed pod of one of five kinds that begins beside an online pod and two innocent reclaimed pods, all
under the daemon. nginx reads its files past the page cache, so that it waits for the disk as a database does. The
online pod is hurt if its p99 is more than 1.2 times its p99 alone, in all calm parts up to the case. Right is a verdict
that names the hog and no innocent if it was hurt, and no verdict if it was not. All parameters of a case follow from
the seed. In a case of the sixth kind, `none`, the pod sleeps: p99 above 1.2 times is the measurement's own noise there.

A case is counted apart if the pod was hurt without a verdict, and its requests took more CPU time each, by more than
its waits rose: then it shared memory bandwidth or a cache, for which the kernel counts no wait.

A case takes 28 s: two cases of each kind six minutes, with a minute for the node. Other load on the machine hurts the
online pod too, so the figures are worth something on an idle machine alone.
"""

import argparse
import json
import random
import shutil
import tempfile
import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks import figures
from benchmarks.colocation import kubelet, programs
from benchmarks.colocation.arrangements import seated_daemon
from benchmarks.colocation.server import Server
from benchmarks.colocation.turn import P99, WARM_UP_S, Pace, load, percentile
from tests.rig import cgroups, kubepods, packages, workloads
from tests.rig.configuration import NEWEST
from tests.rig.containerd import bring_up
from tests.rig.cri import Cri
from tests.rig.daemon import Daemon
from tests.rig.load import burners
from tests.rig.workloads import Workload

JSON: Final = Path("build/pressure.json")
ALLOCATABLE: Final = 1224 << 20
"""The limit of kubepods, bytes: 768 MiB, and the margin of 456 MiB that is not lent (`core.memory_margin`)."""

DATA_BYTES: Final = 1 << 30
HURT: Final = 1.2
"""p99 beside the hog, in multiples of the p99 before it, above which the online pod was hurt."""

LEARNS_S: Final = 20.0
CALM_S, BESIDE_S, RESTS_S = 5.0, 15.0, 3.0
BEGINS_S: Final = 0.5
"""Seconds after the hog's start that belong to neither part: containerd and runc use the machine too."""

PACE: Final = Pace(250, 250, CALM_S + BEGINS_S + BESIDE_S)
LEARNING: Final = Pace(250, 250, LEARNS_S)


SLOWER: Final = 1.1
"""The online pod's CPU time, in multiples of that before the hog, above which its requests took more of it each."""


class Stalls(NamedTuple):
    """The online pod's stalls (PSI `some`) and its own CPU time up to a moment, µs."""

    at: float
    cpu: int
    memory: int
    io: int
    own: int = 0

    def shares_since(self, before: "Stalls") -> dict[str, float]:
        """Return the shares of the time since then in which a task waited, by resource, and of its own CPU time."""
        span_us = (self.at - before.at) * 1e6
        return {name: (getattr(self, name) - getattr(before, name)) / span_us for name in (*RESOURCES, OWN)}


RESOURCES: Final = ("cpu", "memory", "io")
OWN: Final = "own"


class Case(NamedTuple):
    """One case: its kind, its number within the kind, and the hog's program."""

    kind: str
    number: int
    command: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a case.

    p99_ms: alone and beside the hog.
    stalls: shares of the time that the online pod waited, by resource, before the hog and beside it; `own` is its CPU
        time.
    verdicts: for each verdict its resource and the pods that it names.
    """

    kind: str
    command: str
    p99_ms: tuple[float, float]
    stalls: tuple[Mapping[str, float], Mapping[str, float]]
    verdicts: tuple[tuple[str, tuple[str, ...]], ...]
    outcome: str

    @property
    def right(self) -> bool:
        """Return whether the verdict was right."""
        return self.outcome in ("named", "quiet")

    @property
    def mark(self) -> str:
        """Return the judgement in a word for people."""
        return "right" if self.right else "apart" if self.outcome == "apart" else "WRONG"


def cases(seed: int, count: int, kinds: Sequence[str]) -> list[Case]:
    """Return the cases of a seed, one kind after the other, round-robin."""
    draw = random.Random(seed)
    return [Case(kind, number, KINDS[kind](draw)) for number in range(count) for kind in kinds]


def outcome(*, hurt: bool, named: Sequence[Sequence[str]], hog: str, unseen: bool = False) -> str:
    """Return the outcome of a case: named, quiet, missed, apart, false, or innocent (a verdict on another pod).

    unseen: the hurt is of a kind for which the kernel counts no wait.
    """
    if not hurt:
        return "false" if named else "quiet"
    if not named:
        return "apart" if unseen else "missed"
    return "named" if all(set(each) == {hog} for each in named) else "innocent"


def is_slower(before: Mapping[str, float], beside: Mapping[str, float]) -> bool:
    """Return whether the same requests took more CPU time, by more than the waits rose: shares by name, as `Result`."""
    more = beside[OWN] - before[OWN]
    waits = sum(max(0.0, beside[name] - before[name]) for name in RESOURCES)
    return beside[OWN] > SLOWER * before[OWN] and more > waits


def _shell(line: str) -> tuple[str, ...]:
    return ("/bin/sh", "-c", line)


def _loops(line: str, count: int) -> tuple[str, ...]:
    """Return a program that runs a line for ever, so many times at once."""
    return _shell(" ".join(f"while :; do {line}; done &" for _ in range(count)) + " wait")


def _busy(draw: random.Random) -> tuple[str, ...]:
    return burners(draw.randint(1, 8))


def _forks(draw: random.Random) -> tuple[str, ...]:
    return _loops("/bin/true", draw.randint(1, 8))


def _cache(draw: random.Random) -> tuple[str, ...]:
    return _loops(f"cat /scratch/data* | head -c {draw.randint(300, 1000)}m > /dev/null", draw.randint(1, 3))


def _anonymous(draw: random.Random) -> tuple[str, ...]:
    return _loops(
        f"dd if=/dev/zero of=/dev/null bs={draw.randint(100, 300)}M count=2 2>&-", draw.randint(1, 3)
    )


def _disk(draw: random.Random) -> tuple[str, ...]:
    size, count = draw.choice(("64k", "256k", "1M", "4M")), draw.randint(1, 8)
    if draw.random() < 0.5:
        return _loops(f"dd if=/scratch/data of=/dev/null bs={size} iflag=direct 2>&-", count)
    return _loops(f"dd if=/dev/zero of=/scratch/out bs={size} count=64 oflag=direct 2>&-", count)


def _none(_draw: random.Random) -> tuple[str, ...]:
    return _loops("sleep 1", 1)


KINDS: Final[Mapping[str, Callable[[random.Random], tuple[str, ...]]]] = {
    "busy": _busy,
    "forks": _forks,
    "cache": _cache,
    "anonymous": _anonymous,
    "disk": _disk,
    "none": _none,
}

INNOCENTS: Final = {
    "steady": _loops("i=0; while [ $i -lt 4000 ]; do i=$((i+1)); done; sleep 0.2", 1),
    "reader": _loops("dd if=/scratch/data of=/dev/null bs=16k count=20 iflag=direct 2>&-; sleep 0.2", 1),
}


class Stage:
    """The node with its online pod, its innocents and the daemon."""

    def __init__(self, cri: Cri, daemon: Daemon, folder: Path, built: Path) -> None:
        self._cri, self._daemon, self._folder, self._built = cri, daemon, folder, built
        self._alone: list[int] = []
        (folder / "online").mkdir()
        self.server = Server(cri, folder / "online", direct=True)
        for name, command in INNOCENTS.items():
            self._pod(name, command)

    def learn(self) -> None:
        """Let the daemon learn the online pod's baseline."""
        with self._load(LEARNING, 0) as running:
            answers, _ = running.communicate()
        self._alone += [took for arrival, took in _requests(answers) if arrival / 1e9 > LEARNS_S / 2]

    def play(self, case: Case) -> Result:
        """Return the result of a case. The hog's pod is there before; its container begins after the calm part."""
        hog = f"hog-{case.kind}-{case.number}"
        pod, seen = self._sandbox(hog), self._newest()
        with self._load(PACE, case.number) as running:
            time.sleep(WARM_UP_S)
            moments = [self._stalls()]
            time.sleep(CALM_S)
            moments.append(self._stalls())
            self._run(pod, case.command)
            answers, _ = running.communicate()
            moments.append(self._stalls())
        self._cri.remove_pod(pod.id)
        kubepods.remove(pod.cgroup)
        requests = _requests(answers)
        self._alone += [took for arrival, took in requests if arrival / 1e9 < CALM_S]
        with_hog = [took for arrival, took in requests if arrival / 1e9 > CALM_S + BEGINS_S]
        alone, beside = percentile(self._alone, P99), percentile(with_hog, P99)
        shares = moments[1].shares_since(moments[0]), moments[2].shares_since(moments[1])
        verdicts = tuple(self._verdicts(seen))
        named = [pods for _, pods in verdicts]
        time.sleep(RESTS_S)
        return Result(
            kind=case.kind,
            command=case.command[-1],
            p99_ms=(alone, beside),
            stalls=shares,
            verdicts=verdicts,
            outcome=outcome(
                hurt=beside > HURT * alone, named=named, hog=f"default/{hog}", unseen=is_slower(*shares)
            ),
        )

    @contextmanager
    def _load(self, pace: Pace, seed: int) -> Iterator[Any]:
        with load(self._built, self.server.port, pace, seed) as running:
            yield running

    def _sandbox(self, name: str) -> Any:
        return self._cri.run_pod(
            name, annotations={workloads.QOS: "reclaimed"}, cgroup_parent=kubepods.BESTEFFORT
        )

    def _pod(self, name: str, command: tuple[str, ...]) -> Workload:
        return self._run(self._sandbox(name), command)

    def _run(self, pod: Any, command: tuple[str, ...]) -> Workload:
        mounts = {"/scratch": self._folder}
        made = self._cri.create_container(pod, "app", command=command, mounts=mounts, shares=2, oom=1000)
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


def _requests(answers: bytes) -> list[tuple[int, int]]:
    """Return the arrival and the duration of each request, ns."""
    times = array("q", answers)
    return list(zip(times[0::2], times[1::2], strict=True))


def run(arguments: Sequence[str]) -> None:
    """Play the cases; print and write the results. RigError if the node cannot be set up."""
    options = _parser().parse_args(arguments)
    results: list[Result] = []
    try:
        with _stage() as stage:
            stage.learn()
            for case in cases(options.seed, options.cases, options.kinds):
                results.append(stage.play(case))
                print(f"  {told(results[-1])}", flush=True)
    finally:
        _report(results, options.seed)


def told(result: Result) -> str:
    """Return a case's line for people."""
    calm, beside = result.p99_ms
    stalls = ", ".join(
        f"{n} {result.stalls[0][n]:.1%} -> {result.stalls[1][n]:.1%}" for n in (*RESOURCES, OWN)
    )
    named = "; ".join(f"{resource}: {', '.join(pods)}" for resource, pods in result.verdicts) or "none"
    return (
        f"{result.kind:9} {result.mark} ({result.outcome}): "
        f"p99 alone {calm:.2f} ms, beside {beside:.2f} ms ({beside / calm:.2f} x); verdict {named}; "
        f"stalls {stalls}; {result.command[:60]}"
    )


def _report(results: Sequence[Result], seed: int) -> None:
    by_kind = {kind: [one for one in results if one.kind == kind] for kind in KINDS}
    for kind, some in by_kind.items():
        if some:
            counts = Counter(one.outcome for one in some)
            judged = len(some) - counts["apart"]
            print(f"{kind:9} right {sum(one.right for one in some)} of {judged}: {dict(counts)}")
    JSON.parent.mkdir(exist_ok=True)
    about = {"machine": figures.machine(), "seed": seed, "cases": [asdict(one) for one in results]}
    JSON.write_text(json.dumps(about, indent=2) + "\n")


@contextmanager
def _stage() -> Iterator[Stage]:
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
        daemon = stack.enter_context(seated_daemon(containerd, ""))
        yield Stage(cri, daemon, folder, built)


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
    return parser
