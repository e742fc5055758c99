"""`nri-coloc admin`: orders of an operator to the running daemon, over its admin socket."""

import sys

from nri_coloc.core.texts import plain
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


def lending_off(path: str, grace_s: int | None, *, drain: bool) -> int:
    """Switch lending off; return 1 if the order is not stored or, with `drain`, if a reclaimed pod still runs."""
    ends = AdminClient(path).lending_off(grace_s, drain=drain)
    print(plain(f"{ends.because}; until {ends.until}" if ends.until else ends.because))
    for group in ends.outside:
        print(f"not drained, because it is outside Kubernetes: {plain(group)}")
    remains = len(ends.running) if drain else 0
    if remains:
        for pod in ends.running:
            print(f"{plain(pod.name)}: {plain(pod.why)}")
        print(f"nri-coloc: reclaimed pods that still run: {remains}", file=sys.stderr)
    elif drain:
        print("no reclaimed pod runs")
    return int(_is_unkept(ends.not_kept) or bool(remains))


def lending_on(path: str) -> int:
    """Undo `lending_off`; return 1 if this is not stored."""
    begins = AdminClient(path).lending_on()
    print(f"lending {'is on again' if begins.was_off else 'was not off'}: {plain(begins.because)}")
    return int(_is_unkept(begins.not_kept))


def _is_unkept(why: str) -> bool:
    if why:
        print(f"nri-coloc: the order is in force, and it is not stored: {plain(why)}", file=sys.stderr)
    return bool(why)


def _reason(found: str) -> str:
    """Return a reason of the daemon. An empty answer is that of another version."""
    return plain(found) or "the daemon gives no reason; use the nri-coloc of its own image"


def reload(path: str) -> int:
    """Make the daemon read its configuration; return 1 if it is invalid."""
    found = AdminClient(path).reload()
    if found.valid:
        print("the configuration was read and is in force")
        return 0
    print(f"nri-coloc: the previous configuration stays in force: {_reason(found.problem)}", file=sys.stderr)
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
    print(f"nri-coloc: {_reason(found.detail)}", file=sys.stderr)
    return 1


def evict(path: str, pod: str, reason: str) -> int:
    """Order the eviction of a reclaimed pod, NAMESPACE/POD; return 1 if it was not accepted."""
    namespace, _, name = pod.partition("/")
    found = AdminClient(path).evict(namespace, name, reason)
    if found.outcome == "accepted":
        print(f"{plain(pod)} is being evicted: {plain(found.detail)}")
        return 0
    again = f"; try again in {found.retry_after_s} s" if found.retry_after_s else ""
    print(f"nri-coloc: {plain(pod)} was not evicted: {plain(found.detail)}{again}", file=sys.stderr)
    return 1
