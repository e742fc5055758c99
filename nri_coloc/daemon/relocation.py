"""What a new size of pools means for cgroups: who leaves CPUs goes first, who comes to them after.

The loop's thread writes the box's cgroups itself: handed to the actuator, a cut would wait behind a sweep. All others
go the usual way: files by the actuator, and then the runtime's spec by the pusher. A box that grows onto CPUs which
others have to leave waits for them, for a moment.
"""

from functools import partial
from typing import Final, NamedTuple

from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.decisions import NOBODY, Moves, Outcome
from nri_coloc.core.state import RECLAIM, NodeState
from nri_coloc.daemon import targets
from nri_coloc.daemon.actuator import Actuator
from nri_coloc.daemon.node import Node
from nri_coloc.daemon.seams import After, Change, tell
from nri_coloc.daemon.sentry import Member, Sentry
from nri_coloc.placing import reclaim_cgroups

GUARD_EVERY_S: Final = 0.5
"""Seconds between two checks of reclaim cgroups without an inotify watch, round-robin: drift is repaired before the
next sweep. A check costs about as much as a tick."""

LEAVE_WITHIN_S: Final = 0.02
"""How long a growing reclaim pool waits for containers that leave its new CPUs, while the loop stands still. A later
container shares a CPU with tasks of minimum weight meanwhile."""


class _Members(NamedTuple):
    """Of the box, `of` these pods and `beside` these containers: whether there are `any`, whether they all weigh least,
    and who weighs as little as they."""

    of: object = None
    beside: object = None
    share: CPUMask = 0
    any: bool = False
    yield_all: bool = False
    equal: str = ""


class Relocation:
    """Belongs to the loop's thread.

    eevdf: whether this kernel's fair class keeps heavy tasks from waiting long behind the lightest ones.
    """

    def __init__(self, node: Node, actuator: Actuator, sentry: Sentry, *, after: After, eevdf: bool) -> None:
        self._eevdf = eevdf
        self._node = node
        self._actuator = actuator
        self._after = after
        self._members = _Members()
        self._sentry = sentry
        self._guarded_at = 0.0

    @property
    def host_groups(self) -> tuple[str, ...]:
        """Members of the box outside Kubernetes; the same tuple until one comes or goes."""
        return self._actuator.members_outside()

    def look_at(self, state: NodeState) -> None:
        """Have the box's members watched; to be called when somebody came or went."""
        self._sentry.follow({} if self._node.tuning.observe else self._members_of(state))

    def _members_of(self, state: NodeState) -> dict[str, Member]:
        """Return the box's members by their cgroups: its pods, then its host groups."""
        actuator, members = self._actuator, {}
        for pod_id in state.box:
            files, look = partial(actuator.files_of_pod, pod_id), partial(actuator.guard_pod, pod_id)
            members[targets.pod_path(state.pods[pod_id].pod)] = Member(look, files)
        for path in self.host_groups:
            files = partial(actuator.files_of_host_group, path)
            members[path] = Member(partial(actuator.guard_host_group, path), files, may_be_remade=True)
        return members

    def has_members(self, state: NodeState) -> bool:
        """Whether anybody lives on what is lent."""
        return bool(self.host_groups) or self._looked_up(state).any

    def yields(self, state: NodeState) -> bool:
        """Whether all that runs in the box gives way at once; a cgroup outside Kubernetes competes with all pods."""
        return self._eevdf and not self.host_groups and self._looked_up(state).yield_all

    def equal(self, state: NodeState) -> str:
        """Return a pod that the box would give way to if that weighed more, "" where there is none."""
        return self._looked_up(state).equal if self._eevdf and not self.host_groups else ""

    def _looked_up(self, state: NodeState) -> "_Members":
        """Return what is known of the members; anew only after somebody came or went, or `share` has other CPUs."""
        known, share = self._members, state.pools.share
        if known.of is state.pods and known.beside is state.containers and known.share == share:
            return known
        self._members = _Members(
            state.pods,
            state.containers,
            share,
            reclaim_cgroups.has_members(state),
            reclaim_cgroups.weighs_least(state),
            reclaim_cgroups.equal(state),
        )
        return self._members

    def carry_out(self, outcome: Outcome, before: NodeState) -> None:
        """Bring everybody to an outcome that holds already."""
        others = Moves(containers=outcome.moves.containers)  # the policy lists leaving containers first
        leaving = Moves(containers=_leaving_to_the_box(outcome, before))
        if leaving:
            gained = outcome.state.pools.reclaim & ~before.pools.reclaim
            self._actuator.submit(others, RECLAIM, gained, leaving)
            self._actuator.await_departure(RECLAIM, LEAVE_WITHIN_S)
        self._actuator.place_pods(outcome.moves.pods)
        if self.host_groups:
            self._actuator.place_host_groups()
        if not others:
            return
        moves = NOBODY if leaving else others
        tell(self._after, Change(before, outcome.state, moves=moves, specs=others.containers))

    def guard(self, state: NodeState, now: float) -> None:
        """Have one member of a box that is held back looked at, once in a while."""
        if now - self._guarded_at < GUARD_EVERY_S or state.pools.reclaim == state.pools.share:
            return
        self._guarded_at = now
        self._sentry.look_at_next()


def _leaving_to_the_box(outcome: Outcome, before: NodeState) -> tuple[str, ...]:
    """Return who has to leave CPUs that the box comes to."""
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
