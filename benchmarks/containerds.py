"""The common start of measurements on real runtimes: each version of containerd, and many containers on it."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from benchmarks import figures
from tests.rig import workloads
from tests.rig.configuration import VERSIONS, Version
from tests.rig.cri import Cri
from tests.rig.workloads import Workload


def each(measure: Callable[[Version], dict[str, figures.Figures]]) -> dict[str, figures.Figures]:
    """Return the figures of every version of containerd that the rig knows."""
    results: dict[str, figures.Figures] = {}
    for version in VERSIONS:
        results.update(measure(version))
    return results


def crowd(cri: Cri, containers: int, pods: int) -> list[Workload]:
    """Run this number of containers, spread over this number of pods."""
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda i: cri.run_pod(f"crowd-{i}"), range(pods)))
        return list(pool.map(lambda i: workloads.add(cri, made[i % pods], f"c{i}"), range(containers)))
