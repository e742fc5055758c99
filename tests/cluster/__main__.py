"""`make cluster` and `make cluster-down`: a real Kubernetes node with the DaemonSet, for people."""

# ruff: noqa: T201 - a command prints

import os
import sys
from pathlib import Path
from typing import Final

from tests.cluster import leftovers, programs
from tests.cluster.binaries import PAIRS, is_cached
from tests.cluster.cluster import bring_up
from tests.cluster.control_plane import ADMIN
from tests.cluster.product import Product
from tests.rig import RigError

FOLDER: Final = Path(__file__).parents[2] / "build/cluster"
USAGE: Final = "usage: python -m tests.cluster up|down"


def up() -> None:
    """Start a node of the first pair; it lives on after this process has ended."""
    pair = PAIRS[0]
    if not is_cached(pair):
        print(f"{pair}: compiling its programs the first time: half an hour", flush=True)
    programs.prepare(pair)
    cluster = bring_up(pair)
    try:
        cluster.namespace.join()
        Product(cluster).install()
    except BaseException:
        cluster.stop()
        raise
    cluster.leave()
    FOLDER.mkdir(parents=True, exist_ok=True)
    _link("kubeconfig", cluster.control_plane.kubeconfig(ADMIN))
    _link("kubectl", cluster.kubectl_link())
    print(f"The node is Ready: {FOLDER}/kubectl --kubeconfig={FOLDER}/kubeconfig get pods --all-namespaces")


def down() -> None:
    """Remove every rig of this machine, also one whose process was killed."""
    found = leftovers.take_away(also_owned=True)
    print("\n".join(f"taken away: {folder}" for folder in found) or "there is no cluster")
    for name in ("kubeconfig", "kubectl"):
        (FOLDER / name).unlink(missing_ok=True)


def _link(name: str, target: Path) -> None:
    link = FOLDER / name
    link.unlink(missing_ok=True)
    link.symlink_to(target)


def main() -> int:
    """Run one of the two commands."""
    orders = {"up": up, "down": down}
    if len(sys.argv) != 2 or sys.argv[1] not in orders:
        print(USAGE, file=sys.stderr)
        return 2
    if os.geteuid() != 0:
        print("a real Kubernetes node needs root", file=sys.stderr)
        return 1
    try:
        orders[sys.argv[1]]()
    except RigError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
