"""`nri-coloc admin`: what an operator may change while the daemon runs, over its admin socket."""

import sys

from nri_coloc.cli.asking import plain
from nri_coloc.service.admin_client import AdminClient


def pause(path: str, seconds: int, reason: str) -> int:
    """Pause lending; ColocError, here as below, for what the daemon did not do."""
    until = AdminClient(path).pause_lending(seconds, reason).until
    print(f"lending is paused until {plain(until)}; nri-coloc admin resume ends the pause earlier")
    return 0


def resume(path: str) -> int:
    """End a pause."""
    was_paused = AdminClient(path).resume_lending().was_paused
    print("lending continues" if was_paused else "lending was not paused")
    return 0


def reload(path: str) -> int:
    """Have the configuration read now; 1 for an invalid one."""
    found = AdminClient(path).reload()
    if found.valid:
        print("the configuration was read and is in force")
        return 0
    print(f"nri-coloc: the previous configuration stays in force: {plain(found.problem)}", file=sys.stderr)
    return 1


def repair(path: str) -> int:
    """Have everything looked at and put right; says what was."""
    found = AdminClient(path).repair()
    for sentence in found.repaired:
        print(plain(sentence))
    print(f"{found.looked_at} pods and containers checked, {len(found.repaired)} repaired")
    return 0


def compare(path: str) -> int:
    """Have the runtime's list compared with what it told; 1 where something is missing."""
    found = AdminClient(path).compare()
    if found.complete:
        print("no container is missing: the runtime's list and CRI's list agree")
        return 0
    print(f"nri-coloc: {plain(found.detail)}", file=sys.stderr)
    return 1
