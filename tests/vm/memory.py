"""Memory of pods on the machine: a limit below which all pods are together, and events at a pod's own limits."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tests.vm.node import ROOT, Container

MIB: Final = 1 << 20


@contextmanager
def limited(limit: int) -> Iterator[None]:
    """Limit the memory of all pods together to this number of bytes."""
    file = ROOT / "kubepods/memory.max"
    file.write_text(str(limit))
    try:
        yield
    finally:
        file.write_text("max")


def events(container: Container, name: str) -> int:
    """Return how often an event happened at a container's pod, and below it."""
    found = dict(line.split() for line in container.pod_cgroup("memory.events").splitlines())
    return int(found[name])
