"""The work of each hook in two trees, side by side: CPU time and bytecodes of the trunk's thread.

    python -m benchmarks.trees BEFORE [NOW]

BEFORE and NOW are work trees of this repository with the same dependencies; NOW is this one by default. Both daemons
live at the same time on one CPU and are measured in short alternating rounds. Columns: µs at the tenth percentile and
the median, and bytecodes at the median. `after` is the work between the answer and the next read.
"""

import os
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple, Self

from benchmarks import clocked, folders
from benchmarks.hook import Numbers, new_container, pods_of
from benchmarks.runtime import MeasuredRuntime, container_of
from nri_coloc._pb import nri_pb2
from nri_coloc.nri.calls import HookKind
from nri_coloc.sim import machines

LIVE: Final = 250
ROUNDS: Final = {"time": 30, "bytecodes": 2}
TURNS: Final = 20
WARM_UP: Final = 100
CLASSES: Final = {
    "shared": (512, "burstable"),
    "reclaimed": (2, "besteffort"),
    "dedicated": (2048, "burstable"),
}
"""CPU shares and QoS folder."""

HOOKS: Final = (
    HookKind.CREATE_CONTAINER,
    HookKind.START_CONTAINER,
    HookKind.UPDATE_CONTAINER,
    HookKind.STOP_CONTAINER,
)


class Amounts(NamedTuple):
    """Amounts of one kind of hook: to the answer, and after it."""

    answer: list[int]
    after: list[int]


class Side:
    """One tree's daemon with 250 live containers."""

    def __init__(self, tree: Path, folder: Path, host: str, kind: str) -> None:
        self._figures = folder / "figures"
        clock = [sys.executable, clocked.__file__, str(self._figures), kind]
        self._runtime = MeasuredRuntime(host, command=clock, tree=tree)
        self._numbers = Numbers()
        self._sent: list[str] = []

    def __enter__(self) -> Self:
        self._runtime.__enter__()
        for _ in range(LIVE):
            pod, container = new_container(self._numbers, 512, "burstable")
            self._runtime.hook(HookKind.RUN_POD_SANDBOX, pod)
            self._runtime.hook(HookKind.CREATE_CONTAINER, pod, container)
        self._pods = {
            name: pods_of(
                self._runtime, self._numbers, qos, **({"qos_class": name} if name == "dedicated" else {})
            )
            for name, (_, qos) in CLASSES.items()
        }
        return self

    def __exit__(self, *error: object) -> None:
        pod, container = new_container(self._numbers, 512, "burstable")
        self._runtime.hook(HookKind.STOP_CONTAINER, pod, container)  # its line is left out (`Clock.write`)
        self._runtime.__exit__(*error)

    def live(self, name: str, turns: int) -> None:
        """Have containers of a class live and end, one after the other."""
        shares, _ = CLASSES[name]
        for turn in range(turns):
            pods = self._pods[name]
            container = container_of(pods[turn % len(pods)], f"{self._numbers.next():064x}", shares)
            for hook in HOOKS:
                self._sent.append(f"{name}.{hook.name.removesuffix('_CONTAINER').lower()}")
                self._hook(hook, pods[turn % len(pods)], container, shares)

    def _hook(
        self, hook: HookKind, pod: nri_pb2.PodSandbox, container: nri_pb2.Container, shares: int
    ) -> None:
        resources = None
        if hook is HookKind.UPDATE_CONTAINER:
            resources = nri_pb2.LinuxResources()
            resources.cpu.shares.value, resources.cpu.quota.value = shares, 250_000
        self._runtime.hook(hook, pod, container, resources)

    def forget(self) -> None:
        """Leave the hooks so far out of the amounts."""
        self._sent = []

    def amounts(self) -> dict[str, Amounts]:
        """Return the amounts by class and hook, after the end of the daemon."""
        found: dict[str, Amounts] = {}
        lines = self._figures.read_text().splitlines()[-len(self._sent) - 1 : -1]
        for name, line in zip(self._sent, lines, strict=True):
            answer, after = map(int, line.split())
            amounts = found.setdefault(name, Amounts([], []))
            amounts.answer.append(answer)
            amounts.after.append(after)
        return found


def measured(trees: Sequence[Path], kind: str) -> list[dict[str, Amounts]]:
    """Return each tree's amounts of a kind."""
    with ExitStack() as stack:
        host = stack.enter_context(folders.planted())
        machines.plant(machines.MACHINES["epyc-256"], Path(host))
        homes = [Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in trees]
        with ExitStack() as running:
            sides = [
                running.enter_context(Side(tree, home, host, kind))
                for tree, home in zip(trees, homes, strict=True)
            ]
            order = [*sides]
            for name, turns in in_turn(kind):
                order.reverse()  # the second of a round is measured 2 % slower
                for side in order:
                    side.live(name, turns)
                    if turns == WARM_UP:
                        side.forget()
        return [side.amounts() for side in sides]


def in_turn(kind: str) -> Iterator[tuple[str, int]]:
    """Yield the class and the number of containers of each round, warming up first."""
    for turns in (WARM_UP, *[TURNS] * ROUNDS[kind]):
        for name in CLASSES:
            yield name, turns


def main() -> None:
    if not 2 <= len(sys.argv) <= 3:
        sys.exit(__doc__)
    trees = [Path(word).resolve() for word in (*sys.argv[1:], ".")[:2]]
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    times, counts = measured(trees, "time"), measured(trees, "bytecodes")
    print(
        f"{'':24}{'p10 before':>11}{'now':>8}{'p50 before':>12}{'now':>8}{'bytecodes before':>18}{'now':>8}"
    )
    for name in times[0]:
        for place, part in enumerate(Amounts._fields):
            before, now = (sorted(side[name][place]) for side in times)
            ran = [statistics.median_low(side[name][place]) for side in counts]
            row = [
                before[len(before) // 10],
                now[len(now) // 10],
                before[len(before) // 2],
                now[len(now) // 2],
            ]
            us = [each / 1000 for each in row]
            print(
                f"{name + '.' + part:24}{us[0]:11.1f}{us[1]:8.1f}{us[2]:12.1f}{us[3]:8.1f}{ran[0]:18}{ran[1]:8}"
            )


if __name__ == "__main__":
    main()
