"""What becomes of an owner's CPUs when it ends and other containers of its pod run on them.

Where the CPUs are the whole pod's (see `entitlement`), one of these containers owns them from then on and the others
follow it: the pod still requests them. Sidecars of a main container go back to `share`.
"""

from dataclasses import replace
from functools import reduce

from nri_coloc.model.decisions import Decision
from nri_coloc.model.state import DEDICATED, Assignment, NodeState
from nri_coloc.policy import admission, change, entitlement, request, resize, words


def without(state: NodeState, leaving: tuple[Assignment, ...]) -> tuple[NodeState, tuple[Decision, ...]]:
    """Return the state without these containers, and the decisions on the containers that followed them."""
    after = change.without(state, leaving)
    if not change.followers(state, leaving):
        return after, ()
    said: list[Decision] = []
    for owner in leaving:
        followers = [
            after.containers[a.id] for a in change.followers(state, (owner,)) if a.id in after.containers
        ]
        heir = _heir(after, owner, followers)
        if heir is None:
            said += (words.of_orphan(state, after, a) for a in followers)
            continue
        others = [
            replace(a, pool=DEDICATED, follows=heir.id, mems=heir.mems) for a in followers if a.id != heir.id
        ]
        after = reduce(change.with_container, (heir, *others), after)
        said += (words.of_heir(state, after, owner, a) for a in (heir, *others))
    return after, tuple(said)


def _heir(state: NodeState, owner: Assignment, followers: list[Assignment]) -> Assignment | None:
    """Return the follower that may own most CPUs, as their owner; None without one."""
    pod_owned = not request.of_container(owner.container, owner.wish).milli
    able = [
        (a, due)
        for a in followers
        if (due := entitlement.of(state, a.container, a.wish).cpus)
        and (pod_owned or request.of_container(a.container, a.wish).milli)
    ]
    if not able or not owner.exclusive:
        return None
    first, due = min(able, key=lambda pair: (-pair[1], pair[0].id))
    count = min(due, owner.exclusive.bit_count())
    kept = resize.fit(state.topology, 0, owner.exclusive, count, first.wish)
    cpus = kept.cpus if kept is not None else owner.exclusive
    mems = admission.bound_to(state, first.wish, cpus)
    return replace(first, pool=DEDICATED, exclusive=cpus, follows="", mems=mems)
