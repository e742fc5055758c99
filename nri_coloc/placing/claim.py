"""Which CPUs a container that we did not place in this life may call its own.

Its record speaks of the day of creation and can never be rewritten: NRI carries annotations at creation only. Its
spec's CPUs are newer where we moved or resized it since: an update of ours put them there, and the runtime keeps
them. But a spec names the pool's CPUs too, where a container lost its own; so the spec is believed only where it
says what the record and the request let us expect (DESIGN invariant 3).
"""

from typing import Final, NamedTuple

from nri_coloc.core import cpuset
from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.state import DEDICATED
from nri_coloc.core.workload import Container, Phase, QoSClass, Wish
from nri_coloc.placing import record, request


class Claim(NamedTuple):
    """CPUs and where they stand; `sure`: record and spec agree on some of them. Others may be a pool's by now, or
    always have been, so sure ones go before them. `recorded`: the record says that it owned some. `followed`: the
    record says that it ran on another container's, which may be all that its spec names."""

    cpus: CPUMask = 0
    source: str = "spec"
    sure: bool = False
    recorded: bool = False
    followed: bool = False

    @property
    def is_belied(self) -> bool:
        """Whether the spec names CPUs that the record does not let us expect."""
        return self.source == "record" and not self.sure

    @property
    def words(self) -> str:
        """Where it stands, for the audit."""
        return f"{self.source} gives CPUs {cpuset.render(self.cpus)}"


NO_CLAIM: Final = Claim()


def of(container: Container, wish: Wish, of_pod: int | None) -> Claim:
    """Return the CPUs that a listed container may have back, if they are still free.

    `of_pod`: its pod's CPU request, thousandths of a CPU, None where not known.
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
    # it got its own after its creation, or was placed by file; what only asks to be created claims nothing
    lives = container.phase is Phase.RUNNING if memory is None else memory.qos is QoSClass.DEDICATED
    most = asked.whole if of_pod is None else min(asked.whole, -(-of_pod // 1000))
    as_asked = most > 0 and spec.bit_count() == most
    # a follower may have inherited the CPUs of its pod since
    followed = memory is not None and memory.pool == DEDICATED
    is_claim = lives and (as_asked or followed) and wish.qos is QoSClass.DEDICATED
    return Claim(spec, followed=followed) if is_claim else NO_CLAIM


def _is_newer(spec: CPUMask, recorded: CPUMask, asked: int) -> bool:
    """Whether we put a spec's CPUs there since: moved, met a new request, or given some back.

    What holds the recorded ones and more, but fewer than asked for, has grown before a growth that was refused.
    """
    size = spec.bit_count()
    grown = spec & recorded == recorded and size < asked
    shrunk = spec & recorded == spec and size > 0
    return size in (recorded.bit_count(), asked) or grown or shrunk


def in_spec(container: Container) -> CPUMask:
    """Return the CPUs that a container's spec names, 0 for none and for what cannot be read."""
    return of_text(container.resources.cpus)


def of_text(cpus: str) -> CPUMask:
    """Return the CPUs of a list, 0 for an empty list and for one that cannot be read."""
    try:
        return cpuset.parse(cpus)
    except ValueError:
        return 0
