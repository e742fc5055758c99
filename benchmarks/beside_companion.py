"""`hook.create.shared.110.{companion,alone,control}`: does a hook wait for the companion, and what does it cost?

Three daemons that lend have the same 110 pods, whose objects a real API server has. The companion runs beside one
daemon. The other two have none: they are the control pair. All take turns. Before each turn facts about ten pods
change, and five pods with an invalid annotation begin, so that facts and Events are on their way while it lasts.

Before that it measures memory, CPU and requests of companion and controller: idle, and with a changed fact and an Event
every two seconds, the most that the companion writes.

`python -m benchmarks beside-companion 120 8000`: 120 seconds idle, turns of 8,000 creations; six minutes.
"""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks import api_costs, figures, folders
from benchmarks.hook import Numbers
from benchmarks.runtime import MeasuredRuntime, container_of, pod_of
from nri_coloc._pb import nri_pb2
from nri_coloc.kubernetes.presets import DEFAULT, OPEN, REPORTED_AT
from nri_coloc.nri.calls import HookKind
from nri_coloc.sim import machines
from nri_coloc.sim.cgroup_tree import CgroupTree
from tests.cluster.api import kit
from tests.cluster.api_server import ApiServer, node, pod
from tests.cluster.companion_rig import spawn_here
from tests.cluster.namespace import ends
from tests.rig import vitals
from tests.rig.waiting import wait_until

PODS: Final = 110
TURNS: Final = 10
PAIR: Final = "alone"
SIDES: Final = ("companion", PAIR, "control")
REPORTS_S: Final = 60.0
SETTLED_S: Final = 30.0
BUSY_S: Final = 60.0
EVERY_S: Final = 2.0
CHANGED: Final = 10
INVALID: Final = 5
MACHINE: Final = "epyc-256"
LOG: Final = 2000
"""Characters of a program's log below an error."""

CONFIG: Final = "reclaim: {enabled: true}\nkubernetes: {report: status, companionUid: 0, companionGid: 0}\n"


def run(seconds: int = 120, calls: int = 8000) -> dict[str, figures.Figures]:
    """Print the costs, and return the figures of the hooks of all three daemons."""
    with api_costs.served() as server, ExitStack() as stack:
        cluster, others = Cluster(server), api_costs.watches(server)
        sides = {name: stack.enter_context(_side(cluster)) for name in SIDES}
        programs = {
            "companion": stack.enter_context(_companion(server, sides["companion"].socket)),
            "controller": stack.enter_context(_controller(server)),
        }
        wait_until(cluster.has_report, REPORTS_S, "a report of the node")
        time.sleep(SETTLED_S)
        print(f"{api_costs.watches(server) - others} watches of nodes and pods")
        _print_costs("idle", server, programs, partial(_rest, seconds))
        _print_costs("busy", server, programs, partial(_keep_busy, cluster, sides["companion"]))
        print(f"{cluster.events()} Events written")
        return _pairs(cluster, sides, calls)


class Cluster:
    """Objects of one node and its pods, as administrator of the API server."""

    def __init__(self, server: ApiServer) -> None:
        self._api = server.admin()
        self._api.create("/api/v1/nodes", _node())
        self._api.create(kit.COMPANIONS, kit.companion_pod("a"))
        kit.companion_on(server, self._api, "a").close()
        kit.controller(server, self._api).close()
        self.pods = [self._api.create(kit.PODS, _pod(number))["metadata"] for number in range(PODS)]
        self._turn = cycle(self.pods)
        self.changes = 0

    def change_facts(self, pods: int) -> None:
        """Give some pods another owner."""
        for _ in range(pods):
            self.changes += 1
            owner = {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "name": f"j{self.changes}",
                "uid": f"{self.changes}",
            }
            body = {"metadata": {"ownerReferences": [{**owner, "controller": True}]}}
            self._api.merge(f"{kit.PODS}/{next(self._turn)['name']}", body)

    def has_report(self) -> bool:
        """Return whether the companion has reported the node."""
        return REPORTED_AT in self._api.get("/api/v1/nodes/a")["metadata"].get("annotations", {})

    def events(self) -> int:
        """Return the number of Events on pods."""
        return len(self._api.get(kit.EVENTS)["items"])


def _node() -> dict[str, Any]:
    """Return a node of the daemons' machine: the policies accept no report beyond its size."""
    size = {"cpu": "256", "memory": "2Ti", "pods": "250"}
    return node("a") | {"status": {"capacity": size, "allocatable": size}}


def _pod(number: int) -> dict[str, Any]:
    """Return a pod that requests lent amounts, or an online pod with requests of its own."""
    found = pod(f"p{number}", on="a")
    lent = {DEFAULT.cpu: "100", DEFAULT.memory: "33554432", OPEN: "1"}
    asked = lent if number % 2 else {"cpu": "50m", "memory": "64Mi"}
    found["spec"]["containers"][0]["resources"] = {"requests": asked, "limits": lent if number % 2 else {}}
    return found


@dataclass(frozen=True)
class Side:
    """A daemon with the pods. `socket`: for a companion."""

    runtime: MeasuredRuntime
    numbers: Numbers
    socket: Path

    def have_invalid_pods(self, pods: int) -> None:
        """Begin and end some pods with an invalid annotation: each is an Event."""
        for _ in range(pods):
            wrong = pod_of(self.numbers.next(), "burstable", qos_class="dedicatd")
            container = container_of(wrong, f"{self.numbers.next():064x}", 512)
            self.runtime.hook(HookKind.RUN_POD_SANDBOX, wrong)
            self.runtime.hook(HookKind.CREATE_CONTAINER, wrong, container)
            self.runtime.hook(HookKind.STOP_CONTAINER, wrong, container)
            self.runtime.hook(HookKind.REMOVE_POD_SANDBOX, wrong)


@contextmanager
def _side(cluster: Cluster) -> Iterator[Side]:
    """Run a daemon with the cluster's pods."""
    with folders.planted() as folder:
        host, config, socket = (
            Path(folder, name) for name in ("host", "config.yaml", "cluster/cluster.sock")
        )
        spec = machines.MACHINES[MACHINE]
        machines.plant(spec, host)
        known = machines.topology(spec)
        tree = CgroupTree(host, 1, known.online, known.all_mems)
        tree.plant()
        config.write_text(CONFIG)
        flags = f"--config={config}", f"--cluster-socket={socket}"
        with MeasuredRuntime(str(host), *flags) as runtime:
            side = Side(runtime, Numbers(), socket)
            for number, metadata in enumerate(cluster.pods):
                _run_pod(side, tree, metadata, "besteffort" if number % 2 else "burstable")
            yield side


def _run_pod(side: Side, tree: CgroupTree, metadata: Mapping[str, Any], qos: str) -> None:
    """Run a pod of the API server in a daemon."""
    shown = pod_of(side.numbers.next(), qos)
    shown.name, shown.namespace, shown.uid = metadata["name"], metadata["namespace"], metadata["uid"]
    shown.labels["io.kubernetes.pod.uid"] = shown.uid
    shown.linux.cgroup_parent = f"/kubepods/{qos}/pod{shown.uid}"
    container = container_of(shown, f"{side.numbers.next():064x}", 2 if qos == "besteffort" else 51)
    tree.make(shown.linux.cgroup_parent.lstrip("/"))
    side.runtime.hook(HookKind.RUN_POD_SANDBOX, shown)
    side.runtime.hook(HookKind.CREATE_CONTAINER, shown, container)
    tree.make(container.linux.cgroups_path.lstrip("/"))
    container.pid = 1
    side.runtime.hook(HookKind.START_CONTAINER, shown, container)


@contextmanager
def _companion(server: ApiServer, socket: Path) -> Iterator[int]:
    flags = ("--node=a", f"--socket={socket}", f"--kubeconfig={server.folder}/companion-a.kubeconfig")
    with _program(server.folder, "cluster", *flags) as pid:
        yield pid


@contextmanager
def _controller(server: ApiServer) -> Iterator[int]:
    flags = (f"--kubeconfig={server.folder}/controller.kubeconfig", "--http=off")
    with _program(server.folder, "controller", *flags) as pid:
        yield pid


@contextmanager
def _program(folder: Path, *arguments: str) -> Iterator[int]:
    """Run a program of ours and yield its process id."""
    path = folder / f"{arguments[0]}.log"
    with path.open("wb") as log:
        process = spawn_here([sys.executable, "-m", "nri_coloc", *arguments], log)
    try:
        yield process.pid
    except AssertionError as error:
        error.add_note(f"{path.name}: {path.read_text()[-LOG:]}")
        raise
    finally:
        ends(process)


def _print_costs(name: str, server: ApiServer, programs: Mapping[str, int], work: Callable[[], int]) -> None:
    """Print what the programs use during some work, which returns the number of its own requests."""
    began, sent = time.monotonic(), api_costs.requests(server)
    before = {program: api_costs.cpu_s(pid) for program, pid in programs.items()}
    own = work()
    took_s = time.monotonic() - began
    for program, pid in programs.items():
        part = (api_costs.cpu_s(pid) - before[program]) / took_s
        memory = vitals.look(pid).pss_kib / 1024
        print(f"{name}, {PODS} pods: {program} {memory:.1f} MiB PSS, {part:.2%} of a core")
    rate = (api_costs.requests(server) - sent - own) * 60 / took_s
    print(f"  {rate:.1f} requests a minute of the companion")


def _rest(seconds: float) -> int:
    time.sleep(seconds)
    return 0


def _keep_busy(cluster: Cluster, side: Side) -> int:
    """Change a fact and cause an Event, every two seconds; return the number of requests for that."""
    began = time.monotonic()
    for turn in range(int(BUSY_S / EVERY_S)):
        cluster.change_facts(1)
        side.have_invalid_pods(1)
        time.sleep(max(0.0, began + (turn + 1) * EVERY_S - time.monotonic()))
    return int(BUSY_S / EVERY_S)


def _pairs(cluster: Cluster, sides: Mapping[str, Side], calls: int) -> dict[str, figures.Figures]:
    """Measure all daemons alternately, and print how each compares with the one of the pair."""
    taken: dict[str, list[list[int]]] = {name: [] for name in SIDES}
    for turn in range(TURNS):
        for name in (*SIDES[turn % 3 :], *SIDES[: turn % 3]):
            cluster.change_facts(CHANGED)
            sides[name].have_invalid_pods(INVALID)
            taken[name].append(_creations(sides[name], calls))
    tails = {name: [figures.of(each).p99_us for each in rounds] for name, rounds in taken.items()}
    for name in SIDES:
        ratios = [one / other for one, other in zip(tails[name], tails[PAIR], strict=True)]
        print(f"{name}: p99 {min(ratios):.2f} to {max(ratios):.2f} of {PAIR}'s, median {median(ratios):.2f}")
    whole = {name: [each for one in rounds for each in one] for name, rounds in taken.items()}
    return {f"hook.create.shared.{PODS}.{name}": figures.of(each) for name, each in whole.items()}


def _creations(side: Side, calls: int) -> list[int]:
    """Return the round trips of creations in running pods, nanoseconds."""
    pods = [pod_of(side.numbers.next(), "burstable") for _ in range(20)]
    for each in pods:
        side.runtime.hook(HookKind.RUN_POD_SANDBOX, each)
    found = [_creation(side, pods[call % len(pods)]) for call in range(calls)]
    for each in pods:
        side.runtime.hook(HookKind.REMOVE_POD_SANDBOX, each)
    return found


def _creation(side: Side, model: nri_pb2.PodSandbox) -> int:
    container = container_of(model, f"{side.numbers.next():064x}", 512)
    took, _ = side.runtime.hook(HookKind.CREATE_CONTAINER, model, container)
    side.runtime.hook(HookKind.STOP_CONTAINER, model, container)
    return took
