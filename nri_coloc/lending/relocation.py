"""Move cgroups after a change of pool sizes: first the cgroups that leave CPUs, then the cgroups that get them.

The loop's thread writes the reclaim cgroups itself, because in the actuator a suppression would wait behind a sweep.
Other cgroups are written as usual: files by the actuator, then the runtime's spec by the pusher. If the reclaim pool
grows onto CPUs that containers must leave, it waits for them briefly.
"""

from functools import partial
from typing import Final, NamedTuple

from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.decisions import NO_MOVES, Moves, Outcome
from nri_coloc.core.seams import After, Change, tell
from nri_coloc.core.state import RECLAIM, NodeState
from nri_coloc.lending.file_watch import FileWatch, Member
from nri_coloc.placing import reclaim_cgroups
from nri_coloc.placing.node import Node
from nri_coloc.repair import targets
from nri_coloc.repair.actuator import Actuator

GUARD_EVERY_S: Final = 0.5
"""Seconds between two checks of reclaim cgroups without an inotify watch, round-robin: drift is repaired before the
next sweep. A check costs about as much as a tick."""

LEAVE_WITHIN_S: Final = 0.02
"""How long a growing reclaim pool waits for containers that leave its new CPUs, while the loop stands still. A later
container shares a CPU with tasks of minimum weight meanwhile."""


class _Members(NamedTuple):
    """Facts about the reclaim cgroups.

    of, beside, share: pods, containers and `share` CPUs of the state that the facts were computed from.
    any: whether there is a reclaimed pod or container.
    yield_all: whether every reclaimed pod has the smallest weight of all pods that share CPUs with it.
    equal: a pod that shares CPUs with reclaimed pods and weighs no more than one of them, "" for none.
    """

    of: object = None
    beside: object = None
    share: CPUMask = 0
    any: bool = False
    yield_all: bool = False
    equal: str = ""


class Relocation:
    """Moves cgroups; belongs to the loop's thread.

    eevdf: whether this kernel's fair class keeps heavy tasks from waiting long behind the lightest ones.
    """

    def __init__(
        self, node: Node, actuator: Actuator, file_watch: FileWatch, *, after: After, eevdf: bool
    ) -> None:
        self._eevdf = eevdf
        self._node = node
        self._actuator = actuator
        self._after = after
        self._members = _Members()
        self._file_watch = file_watch
        self._guarded_at = 0.0

    @property
    def host_groups(self) -> tuple[str, ...]:
        """The reclaim cgroups outside Kubernetes; the same tuple until it changes."""
        return self._actuator.host_groups.members

    def look_at(self, state: NodeState) -> None:
        """Have the reclaim cgroups watched; to be called after one came or went."""
        self._file_watch.follow({} if self._node.tuning.observe else self._members_of(state))

    def _members_of(self, state: NodeState) -> dict[str, Member]:
        """Return the reclaim cgroups by path: pods, then host groups."""
        actuator, members = self._actuator, {}
        for pod_id in state.box:
            files, look = partial(actuator.files_of_pod, pod_id), partial(actuator.guard_pod, pod_id)
            members[targets.pod_path(state.pods[pod_id].pod)] = Member(look, files)
        for path in self.host_groups:
            groups = actuator.host_groups
            files, look = partial(groups.files_of, path), partial(groups.guard, path)
            members[path] = Member(look, files, may_be_remade=True)
        return members

    def has_members(self, state: NodeState) -> bool:
        """Return whether anything runs on lent CPUs."""
        return bool(self.host_groups) or self._looked_up(state).any

    def yields(self, state: NodeState) -> bool:
        """Return whether all reclaimed tasks yield to online tasks at once.

        A host group competes with all pods, so with host groups the answer is False.
        """
        return self._eevdf and not self.host_groups and self._looked_up(state).yield_all

    def equal(self, state: NodeState) -> str:
        """Return the id of a pod that reclaimed tasks would yield to if it weighed more, "" for none."""
        return self._looked_up(state).equal if self._eevdf and not self.host_groups else ""

    def _looked_up(self, state: NodeState) -> "_Members":
        """Return facts about the reclaim cgroups.

        They are computed again after pods, containers or the CPUs of `share` changed.
        """
        known, share = self._members, state.pools.share
        if known.of is state.pods and known.beside is state.containers and known.share == share:
            return known
        self._members = _Members(
            of=state.pods,
            beside=state.containers,
            share=share,
            any=reclaim_cgroups.has_members(state),
            yield_all=reclaim_cgroups.weighs_least(state),
            equal=reclaim_cgroups.equal(state),
        )
        return self._members

    def carry_out(self, outcome: Outcome, before: NodeState) -> None:
        """Move the cgroups of an outcome that is in force already."""
        others = Moves(containers=outcome.moves.containers)  # the policy lists leaving containers first
        leaving = Moves(containers=_leaving_to_the_box(outcome, before))
        if leaving:
            gained = outcome.state.pools.reclaim & ~before.pools.reclaim
            self._actuator.submit(others, RECLAIM, gained, leaving)
            self._actuator.await_departure(RECLAIM, LEAVE_WITHIN_S)
        self._actuator.place_pods(outcome.moves.pods)
        if self.host_groups:
            self._actuator.host_groups.place()
        if not others:
            return
        moves = NO_MOVES if leaving else others
        tell(self._after, Change(before, outcome.state, moves=moves, specs=others.containers))

    def guard(self, state: NodeState, now: float) -> None:
        """Check one reclaim cgroup at times, while the reclaim pool is smaller than `share`."""
        if now - self._guarded_at < GUARD_EVERY_S or state.pools.reclaim == state.pools.share:
            return
        self._guarded_at = now
        self._file_watch.look_at_next()


def _leaving_to_the_box(outcome: Outcome, before: NodeState) -> tuple[str, ...]:
    """Return the containers that must leave CPUs that the reclaim pool gains."""
    after = outcome.state
    gained = after.pools.reclaim & ~before.pools.reclaim
    if not gained:
        return ()
    moving = ((k, before.containers.get(k), after.containers[k]) for k in outcome.moves.containers)
    return tuple(
        k
        for k, was, now in moving
        if was is not None and before.cpus_of(was) & gained and not after.cpus_of(now) & gained
    )
