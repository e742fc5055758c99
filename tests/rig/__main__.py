"""The rig by hand: a containerd to play with, and pods in it. As root, from the project's folder:

.venv/bin/python -m tests.rig up --dir /tmp/play             (until Ctrl-C; cleans up after itself)
.venv/bin/python -m tests.rig pod --dir /tmp/play --name web --annotation key=value --cpus 1
.venv/bin/python -m tests.rig clean --dir /tmp/play          (after an `up` that was killed)
"""

# ruff: noqa: T201 - a command prints

import argparse
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

import grpc

from tests.rig import RigError, cgroups, cleanup, configuration, kubepods
from tests.rig.containerd import Containerd
from tests.rig.cri import Cri, Limits

QOS: Final = {
    "guaranteed": kubepods.GUARANTEED,
    "burstable": kubepods.BURSTABLE,
    "besteffort": kubepods.BESTEFFORT,
}
KUBELET_OOM: Final = {"guaranteed": -997, "burstable": 900, "besteffort": 1000}
PERIOD: Final = 100_000


def main() -> int:
    """Run one command and return its exit code: 1 if the rig failed."""
    arguments = _parser().parse_args()
    try:
        arguments.run(arguments)
    except RigError as error:
        print(error, file=sys.stderr)
        return 1
    except grpc.RpcError as error:
        print(f"containerd refused: {error.details()}", file=sys.stderr)
        return 1
    return 0


def _up(arguments: argparse.Namespace) -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    containerd = Containerd(arguments.version, folder=arguments.dir)
    try:
        containerd.start()
        print(f"containerd {containerd.package.version} is up in {containerd.folder}; Ctrl-C ends it")
        print(f"CRI {containerd.cri_socket}")
        print(f"NRI {containerd.nri_socket}")
        print(f"log {containerd.log}", flush=True)
        with suppress(KeyboardInterrupt):
            containerd.wait()
    finally:
        containerd.stop()


def _pod(arguments: argparse.Namespace) -> None:
    folder = arguments.dir.resolve()
    annotations = dict(pair.partition("=")[::2] for pair in arguments.annotation)
    with Cri(folder / "containerd.sock", kubepods.Ledger(folder)) as cri:
        pod = cri.run_pod(
            arguments.name,
            arguments.namespace,
            annotations=annotations,
            cgroup_parent=QOS[arguments.qos],
        )
        container = cri.run_container(pod, "app", **_limits(arguments.qos, arguments.cpus))
        file = cgroups.file(cri.cgroup(container), "cpuset", "cpuset.cpus")
    print(f"pod {pod.id}")
    print(f"container {container}")
    print(f"{file}: {file.read_text().strip()}")


def _limits(qos: str, cpus: float) -> Limits:
    """Return the limits that the kubelet would set for this CPU request and limit (cores, 0: none)."""
    if qos == "besteffort" or not cpus:
        return Limits(shares=2, oom=KUBELET_OOM[qos])
    return Limits(shares=int(cpus * 1024), quota=int(cpus * PERIOD), period=PERIOD, oom=KUBELET_OOM[qos])


def _clean(arguments: argparse.Namespace) -> None:
    cleanup.clear(cleanup.traces(arguments.dir.resolve()))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.rig", description=(__doc__ or "").partition(":")[0]
    )
    commands = parser.add_subparsers(required=True)
    up = commands.add_parser("up", help="run a containerd until Ctrl-C")
    up.add_argument("--version", choices=configuration.VERSIONS, default="2")
    up.add_argument("--dir", type=Path, help="its folder: empty or not yet there; else one under /tmp")
    up.set_defaults(run=_up)
    pod = commands.add_parser("pod", help="start a pod with one sleeping container")
    pod.add_argument("--dir", type=Path, required=True)
    pod.add_argument("--name", default="web")
    pod.add_argument("--namespace", default="default")
    pod.add_argument("--annotation", action="append", default=[], metavar="KEY=VALUE")
    pod.add_argument("--cpus", type=float, default=0, help="CPU request and limit; none without it")
    pod.add_argument("--qos", choices=sorted(QOS), default="burstable")
    pod.set_defaults(run=_pod)
    clean = commands.add_parser("clean", help="take away what a killed `up` left")
    clean.add_argument("--dir", type=Path, required=True)
    clean.set_defaults(run=_clean)
    return parser


if __name__ == "__main__":
    sys.exit(main())
