"""The command: sets up the node, plays all turns, reports the results, and removes everything again."""

import argparse
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from benchmarks import figures
from benchmarks.colocation import arrangements, curves, kubelet, offline, programs, report
from benchmarks.colocation.arrangements import Arrangement
from benchmarks.colocation.server import PROCESSES, Server
from benchmarks.colocation.turn import P99, P999, Day, Pace, Stage, percentile
from tests.rig import cgroups, packages
from tests.rig.configuration import VERSIONS, Options
from tests.rig.containerd import bring_up

ALLOCATABLE: Final = 768 << 20
"""Bytes for all pods: so much that the online pod's files and its own memory fit well, and the hog's file does not."""

NIGHT, NOON = 0.10, 0.50
"""Parts of the node that the online pods use at the day's lowest and highest."""

TOLERATED: Final = 0.08
"""Part of the node that others may use in a turn: about what containerd and the kernel's own threads do."""

WRITES: Final = 64 << 20
"""Bytes a second that a throttled pod may write to each disk."""

CLASSES: Final = (
    f"Classes: {{{offline.THROTTLED}: "
    f"[{{Devices: [{', '.join(cgroups.disks().values())}], ThrottleWriteBps: {WRITES}}}]}}\n"
)

CALIBRATION: Final = Pace(300, 300, 2.0)


def run(arguments: Sequence[str]) -> None:
    """Play all turns; RigError if the node cannot be set up."""
    from benchmarks.colocation import picture  # only this measurement needs the drawing module

    options = _parser().parse_args(arguments)
    with _stage(options.containerd, options.reclaim) as stage:
        pace = _calibrated(stage, options.seconds)
        about = {
            "machine": figures.machine(), "containerd": stage.containerd.package.version,
            "nginx": stage.server.version, "reclaim": options.reclaim, "rounds": options.rounds,
            "seconds": options.seconds, "requests_a_second": [round(pace.low), round(pace.high)],
        }  # fmt: skip
        print(
            f"containerd {about['containerd']}, nginx {about['nginx']}; "
            f"{pace.low:.0f} to {pace.high:.0f} requests a second"
        )
        for kind in options.work:
            days = _play(stage, kind, options, pace)
            found = report.rows(kind, days)
            report.show(kind, found)
            over_time = {name: curves.curves(played, options.seconds) for name, played in days.items()}
            picture.draw(report.write(about, kind, found, over_time))
    print(f"{report.JSON}, {picture.PNG}")


def _play(stage: Stage, kind: str, options: argparse.Namespace, pace: Pace) -> dict[str, list[Day]]:
    """Return the days of each arrangement; every round begins with another arrangement."""
    chosen = [one for one in arrangements.ALL if one.name in options.arrangements and one.suits(kind)]
    days: dict[str, list[Day]] = {one.name: [] for one in chosen}
    for turn in range(options.rounds):
        at = turn % len(chosen)
        for one in [*chosen[at:], *chosen[:at]]:
            days[one.name].append(_undisturbed(stage, one, kind, pace, turn, options.tries))
    return days


def _undisturbed(stage: Stage, one: Arrangement, kind: str, pace: Pace, seed: int, tries: int) -> Day:
    """Return a day; play it again if other programs used the machine meanwhile, at most `tries` times."""
    for _ in range(tries):
        began = time.monotonic()
        day = stage.play(one, kind, pace, seed)
        print(
            f"  {kind} {one.name}: p99 {percentile(day.took, P99):.2f} p99.9 {percentile(day.took, P999):.2f} ms, "
            f"{day.request_us:.0f} µs of CPU time a request, "
            f"node {day.node_use:.1%}, strangers {day.strangers:.1%}, stolen {day.stolen:.1%} "
            f"({time.monotonic() - began:.0f} s)",
            flush=True,
        )
        if day.strangers <= TOLERATED or (kind in ("disk", "spill") and one.offline):
            break  # the kernel's own threads write for such a hog, and count as other programs
    return day


def _calibrated(stage: Stage, seconds: float) -> Pace:
    """Return the pace at which the server uses the wanted parts of this node."""
    cgroup = stage.server.workload.cgroup
    stage.play(arrangements.ALONE, "busy", CALIBRATION, seed=0)  # fills the page cache
    before = kubelet.used_us(cgroup)
    stage.play(arrangements.ALONE, "busy", CALIBRATION, seed=0)
    spans = CALIBRATION.seconds + 2.0  # with its warm-up
    each_s = (kubelet.used_us(cgroup) - before) / 1e6 / (CALIBRATION.low * spans)
    print(f"a request costs {each_s * 1e6:.0f} µs of CPU time")
    return Pace(NIGHT * PROCESSES / each_s, NOON * PROCESSES / each_s, seconds)


@contextmanager
def _stage(version: str, reclaim: str) -> Iterator[Stage]:
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="colocation-", dir=packages.cache().parent))
        stack.callback(shutil.rmtree, folder)
        built = programs.built()
        stack.enter_context(kubelet.node(ALLOCATABLE))
        containerd = bring_up("1.7" if version == "1.7" else "2", Options(blockio_classes=CLASSES))
        stack.callback(containerd.stop)
        cri = stack.enter_context(containerd.cri())
        stack.callback(cri.remove_all)
        (folder / "online").mkdir()
        (folder / "offline").mkdir()
        stack.callback(_clean_in_peace)
        yield Stage(
            containerd=containerd,
            cri=cri,
            server=Server(cri, folder / "online"),
            programs=built,
            folder=folder / "offline",
            reclaim=reclaim,
        )


def _clean_in_peace() -> None:
    """Ignore Ctrl-C from now on: a second one would stop the clean-up that the first one started."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks colocation")
    names = [one.name for one in arrangements.ALL]
    parser.add_argument("--seconds", type=float, default=15.0, help="length of a day")
    parser.add_argument("--rounds", type=int, default=1, help="days of each arrangement and kind of work")
    parser.add_argument("--tries", type=int, default=3, help="of a day in which strangers used the machine")
    parser.add_argument("--work", nargs="+", choices=list(offline.KINDS), default=list(offline.KINDS))
    parser.add_argument("--arrangements", nargs="+", choices=names, default=names)
    parser.add_argument("--containerd", choices=VERSIONS, default=VERSIONS[-1])
    parser.add_argument(
        "--reclaim", default="", help="more of the section `reclaim`, such as 'cpuWatermark: 120'"
    )
    return parser
