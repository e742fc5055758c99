"""`nri-coloc admin`: orders of an operator to the running daemon, over its admin socket."""

import sys

from nri_coloc.cli.asking import plain
from nri_coloc.service.admin_client import AdminClient


def pause(path: str, seconds: int, reason: str) -> int:
    """Pause lending. Like all commands here, raise ColocError if the daemon refuses the order."""
    until = AdminClient(path).pause_lending(seconds, reason).until
    print(f"lending is paused until {plain(until)}; nri-coloc admin resume ends the pause earlier")
    return 0


def resume(path: str) -> int:
    """End a pause of lending."""
    was_paused = AdminClient(path).resume_lending().was_paused
    print("lending continues" if was_paused else "lending was not paused")
    return 0


def reload(path: str) -> int:
    """Make the daemon read its configuration; return 1 if it is invalid."""
    found = AdminClient(path).reload()
    if found.valid:
        print("the configuration was read and is in force")
        return 0
    print(f"nri-coloc: the previous configuration stays in force: {plain(found.problem)}", file=sys.stderr)
    return 1


def repair(path: str) -> int:
    """Have every cgroup checked and repaired; print each repair."""
    found = AdminClient(path).repair()
    for sentence in found.repaired:
        print(plain(sentence))
    print(f"{found.looked_at} pods and containers checked, {len(found.repaired)} repaired")
    return 0


def compare(path: str) -> int:
    """Have the runtime's list compared with CRI's list; return 1 if a container is missing."""
    found = AdminClient(path).compare()
    if found.complete:
        print("no container is missing: the runtime's list and CRI's list agree")
        return 0
    print(f"nri-coloc: {plain(found.detail)}", file=sys.stderr)
    return 1
