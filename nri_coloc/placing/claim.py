"""Return the CPUs that a container may call its own if this process did not place it.

The record annotation holds the state at creation and can never be rewritten: NRI carries annotations at creation
only. The CPUs in the runtime's spec are newer if we moved or resized the container since: our update wrote them, and
the runtime keeps them. But the spec of a container that lost its own CPUs names its pool's CPUs. So the spec counts
only if it agrees with the record and the request (docs/testing.md, invariant 3).
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from nri_coloc.core import cpuset
from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.decisions import Inputs
from nri_coloc.core.state import DEDICATED
from nri_coloc.core.workload import Container, Phase, QoSClass, Wish
from nri_coloc.placing import record, request


class Claim(NamedTuple):
    """CPUs that a container claims.

    source: "record" or "spec", where the CPUs stand.
    sure: record and spec agree on some of the CPUs. Other CPUs may belong to a pool, so sure claims go first.
    recorded: the record names CPUs of its own.
    followed: the record says that it ran on another container's CPUs; the spec may name just these.
    """

    cpus: CPUMask = 0
    source: str = "spec"
    sure: bool = False
    recorded: bool = False
    followed: bool = False

    @property
    def is_belied(self) -> bool:
        """Whether the spec names CPUs that contradict the record."""
        return self.source == "record" and not self.sure

    @property
    def inputs(self) -> Inputs:
        """The source and the CPUs by name, for the audit."""
        return {"claim": self.source, "claim_cpus": cpuset.render(self.cpus)}


NO_CLAIM: Final = Claim()


def of(container: Container, wish: Wish, of_pod: int | None) -> Claim:
    """Return the CPUs that a listed container may get again if they are still free.

    of_pod: CPU request of its pod, thousandths of a CPU, None if unknown.
    """
    memory = record.read(container.record)
    asked = request.of_container(container, wish)
    if 0 < asked.milli < 1000:
        return NO_CLAIM
    spec = in_spec(container)
    if memory is not None and memory.exclusive:
        if spec != memory.exclusive and _is_newer(spec, memory.exclusive, asked.whole):
            return Claim(spec, sure=bool(spec & memory.exclusive), recorded=True)
        return Claim(memory.exclusive, "record", sure=spec in (0, memory.exclusive), recorded=True)
    # it got its CPUs or its class after its creation, or was placed by file; if it does not run, it claims nothing
    lives = container.phase is Phase.RUNNING or (memory is not None and memory.qos is QoSClass.DEDICATED)
    most = asked.whole if of_pod is None else min(asked.whole, -(-of_pod // 1000))
    as_asked = most > 0 and spec.bit_count() == most
    # a follower may have inherited the CPUs of its pod after its creation
    followed = memory is not None and memory.pool == DEDICATED
    is_claim = lives and (as_asked or followed) and wish.qos is QoSClass.DEDICATED
    return Claim(spec, followed=followed) if is_claim else NO_CLAIM


def _is_newer(spec: CPUMask, recorded: CPUMask, asked: int) -> bool:
    """Return whether our own update wrote a spec's CPUs: for a move, for a new request, or to take some back.

    A spec with the recorded CPUs and more, but fewer than requested, is from a growth before one that was refused.
    """
    size = spec.bit_count()
    grown = spec & recorded == recorded and size < asked
    shrunk = spec & recorded == spec and size > 0
    return size in (recorded.bit_count(), asked) or grown or shrunk


def in_spec(container: Container) -> CPUMask:
    """Return the CPUs that a container's spec names, 0 if it names none or cannot be read."""
    return of_text(container.resources.cpus)


class InPool(NamedTuple):
    """The place that a container's record and specification show, if it owns no CPUs.

    cpus: the CPUs of its pool that the specification names since our last push, 0 if none are known.
    pool: the pool of the record, "" if none is known; the specification may still name this pool's CPUs.
    may_follow: it may run on the CPUs of another container of its pod, by its request or by its record.
    """

    cpus: CPUMask
    pool: str
    may_follow: bool


def in_pools(listed: Iterable[tuple[Container, Wish]]) -> dict[str, InPool]:
    """Return the places of listed containers, by id.

    CPUs that another agent chose are no pool's. The CPUs that the container owned at its creation are none either: its
    spec is from before it lost them.
    """
    return {container.id: _in_pool(container, wish) for container, wish in listed}


def _in_pool(container: Container, wish: Wish) -> InPool:
    memory, spec = record.read(container.record), in_spec(container)
    small = wish.qos is QoSClass.DEDICATED and not request.of_container(container, wish).whole
    if memory is None:
        return InPool(0, "", small)
    # a container that has another class now may have followed, too
    follows = memory.pool == DEDICATED and not memory.exclusive
    is_pools = wish.handler == "container" and not wish.is_hands_off and spec != memory.exclusive
    return InPool(spec if is_pools else 0, memory.pool, small or follows)


def of_text(cpus: str) -> CPUMask:
    """Return the CPUs of a list, 0 if it is empty or cannot be read."""
    try:
        return cpuset.parse(cpus)
    except ValueError:
        return 0
