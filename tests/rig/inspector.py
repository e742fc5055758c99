"""Looks at many containers from outside, and returns each invariant of DESIGN §3 that does not hold, in words.

It knows the requests of the tests and the kernel's files (`cgroups`). It reads nothing that the plugin reports. These
invariants can be seen from outside:
* dedicated CPUs are disjoint from those of all other containers (1);
* no set is empty or beyond the machine (1);
* no process runs outside its set;
* every reclaimed pod is in the reclaim cgroups (3);
* the kubelet's values are as the kubelet wrote them (7);
* no process writes on the cgroups above the pods (6), above all not on the BestEffort class.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from tests.rig import cgroups, kubepods, workloads
from tests.rig.cri import Cri, Pod
from tests.rig.waiting import comes, patience
from tests.rig.workloads import NODE_CPUS, PERIOD, Workload
from tests.rig.writes import Writes

SOUND_SECONDS: Final = 60
ANCESTORS: Final = ("/kubepods", "/kubepods/burstable", "/kubepods/besteffort")
LENT: Final = (
    *(("cpuset", "cpuset.cpus"), ("cpuset", "cpuset.mems"), ("cpu", "cpu.shares"), ("cpu", "cpu.weight")),
    *(("cpu", "cpu.cfs_quota_us"), ("cpu", "cpu.max"), ("blkio", "blkio.bfq.weight"), ("blkio", "io.weight")),
    *(("memory", "memory.limit_in_bytes"), ("memory", "memory.max"), ("memory", "memory.high")),
)
"""The files by which something could be lent, by controller."""

POD_SHARES: Final = (1024, None)
POD_WEIGHT: Final = (100, None)
"""What a pod's cgroup of the rig's has: the kernel's defaults, for the rig sets nothing there."""


@dataclass(frozen=True, slots=True)
class Subject:
    """Hold a container and its values from the kubelet.

    `owns`: the number of CPUs that it must have for itself.
    """

    workload: Workload
    qos: str
    shares: int
    quota: int
    owns: int = 0

    @property
    def name(self) -> str:
        """Return the subject's name for a sentence."""
        return f"{self.qos} {self.workload.pod.name}"


class Inspector:
    """Watch containers in a `with` block, because it holds the kernel's record of writes."""

    def __init__(self, cri: Cri) -> None:
        self._cri = cri
        self._subjects: dict[str, Subject] = {}
        self._above = Writes()
        self._watched: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._above.__exit__(kind, error, trace)

    # ---- the watched containers ----

    def run(
        self,
        name: str,
        qos: str,
        *,
        owns: int | None = None,
        annotations: Mapping[str, str] | None = None,
        started: bool = True,
    ) -> Workload:
        """Run a pod of a class as the kubelet would, and watch it.

        owns: number of CPUs of its own; default for a dedicated pod: 1.
        """
        parent = kubepods.BESTEFFORT if qos == "reclaimed" else kubepods.BURSTABLE
        request = {"dedicated": 1.0, "shared": 0.1}.get(qos, 0)
        found = workloads.run(
            self._cri,
            name,
            qos,
            request=request,
            annotations=annotations,
            parent=parent,
            started=started,
            oom=1000 if qos == "reclaimed" else 0,
        )
        return self.watch(found, qos, owns=owns)

    def add(self, pod: Pod, name: str, qos: str = "shared") -> Workload:
        """Run one more container in a pod, and watch it."""
        return self.watch(workloads.add(self._cri, pod, name, request=0.1), qos)

    def watch(self, workload: Workload, qos: str, *, owns: int | None = None) -> Workload:
        """Watch a container that was made with `workloads`' amounts for its class."""
        request = {"dedicated": 1.0, "shared": 0.1}.get(qos, 0)
        shares, quota = (int(request * 1024), int(request * PERIOD)) if request else (2, -1)
        owned = owns if owns is not None else int(qos == "dedicated")
        self._subjects[workload.id] = Subject(workload, qos, shares, quota, owned)
        self._watch_ancestors()
        return workload

    def resized(self, workload: Workload, shares: int, quota: int) -> None:
        """Set the amounts that the kubelet now asks for."""
        known = self._subjects[workload.id]
        self._subjects[workload.id] = Subject(workload, known.qos, shares, quota, known.owns)

    def forget(self, workload: Workload) -> None:
        """Stop watching a container: it ends, or the invariants need not hold for it for now."""
        self._subjects.pop(workload.id, None)

    def _watch_ancestors(self) -> None:
        """Watch the cgroups above the pods once they exist; the rig makes them with the first pod of a class."""
        for group in ANCESTORS:
            if group in self._watched or not kubepods.folders(group):
                continue
            self._watched.add(group)
            for controller, name in LENT:
                path = cgroups.file(group, controller, name)
                if path.exists():
                    self._above.watch(path)

    # ---- the invariants that do not hold ----

    def breaches(self) -> list[str]:
        """Return every invariant that does not hold, in words; empty when all hold.

        Files are read one after another, so a move may show in half of a reading. A lasting fault shows in the next
        one.
        """
        first = self._look()
        return [words for words in self._look() if words in first] if first else []

    def _look(self) -> list[str]:
        found = [words for subject in self._subjects.values() for words in self._of(subject)]
        found += self._overlaps()
        written = sorted({str(path) for path in self._above.seen()})
        return found + [f"6: {path}, above pods that are not reclaimed, was written" for path in written]

    def wait_until_sound(self, seconds: float = SOUND_SECONDS) -> None:
        """Wait until every invariant holds; the failure lists the others.

        One look must find nothing: amid a move two looks may find other breaches each, and so no lasting one.
        """
        if not comes(lambda: not self._look(), seconds):
            raise AssertionError(f"{patience(seconds):g} s later still: {'; '.join(self.breaches())}")

    def holds_until(self, predicate: Callable[[], object], seconds: float, what: str) -> None:
        """Wait until the predicate is true; every invariant must hold at every reading."""

        def over() -> bool:
            found = self.breaches()
            assert not found, "; ".join(found)
            return bool(predicate())

        assert comes(over, seconds), f"waited {patience(seconds):g} s in vain for {what}"

    def _of(self, subject: Subject) -> Iterator[str]:
        cpus = subject.workload.cpus
        if not cpus:
            yield f"1: {subject.name} has {'no cgroup' if cpus is None else 'an empty set'}"
            return
        if not cpus <= NODE_CPUS:
            yield f"1: {subject.name} is on CPUs that are not online: {sorted(cpus - NODE_CPUS)}"
        if subject.owns and len(cpus) != subject.owns:
            yield f"3: {subject.name} should own {subject.owns} and has CPUs {sorted(cpus)}"
        yield from _astray(subject, cpus)
        yield from _unboxed(subject) if subject.qos == "reclaimed" else _changed(subject)

    def _overlaps(self) -> Iterator[str]:
        owned: frozenset[int] = frozenset()
        for owner in (s for s in self._subjects.values() if s.owns):
            mine = owner.workload.cpus or frozenset()
            owned |= mine
            for other in self._subjects.values():
                if other is owner:
                    continue
                if shared := mine & ((other.workload.cpus or frozenset()) | _of_pod(other)):
                    yield f"1: CPUs {sorted(shared)} of {owner.name} are also {other.name}'s"
        if owned >= NODE_CPUS:
            yield "1: nothing is left to share"


def _astray(subject: Subject, cpus: frozenset[int]) -> Iterator[str]:
    """Yield the processes that the scheduler would run outside the cgroup's CPUs."""
    for pid in cgroups.pids(subject.workload.cgroup):
        allowed = cgroups.allowed_cpus(pid)
        # a process that just ended has none; one that was just moved shows in the next reading
        if allowed and not allowed <= cpus and cpus == subject.workload.cpus:
            yield f"1: process {pid} of {subject.name} may run on {sorted(allowed)}, its set is {sorted(cpus)}"


def _of_pod(subject: Subject) -> frozenset[int]:
    """Return the CPUs of a reclaimed pod's own cgroup, from which its containers inherit."""
    return (
        (cgroups.cpus(subject.workload.pod.cgroup) or frozenset())
        if subject.qos == "reclaimed"
        else frozenset()
    )


def _unboxed(subject: Subject) -> Iterator[str]:
    """Yield the values of a reclaimed pod that differ from those of the reclaim cgroups."""
    pod = subject.workload.pod.cgroup
    if (cgroups.shares(pod), cgroups.weight(pod)) not in ((2, None), (None, 1)):
        yield f"3: the pod of {subject.name} has CPU shares {cgroups.shares(pod)}, weight {cgroups.weight(pod)}"
    if cgroups.bfq_weight(pod) not in (10, None):
        yield f"3: the pod of {subject.name} has the I/O weight {cgroups.bfq_weight(pod)}"


def _changed(subject: Subject) -> Iterator[str]:
    """Yield the kubelet's own values that are not as it wrote them."""
    own, pod = subject.workload.cgroup, subject.workload.pod.cgroup
    if cgroups.shares(own) not in (subject.shares, None):
        yield f"7: {subject.name} has shares {cgroups.shares(own)} instead of {subject.shares}"
    quota = cgroups.quota(own)
    if quota is not None and quota[0] != subject.quota:
        yield f"7: {subject.name} has the quota {quota[0]} instead of {subject.quota}"
    if cgroups.shares(pod) not in POD_SHARES or cgroups.weight(pod) not in POD_WEIGHT:
        yield f"7: the pod of {subject.name} has shares {cgroups.shares(pod)}, weight {cgroups.weight(pod)}"
    if (cgroups.quota(pod) or (-1, 0))[0] != -1 or cgroups.memory_limit(pod) is not None:
        yield f"7: the pod of {subject.name} has a limit that the kubelet did not set"
