"""Which CPUs a container that we did not place in this life may call its own.

Its record speaks of the day of creation and can never be rewritten: NRI carries annotations at creation only. Its
spec's CPUs are newer where we moved or resized it since: an update of ours put them there, and the runtime keeps
them. But a spec names the pool's CPUs too, where a container lost its own; so the spec is believed only where it
says what the record and the request let us expect (DESIGN invariant 3).
"""

from typing import Final, NamedTuple

from nri_coloc.model import cpuset
from nri_coloc.model.cpuset import CPUMask
from nri_coloc.model.workload import Container, Phase, QoSClass, Wish
from nri_coloc.policy import record, request


class Claim(NamedTuple):
    """CPUs and where they stand; `sure`: record and spec agree on some of them. Others may be a pool's by now, or
    always have been, so sure ones go before them. `recorded`: the record says that it owned some."""

    cpus: CPUMask = 0
    source: str = "spec"
    sure: bool = False
    recorded: bool = False

    @property
    def is_belied(self) -> bool:
        """Whether the spec names CPUs that the record does not let us expect."""
        return self.source == "record" and not self.sure

    @property
    def words(self) -> str:
        """Where it stands, for the audit."""
        return f"{self.source} gives CPUs {cpuset.render(self.cpus)}"


NO_CLAIM: Final = Claim()


def of(container: Container, wish: Wish) -> Claim:
    """Return the CPUs that a listed container may have back, if they are still free."""
    memory = record.read(container.record)
    asked = request.of_container(container, wish)
    spec = in_spec(container)
    if memory is not None and memory.exclusive:
        if spec != memory.exclusive and _is_newer(spec, memory.exclusive, asked.whole):
            return Claim(spec, sure=bool(spec & memory.exclusive), recorded=True)
        found = Claim(memory.exclusive, "record", sure=spec in (0, memory.exclusive), recorded=True)
        # what a sidecar had before its main container came is given back, and its record cannot be rewritten
        return NO_CLAIM if found.is_belied and 0 < asked.milli < 1000 else found
    # it got its own after its creation, or was placed by file; what only asks to be created claims nothing
    lives = container.phase is Phase.RUNNING if memory is None else memory.qos is QoSClass.DEDICATED
    as_asked = asked.milli >= 1000 and spec.bit_count() == asked.whole
    return Claim(spec) if lives and as_asked and wish.qos is QoSClass.DEDICATED else NO_CLAIM


def by_driver(container: Container) -> CPUMask:
    """Return the CPUs that the DRA CPU driver gave a container, 0 if it gave none.

    Its variables are believed only where the runtime's spec named exactly their CPUs before us: the driver is a
    plugin that pins before we are asked, while an environment is what anybody may write into a pod.
    """
    if not container.claimed:
        return 0
    pinned = in_spec(record.before_us(container))
    return pinned if pinned == container.claimed else 0


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
    try:
        return cpuset.parse(container.resources.cpus)
    except ValueError:
        return 0
