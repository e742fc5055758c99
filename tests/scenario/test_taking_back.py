"""Memory taken back on the simulated node's files, minutes in seconds: cold steps, urgent orders, then evictions.

The kernel takes page cache first, then moves anonymous memory to swap; a pod without either gives nothing.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from nri_coloc.core import memory_margin
from nri_coloc.core.reasons import Reason
from nri_coloc.core.settings import ReclaimTuning, Tuning
from nri_coloc.core.state import NodeState
from nri_coloc.core.workload import QoSClass, Wish
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host import cgroup_layout
from nri_coloc.host.memory_left import MemoryLeftReader
from nri_coloc.host.memory_reclaim import NAME, MemoryReclaim
from nri_coloc.pressure.reclaim_worker import Order, ReclaimWorker
from nri_coloc.pressure.reclaimer import TOLD_AGAIN_S, Reclaimer, gives_memory
from nri_coloc.pressure.taking_back import LEAST, STEP, Regime
from nri_coloc.pressure.verdict import Resource
from nri_coloc.sim.memory_use import Held
from nri_coloc.sim.node import Node
from tests.scenario.eviction.bed import EVICTS, GIB, Bed, Told, verdict

MIB = 1 << 20


class Taken(Told):
    """Records decisions, refusals and the bytes taken."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0
        self.refusals: list[KernelInterfaceError] = []

    def refused_by_kernel(self, failure: KernelInterfaceError, subject: str, state: NodeState) -> None:
        self.refusals.append(failure)

    def memory_taken(self, regime: str, amount: int) -> None:
        self.bytes += amount


class AtOnce(ReclaimWorker):
    """Carries orders out before `submit` returns."""

    def submit(self, orders: Iterable[Order]) -> None:
        self._orders = tuple(orders)
        self.carry_out()


class Machine(Bed):
    """A node with swap, whose kernel takes from a pod the amount that is written."""

    def __init__(self, node: Node, tuning: Tuning = EVICTS, swap: float = 16) -> None:
        self.memory: dict[str, Held] = {}
        self.writes = 0
        self.meminfo = node.host_root / "proc/meminfo"
        self.meminfo.write_text(self.meminfo.read_text() + "SwapFree:              0 kB\n")
        super().__init__(node, tuning)
        self.set_swap(int(swap * GIB))
        self.taken = Taken()
        self.reclaimer = self.new_reclaimer()

    def new_reclaimer(self) -> Reclaimer:
        root = str(self.node.host_root)
        layout = cgroup_layout.detect(root)
        kernel = SimulatedKernel(self, MemoryReclaim(layout, root))
        worker = AtOnce(kernel, lambda pod_id: gives_memory(self.known.state, pod_id))
        left = MemoryLeftReader(layout, root)
        files = MemoryReclaim(layout, root)
        return Reclaimer(self.known, left, files, worker=worker, ladder=self.ladder, report=self.taken)

    def set_swap(self, free: int) -> None:
        lines = self.meminfo.read_text().splitlines()
        lines = [line for line in lines if not line.startswith("SwapFree")]
        self.meminfo.write_text("\n".join([*lines, f"SwapFree: {free // 1024} kB", ""]))
        self.swap = free

    def holds(self, name: str, anon: float, file: float = 0.0) -> None:
        self.set_held(name, Held(int(anon * GIB), 0, int(file * GIB)))

    def set_held(self, name: str, held: Held) -> None:
        self.memory[name] = held
        self.node.set_memory(self.apps[name], held)

    def pod_file(self, name: str, file: str, text: str) -> None:
        self.node.tree.write(self.known.state.pods[name].pod.cgroup_parent[1:], file, text)

    def name_of(self, path: str) -> str:
        return next(k for k, one in self.known.state.pods.items() if one.pod.cgroup_parent[1:] == path)

    @property
    def available(self) -> int:
        root = str(self.node.host_root)
        left = MemoryLeftReader(cgroup_layout.detect(root), root).machine(0.0)
        assert left is not None
        return left.available

    @property
    def known_bounds(self) -> memory_margin.Bounds:
        return memory_margin.of_node(self.total, self.known.tuning.reclaim.memory_watermark)

    def turns(self, count: int, each: Callable[[], None] | None = None) -> None:
        """Let seconds pass; memory is taken back before the evictor looks."""

        def second() -> None:
            if each is not None:
                each()
            self.reclaimer.look(self.now)

        self.seconds(count, second)


class SimulatedKernel:
    """Takes from the simulated pods the amount that `MemoryReclaim` writes."""

    def __init__(self, bed: Machine, files: MemoryReclaim) -> None:
        self._bed = bed
        self._files = files

    def reclaim(self, path: str, amount: int, *, only_cache: bool) -> bool:
        self._files.reclaim(path, amount, only_cache=only_cache)
        self._bed.writes += 1
        amount_text, *argument = (self._bed.node.tree.read(path, NAME) or "").split()
        wanted, name = int(amount_text), self._bed.name_of(path)
        held = self._bed.memory[name]
        cache = min(wanted, held.inactive_file)
        swapped = 0 if argument == ["swappiness=0"] else min(wanted - cache, held.anon, self._bed.swap)
        if swapped:
            self._bed.set_swap(self._bed.swap - swapped)
        self._bed.set_held(
            name, held._replace(anon=held.anon - swapped, inactive_file=held.inactive_file - cache)
        )
        return cache + swapped == wanted


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with Node(tmp_path / "node", "8cpu", cgroup=2) as found:
        yield found


@pytest.fixture
def make(node: Node) -> Callable[..., Machine]:
    def bed(tuning: Tuning = EVICTS, swap: float = 16, **pods: float) -> Machine:
        made = Machine(node, tuning, swap)
        for name, held in pods.items():
            made.pod(name)
            made.holds(name, held)
        return made

    return bed


def lowered(bed: Machine) -> Machine:
    """Let available memory lie between the two bounds."""
    known = bed.known_bounds
    bed.leaves((known.least + known.enough) / 2 / GIB)
    return bed


# ---- urgent ----


def test_urgent_takes_no_locked_page_cache(make: Callable[..., Machine]):
    bed = make(swap=0, hog=0, small=0)
    bed.set_held("hog", Held(locked=4 * GIB))
    bed.holds("small", 0, 0.5)
    bed.leaves(0.1)
    bed.turns(1)
    assert bed.reclaimer.regime is Regime.URGENT
    assert bed.memory["small"].usage == LEAST
    assert bed.memory["hog"].usage == 4 * GIB


def test_urgent_takes_the_missing_amount_alone(make: Callable[..., Machine]):
    bed = make(hog=4, small=1)
    bed.leaves(0.1)
    missing = bed.known_bounds.enough - bed.available
    bed.turns(1)
    assert missing - 32 * 4096 < 4 * GIB - bed.memory["hog"].usage <= missing
    assert bed.memory["small"].usage == GIB
    after = bed.memory["hog"]
    bed.turns(10)
    assert after.usage - bed.memory["hog"].usage <= 32 * 4096


def test_urgent_comes_before_eviction(make: Callable[..., Machine]):
    bed = make(hog=4)
    bed.leaves(0.1)
    bed.turns(20)
    assert bed.cluster.names == []


def test_eviction_follows_where_nothing_can_be_taken(make: Callable[..., Machine]):
    bed = make(swap=0, hog=4)
    bed.leaves(0.1)
    bed.turns(2)
    assert (bed.cluster.names, bed.memory["hog"].usage) == (["hog"], 4 * GIB)


def test_the_next_pod_gives_what_one_cannot(make: Callable[..., Machine]):
    bed = make(large=1.5, small=0.5)
    bed.leaves(0.1)
    bed.turns(5)
    assert bed.available >= bed.known_bounds.enough - 64 * 4096


def test_a_pod_keeps_its_memory_min(make: Callable[..., Machine]):
    bed = make(hog=4)
    bed.pod_file("hog", "memory.min", str(4 * GIB - 100 * MIB))
    bed.leaves(0.1)
    bed.turns(10)
    assert bed.memory["hog"].usage == 4 * GIB - 100 * MIB


def test_online_pods_give_nothing(make: Callable[..., Machine]):
    bed = make(Tuning())
    bed.leaves(0.1)
    before = bed.memory["web"]
    bed.turns(10)
    assert (bed.memory["web"], bed.taken.bytes) == (before, 0)


def test_a_pod_that_preserves_memory_gives_nothing(make: Callable[..., Machine]):
    bed = make(Tuning())
    bed.pod("kept", wish=Wish(QoSClass.RECLAIMED, preserve=frozenset({"memory"})))
    bed.holds("kept", 4)
    bed.leaves(0.1)
    bed.turns(10)
    assert bed.memory["kept"].usage == 4 * GIB


# ---- cold ----


def test_cold_takes_page_cache_in_small_steps(make: Callable[..., Machine]):
    bed = make()
    bed.pod("reader")
    bed.holds("reader", 3, file=1)
    lowered(bed)
    bed.turns(1)
    step = 4 * GIB - bed.memory["reader"].usage
    assert 0 < step <= 4 * GIB * STEP
    assert bed.memory["reader"].anon == 3 * GIB


def test_cold_stops_at_the_stall_bound(make: Callable[..., Machine]):
    bed = make(batch=4)
    lowered(bed)
    bed.turns(1)
    held = bed.memory["batch"].usage
    assert held < 4 * GIB
    bed.pod_file("batch", "memory.pressure", "some avg10=10.00 avg60=2.00 avg300=1.00 total=5\nfull total=0")
    bed.turns(20)
    assert bed.memory["batch"].usage == held


def test_cold_pauses_while_online_pods_wait_for_io(make: Callable[..., Machine]):
    bed = lowered(make(batch=4))
    bed.ladder.verdicts = (verdict(Resource.IO, "batch", 2),)
    bed.turns(20)
    assert (bed.reclaimer.shown, bed.memory["batch"].usage) == ("cold", 4 * GIB)
    bed.ladder.verdicts = ()
    bed.turns(1)
    assert bed.memory["batch"].usage < 4 * GIB


def test_cold_ends_when_enough_is_available(make: Callable[..., Machine]):
    bed = make(batch=4)
    lowered(bed)
    missing = bed.known_bounds.enough - bed.available
    bed.turns(60)
    assert 4 * GIB - bed.memory["batch"].usage <= missing
    assert bed.known_bounds.enough - bed.available < 32 * 4096


def test_no_swap_leaves_anonymous_memory(make: Callable[..., Machine]):
    bed = lowered(make(swap=0, batch=4))
    bed.turns(10)
    assert bed.memory["batch"].usage == 4 * GIB


# ---- both ----


def test_nothing_is_taken_while_enough_is_available(make: Callable[..., Machine]):
    bed = make()
    bed.pod("reader")
    bed.holds("reader", 1, file=3)
    bed.turns(20)
    assert (bed.taken.bytes, bed.taken.decisions) == (0, [])


@pytest.mark.parametrize("tuning", [Tuning(observe=True), Tuning(reclaim=ReclaimTuning(enabled=False))])
def test_nothing_is_taken_without_lending(make: Callable[..., Machine], tuning: Tuning):
    bed = make(tuning, hog=4)
    bed.leaves(0.1)
    bed.turns(10)
    assert bed.memory["hog"].usage == 4 * GIB


def test_a_sawtooth_is_recorded_twice_a_minute(make: Callable[..., Machine]):
    bed = make(hog=2)

    def second() -> None:
        bed.set_held("hog", Held(2 * GIB))
        bed.set_swap(16 * GIB)
        bed.leaves(0.1 if bed.now % 2 else 4)

    bed.turns(180, second)
    assert 2 <= len(bed.taken.decisions) <= 2 * 180 / TOLD_AGAIN_S + 2


def test_begin_and_end_are_recorded(make: Callable[..., Machine]):
    bed = make(hog=4)
    bed.leaves(0.1)
    bed.turns(1)
    bed.leaves(4)
    bed.turns(1)
    begun, ended = bed.taken.decisions
    assert (begun.reason, ended.reason) == (Reason.MEMORY_SHORT, Reason.CALM)
    assert (begun.inputs or {})["shop/hog.take_bytes"] == bed.taken.bytes
    assert (ended.inputs or {})["taken_bytes"] == bed.taken.bytes
    assert begun.because == "memory taken back: short on node"
    assert ended.because == "memory no longer taken back: enough on node"


def switch_off(bed: Machine) -> None:
    bed.known.tuning = Tuning(observe=True)


def lose_meminfo(bed: Machine) -> None:
    bed.meminfo.unlink()


@pytest.mark.parametrize(
    ("happens", "cause"),
    [
        pytest.param(switch_off, "no reclaimed pod may give any", id="mode observe"),
        pytest.param(lose_meminfo, "available memory unknown on node", id="unreadable"),
    ],
)
def test_an_end_without_enough_memory_has_its_cause(
    make: Callable[..., Machine], happens: Callable[[Machine], None], cause: str
):
    bed = make(hog=4)
    bed.leaves(0.1)
    bed.turns(1)
    happens(bed)
    bed.turns(1)
    assert bed.taken.decisions[-1].because == f"memory no longer taken back: {cause}"


def test_an_urgent_regime_ends_with_its_last_pod(make: Callable[..., Machine]):
    bed = make(Tuning(), hog=4)
    bed.leaves(0.1)
    bed.turns(1)
    bed.known.tuning = Tuning(observe=True)
    bed.turns(1)
    bed.known.tuning = Tuning()
    bed.holds("web", 0)
    lowered(bed)
    bed.turns(1)
    assert bed.reclaimer.regime is Regime.COLD


def test_cgroup_v1_takes_nothing(tmp_path: Path):
    with Node(tmp_path / "node", "8cpu", cgroup=1) as node:
        bed = Machine(node)
        bed.pod("hog")
        bed.holds("hog", 4)
        bed.leaves(0.1)
        bed.turns(2)
        assert (bed.reclaimer.shown, bed.taken.bytes, bed.cluster.names) == ("impossible", 0, ["hog"])


def test_every_pod_keeps_the_least(make: Callable[..., Machine]):
    bed = make(Tuning(), hog=0.2)
    bed.leaves(0.0)
    bed.turns(10)
    assert LEAST <= bed.memory["hog"].usage < LEAST + 32 * 4096


def test_a_pod_that_cannot_give_rests(make: Callable[..., Machine]):
    bed = make(Tuning(), hog=4)
    bed.swap = 0  # the machine shows swap, and the pod's containers may use none
    bed.leaves(0.1)
    bed.turns(25)
    assert (bed.writes, bed.memory["hog"].usage) == (3, 4 * GIB)
