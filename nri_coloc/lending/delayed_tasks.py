"""Choose the tasks whose run-queue delay the fast loop reads if there is no PSI: the busiest of busy online pods.

If PSI covers every group of the loop, nothing is read here. Otherwise the slow loop lists the tasks of a few pods, one
container after the other. It lists at most `host.readings.MOST_TASKS` of each, because a node may have ten thousand. So
a pod that uses little beside many others is not measured, nor is a task beyond the listed ones.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from nri_coloc.core.readings import Picture, milli_between
from nri_coloc.core.state import NodeState
from nri_coloc.host.counters import Schedstat
from nri_coloc.host.readings import CgroupReader
from nri_coloc.lending import run_delay
from nri_coloc.lending.sampler import FastSampler
from nri_coloc.repair import targets

MOST_PODS: Final = 8
"""As many as followed tasks (`run_delay.MOST_TASKS`), chosen by their use between the last two snapshots."""


class DelayedTasks:
    """Chooses tasks; belongs to the slow loop's thread. `sampler` is the fast loop's."""

    def __init__(self, sampler: FastSampler, cgroups: CgroupReader) -> None:
        self._sampler = sampler
        self._cgroups = cgroups
        self._listed: Mapping[int, Schedstat] = {}
        self._followed: Mapping[str, tuple[int, ...]] = {}

    def turn(self, before: Picture | None, picture: Picture, state: NodeState) -> Iterator[None]:
        """Choose the tasks again, with a stop after each container."""
        groups = self._sampler.without_pressure
        listed: dict[int, Schedstat] = {}
        group_of: dict[int, str] = {}
        for path, group in _busiest(before, picture, state, groups):
            found = self._cgroups.tasks(path) or self._cgroups.tasks_within(path)
            listed.update(found)
            group_of.update(dict.fromkeys(found, group))
            yield
        chosen = run_delay.busiest(self._listed, listed)
        self._listed = listed
        followed = {group: tuple(t for t in chosen if group_of[t] == group) for group in sorted(groups)}
        self._follow({group: tasks for group, tasks in followed.items() if tasks})

    def _follow(self, tasks: Mapping[str, tuple[int, ...]]) -> None:
        """Pass changed tasks to the sampler, which then starts its round again."""
        if tasks != self._followed:
            self._followed = tasks
            self._sampler.follow(tasks)


def _busiest(
    before: Picture | None, picture: Picture, state: NodeState, groups: frozenset[str]
) -> Iterator[tuple[str, str]]:
    """Yield the cgroups of the busiest pods' containers, each with the group of `groups` that contains it."""
    found = {pod_id: dict(_containers(state, pod_id, groups)) for pod_id in picture.pods} if groups else {}
    used = {
        pod_id: milli_between(before.pods.get(pod_id) if before else None, picture.pods[pod_id]) or 0
        for pod_id, containers in found.items()
        if containers
    }
    for pod_id in sorted(used, key=used.__getitem__, reverse=True)[:MOST_PODS]:
        yield from found[pod_id].items()


def _containers(state: NodeState, pod_id: str, groups: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Yield each cgroup in which a pod's containers run (for a VM its pod's), with the measured group above it.

    groups: the measured ones. A container with none of them above it is left out.
    """
    for assignment in state.of_pod(pod_id):
        path = targets.lives_in(state, assignment)
        group = next((above for above in _upwards(path or "") if above in groups), None)
        if path is not None and group is not None:
            yield path, group


def _upwards(path: str) -> Iterator[str]:
    while path:
        yield path
        path = path.rpartition("/")[0]
