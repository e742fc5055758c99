"""The daemon's parts without a process: a real node and policy, audit records in a list, a fake writer."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from nri_coloc._pb import told_pb2
from nri_coloc.core import cpuset
from nri_coloc.core.decisions import ContainerCreating, ContainerStarting, PodStarted
from nri_coloc.core.knobs import Capability, Knobs, Original
from nri_coloc.core.report import Subject
from nri_coloc.core.settings import Tuning
from nri_coloc.core.workload import Pod, Wish
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.hooks import translation
from nri_coloc.hooks.translation import Translator
from nri_coloc.host.cgroups import CgroupWriter
from nri_coloc.host.cpusets import Found
from nri_coloc.host.knob_files import Applied, Correction, Later, Target
from nri_coloc.host.write_back import Apart
from nri_coloc.nri.events import Call, Synchronize
from nri_coloc.placing import pools
from nri_coloc.placing.node import Node
from nri_coloc.pods import keys
from nri_coloc.repair.actuator import Actuator
from nri_coloc.runtime.listing import Listing
from nri_coloc.schedule.switch import Clocks
from nri_coloc.service.audit import AuditLog, Record
from nri_coloc.service.lending_switch import LendingSwitch
from nri_coloc.service.metrics import Metrics
from nri_coloc.service.report import Report
from nri_coloc.tuning.bandwidths import PodBandwidths
from nri_coloc.tuning.hints import Hints
from nri_coloc.tuning.scores import Scores
from tests.rig.records import mistakes
from tests.unit.placing import kit

MEMORY = 16 << 30
NOTHING_JOURNALLED = Original(frozenset())


class Requests:
    """Fake reader of pod cgroups, by pod id: CPU requests, milli-CPU, and `memory_by_pod`, bytes.

    `reads` counts its calls for CPU.
    """

    def __init__(self, by_pod: Mapping[str, int] | None = None) -> None:
        self.by_pod = dict(by_pod or {})
        self.memory_by_pod: dict[str, int] = {}
        self.reads = 0

    def read(self, pod: Pod) -> int | None:
        self.reads += 1
        return self.by_pod.get(pod.id)

    def memory(self, pod: Pod) -> int | None:
        return self.memory_by_pod.get(pod.id)


NO_REQUESTS = Requests()
"""Pod cgroups on a node without a kubelet: no request can be read."""


BOOT = "the boot"


def a_switch(folder: Path, wall: Callable[[], float] = lambda: 1_800_000_000.0) -> LendingSwitch:
    """Return a switch in a state folder, on a machine that booted at the beginning of 1970."""
    return LendingSwitch(str(folder), lambda: Clocks(BOOT, wall(), wall()))


class Heard:
    """Fake audit log that keeps the submitted records."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def submit(self, record: Record | Callable[[], Record]) -> int:
        made = record if isinstance(record, Record) else record()
        assert list(mistakes(made.because, made.extra.get("inputs") or {})) == []
        self.records.append(made)
        return len(self.records)

    def said(self) -> list[tuple[str, str]]:
        return [(record.event.value, record.reason.value) for record in self.records]


def a_node(tuning: Tuning | None = None) -> Node:
    """Return an 8-CPU node without pods, after the runtime's list."""
    tuning = tuning or Tuning()
    node = Node(pools.initial(kit.machine(), tuning), tuning, MEMORY)
    node.told = True
    return node


class NoMemory:
    """Fake memory worker: it writes at once, and keeps the paths of cgroups that are no longer reclaimed."""

    def __init__(self) -> None:
        self.released: list[str] = []

    def release(self, path: str) -> None:
        self.released.append(path)

    def later(self, later: Later, _subject: Subject) -> None:
        later.write()


def an_actuator(
    node: Node,
    writer: CgroupWriter,
    report: Report,
    *,
    memory: NoMemory | None = None,
    scores: Scores | None = None,
    look_again: Callable[[Capability], Capability] = lambda can: can,
) -> Actuator:
    """Return an actuator that is not started; its tasks take no scheduling hints."""
    return Actuator(
        node,
        writer,
        report,
        memory=memory or NoMemory(),
        bandwidths=PodBandwidths(node, writer, report),
        hints=Hints(node, writer, report, None),
        scores=scores or Scores(node, writer, report),
        look_again=look_again,
    )


def a_translator(
    tuning: Tuning, requests: translation.Requests = NO_REQUESTS, journalled: Original = NOTHING_JOURNALLED
) -> Translator:
    """Return a translator on a machine where the previous process journalled `journalled` of every container."""
    return Translator(MEMORY, tuning, requests, lambda _container: journalled)


def listed(
    translator: Translator,
    pods: Sequence[told_pb2.PodSandbox],
    containers: Sequence[told_pb2.Container],
) -> Listing:
    """Return the listing of a runtime that sends its whole list in one part."""
    listing = translator.listing()
    listing.add(Synchronize(Call(1, "Synchronize", 0), pods, containers, more=False))
    return listing


def a_report(node: Node) -> tuple[Report, Heard]:
    heard = Heard()
    metrics = Metrics("test", lambda: node.state, keys.base_of)
    return Report(cast("AuditLog", heard), metrics, node.lacking), heard


def create(
    node: Node,
    name: str,
    wish: Wish = kit.SHARED,
    milli: int = 1000,
    on: str = "web",
    *,
    limited: bool = False,
) -> Any:
    """Create and start a container whose id is its name, with a cgroup of that name.

    limited: it has a memory limit of 1 GiB, which is the request of a Guaranteed pod's container.
    """
    asked = kit.asking(milli, memory_limit=1 << 30 if limited else None)
    facts: dict[str, Any] = {"cgroups_path": f"/kubepods/pod{on}/{name}", "resources": asked}
    outcome = node.decide(ContainerCreating(kit.pod(on), kit.container(name, on, milli, **facts), wish))
    started = kit.container(name, on, milli, pid=7, **facts)
    node.decide(ContainerStarting(kit.pod(on), started, wish))
    return outcome


def start_pod(node: Node, name: str, wish: Wish = kit.RECLAIMED) -> Any:
    return node.decide(PodStarted(kit.pod(name), wish))


class Cgroups:
    """Fake writer: cgroups by path with their CPUs; it keeps all that is written."""

    def __init__(self, cpus: Mapping[str, int] | None = None) -> None:
        self.cpus_of = dict(cpus or {})
        self.texts: dict[tuple[str, str], str] = {}
        self.targets: list[Target] = []
        self.protections: list[tuple[str, str, int]] = []
        self.scores: list[tuple[int, int]] = []
        self.put: list[tuple[str, frozenset[str]]] = []
        self.apart: tuple[Apart, ...] | None = None
        self.former: set[str] = set()
        self.former_places: set[str] = set()
        self.without_cpuset: set[str] = set()
        self.version = 1
        self.before_writing: Callable[[], None] | None = None
        self.tidied = 0
        self.is_cluttered = False
        self.broken: set[str] = set()
        self.obeys = True
        self.knows_earlier = False
        self.looked_again = False

    def as_writer(self) -> CgroupWriter:
        return cast("CgroupWriter", self)

    def apply(self, target: Target) -> Applied:
        if target.path in self.broken:
            raise ValueError(f"{target.path} is not the expected value")
        self.targets.append(target)
        happens, self.before_writing = self.before_writing, None
        if happens is not None:
            happens()
        before = self.cpus_of.get(target.path)
        if before is not None and target.cpus and self.obeys:
            self.cpus_of[target.path] = target.cpus
        corrected = tuple(filter(None, (self._correct(target.path, v.name, v.text) for v in target.values)))
        if not target.cpus:
            return Applied(corrected=corrected)
        return Applied(self.cpus_of.get(target.path), before, corrected=corrected)

    def resized(self, path: str, told: Knobs) -> None:
        """Take note of nothing: this fake journals no values."""

    def look_again(self) -> None:
        """Note the last call of the actuator's thread."""
        self.looked_again = True

    def _correct(self, path: str, name: str, text: str) -> Correction | None:
        """Write a file that a test has made; other files do not exist."""
        was = self.texts.get((path, name), text)
        if was == text:
            return None
        self.texts[path, name] = text
        return Correction(name, was, text)

    def put_back(
        self, path: str, keep: frozenset[str], apart: Iterable[Apart] | None = None
    ) -> tuple[KernelInterfaceError, ...]:
        self.put.append((path, keep))
        self.apart = None if apart is None else tuple(apart)
        return ()

    def protect(self, path: str, name: str, amount: int) -> Applied:
        self.protections.append((path, name, amount))
        corrected = self._correct(path, name, str(amount))
        return Applied(corrected=(corrected,) if corrected else ())

    def protected(self) -> set[str]:
        return self.former

    def placed(self) -> set[str]:
        return self.former_places

    def look(self, path: str) -> Found | None:
        cpus = self.cpus_of.get(path)
        return None if cpus is None else Found(cpuset.render(cpus), cpus)

    def text(self, path: str, _controller: str, _name: str) -> str | None:
        """Return the CPUs of a cgroup; no other file is only read."""
        return cpuset.render(self.cpus_of[path]) if path in self.cpus_of else None

    def is_there(self, path: str) -> bool:
        return path in self.cpus_of or path in self.without_cpuset

    def members(self, path: str) -> tuple[int, ...]:
        return ()

    def score(
        self, path: str, pids: Iterable[int], value: int, kubelets: int | None
    ) -> KernelInterfaceError | None:
        self.scores += ((pid, value) for pid in pids)
        return None

    def know_earlier(self) -> None:
        self.knows_earlier = True

    def tidy(self) -> None:
        self.is_cluttered = False
        self.tidied += 1
