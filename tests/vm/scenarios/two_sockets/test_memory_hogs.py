"""Fifty memory hogs below a limit of kubepods: `memory.high` holds them, and no online process is killed."""

from pathlib import Path
from typing import Final

from tests.rig import cgroups, kubepods
from tests.vm.memory import MIB, events, limited
from tests.vm.node import Container, Node, read, until

PODS, HOGS = 5, 10
"""Hogs in each pod: a start of fifty pods would be most of the test."""

SIZE: Final = "24M"
LIMIT: Final = 768 * MIB
"""The limit of kubepods, beside page cache: the hogs want 1,200 MiB."""

HOLDS: Final = ("/bin/sh", "-c", "(busybox head -c 64m /dev/zero; exec sleep 1000000) | busybox tail -c 64m")
WAITS: Final = "while [ ! -e /data/go ]; do sleep 1; done"
HOG: Final = f"while :; do dd if=/dev/zero of=/dev/null bs={SIZE} count=4 2>&-; done"
ALLOCATES: Final = ("/bin/sh", "-c", f"{WAITS}; for n in $(busybox seq {HOGS}); do {HOG} & done; wait")
LIMITED_S: Final = 240


def holds(container: Container) -> bool:
    """Return whether the online pod holds its memory."""
    return int(container.cgroup("memory.current")) >= 64 * MIB


def badness(container: Container) -> list[int]:
    """Return the kernel's own order of its live processes for the OOM killer, the higher the earlier.

    Each waiting hog ends a process every second.
    """
    scores = map(cgroups.oom_score, kubepods.processes(container.path))
    return [score for score in scores if score is not None]


def test_memory_hogs_kill_no_online_container(node: Node, tmp_path: Path):
    node.plugin.config.write("reclaim: {enabled: true}\n")
    web = node.pod("web", cpus=0.5, oom=900, command=HOLDS)
    with limited(int(read("kubepods", "memory.current")) + LIMIT):
        hogs = [
            node.pod(
                f"hog-{number}",
                kube_qos="besteffort",
                oom=1000,
                command=ALLOCATES,
                mounts={"/data": tmp_path},
            )
            for number in range(PODS)
        ]
        until(lambda: all(one.pod_cgroup("memory.high") != "max" for one in hogs), "their bounds", LIMITED_S)
        until(lambda: holds(web), "the online pod's memory")
        assert min(min(badness(one)) for one in hogs) > max(badness(web))
        (tmp_path / "go").touch()
        until(lambda: all(events(one, "high") for one in hogs), "the hogs at their bounds", LIMITED_S)
        assert events(web, "oom_kill") == 0
        assert holds(web)
        for one in hogs:
            node.remove(one)
    node.plugin.config.write("")
    node.remove(web)
