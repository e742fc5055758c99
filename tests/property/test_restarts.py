"""No container loses its own CPUs by a restart of the daemon, and none gains CPUs of a pool or of another container.

A random history of pods, pushes and second chances precedes the restart. Most specifications are stale, because the
runtime's are written at the creation and by a push only. Some pods hide the records of their containers. The settings
of the pools may change while the daemon is stopped.
"""

from dataclasses import dataclass, replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from nri_coloc.core import cpuset
from nri_coloc.core.settings import PoolTuning, Tuning
from nri_coloc.core.state import Pools
from nri_coloc.core.workload import KEPT_BY_DRA, QoSClass, Wish
from nri_coloc.placing import admission, pools, record, tiers, waiting
from tests.rig import examples
from tests.unit.placing.kit import DEDICATED, SHARED, SYSTEM, Node, asking, machine

WISHES = {
    "dedicated": DEDICATED,
    "shared": SHARED,
    "system": SYSTEM,
    "gold": replace(SHARED, pool="gold"),
    "etl": replace(SHARED, pool="etl/a"),
    "ignored": replace(DEDICATED, handler="ignore"),
    "preserved": replace(DEDICATED, preserve=frozenset({"cpu"})),
}
DRIVEN = replace(DEDICATED, preserve=frozenset({"cpu", KEPT_BY_DRA}))


@dataclass(frozen=True, slots=True)
class Run:
    """A container starts.

    is_hidden: its pod carries the key of the record.
    """

    pod: str
    milli: int
    wish: str = "dedicated"
    is_hidden: bool = False


@dataclass(frozen=True, slots=True)
class Drive:
    """The DRA CPU driver pins a container of its own pod to so many free CPUs."""

    count: int


@dataclass(frozen=True, slots=True)
class OfOne:
    """`end`, `push` its specification, or `resize` it; `which`: its place among the containers, round and round."""

    what: str
    which: int
    milli: int = 0


@dataclass(frozen=True, slots=True)
class Reload:
    """Other settings give a container another class or handler; `which` as above."""

    which: int
    wish: str


@dataclass(frozen=True, slots=True)
class Online:
    """These CPUs alone are online; the last usable CPU stays."""

    cpus: int


@dataclass(frozen=True, slots=True)
class OfAll:
    """`push` all specifications, `free`: place one waiting pod, or `restart` the daemon."""

    what: str


PODS = st.sampled_from(("p", "q", "r", "s", "t"))
MILLI = st.sampled_from((1000, 1000, 2000, 2000, 3000, 500, 1500, 5000))
OTHERS = st.sampled_from(("shared", "system", "gold", "gold", "etl"))
STEPS = st.one_of(
    st.builds(Run, PODS, MILLI, is_hidden=st.sampled_from((False, False, True))),
    st.builds(Run, PODS, st.just(100)),
    st.builds(Run, st.sampled_from(("u", "v")), st.sampled_from((100, 1000, 2000, 3000)), OTHERS),
    st.builds(Drive, st.integers(1, 2)),
    st.builds(OfOne, st.sampled_from(("end", "push", "push")), st.integers(0, 9)),
    st.builds(Reload, st.integers(0, 9), st.sampled_from(tuple(WISHES))),
    st.builds(OfAll, st.sampled_from(("push", "free", "restart"))),
)
HOTPLUG = st.builds(Online, st.sampled_from((-1, -1, 0x5F, 0xF8, 0xF)))
RESIZES = st.builds(
    OfOne, st.just("resize"), st.integers(0, 9), st.sampled_from((100, 500, 1000, 2000, 3000, 6000))
)
PLAN = {
    "none": (),
    "small": (PoolTuning("gold", minimum=1),),
    "large": (PoolTuning("gold", minimum=5),),
    "two": (PoolTuning("gold", minimum=2, maximum=3), PoolTuning("etl", group_by="namespace")),
    "groups of authors": (PoolTuning("etl", group_by="pod", minimum=2), PoolTuning("gold", minimum=1)),
    "idle": (PoolTuning("gold"), PoolTuning("idle", minimum=4)),
    "share": (PoolTuning("gold", minimum=1), PoolTuning("share", minimum=2)),
}
PLANS = st.sampled_from(tuple(PLAN))
MACHINES = st.sampled_from(("8cpu", "8cpu", "4node", "2cpu"))


class History:
    """A node, and a runtime with specifications that only creations and pushes write."""

    def __init__(self, name: str, plan: str) -> None:
        self.node = Node(name, Tuning(pools=PLAN[plan]))
        self._machine = name
        self.hidden: set[str] = set()
        self.plan = plan
        self._number = 0

    def play(self, step: Run | Drive | OfOne | Reload | Online | OfAll) -> None:
        names = sorted(self.node.listed)
        match step:
            case Run():
                self._run(step)
            case Drive():
                self._drive(step.count)
            case OfOne() if names:
                self._of_one(step, names[step.which % len(names)])
            case Reload() if names:
                self._reload(names[step.which % len(names)], WISHES[step.wish])
            case OfOne() | Reload():
                pass
            case Online():
                self.node.reconfigure(topology=machine(self._machine).within(step.cpus))
            case OfAll("push"):
                self.node.push()
            case OfAll("free"):
                self.node.free()
            case OfAll():
                self.restart(self.plan)

    def restart(self, plan: str) -> None:
        """Start the daemon with these pools; a second synchronisation must change nothing."""
        former, tuning = self.node, Tuning(pools=PLAN[plan])
        self.plan = plan
        self.node = Node(tuning=tuning, state=pools.initial(former.state.topology, tuning))
        self.node.listed, self.node.clock = dict(former.listed), former.clock
        listing = replace(
            former.listing(),
            containers=tuple((self._as_listed(c.id), former[c.id].wish) for c in former.listed.values()),
        )
        self.node.happen(listing)

    def _as_listed(self, name):
        listed = self.node.listed[name]
        return replace(listed, record="") if name in self.hidden else listed

    def _run(self, step: Run) -> None:
        self._number += 1
        name = f"{step.pod}{self._number}"
        self.node.run(name, step.milli, WISHES[step.wish], step.pod)
        if step.is_hidden:
            self.hidden.add(name)

    def _drive(self, count: int) -> None:
        free = self.node.state.pools.free
        cpus = cpuset.lowest(free, count)
        if cpus != free:
            self._number += 1
            spec = asking(1000 * count, cpus=cpuset.render(cpus))
            self.node.run(f"dra{self._number}", 0, DRIVEN, f"dra{self._number}", resources=spec, claimed=cpus)

    def _of_one(self, step: OfOne, name: str) -> None:
        if step.what == "end":
            self.node.stop(name)
        elif step.what == "push":
            self._push(name)
        elif self.node[name].qos is QoSClass.DEDICATED and not self.node[name].hands_off:
            self.node.update(name, asking(step.milli))

    def _reload(self, name: str, wish: Wish) -> None:
        if not self.node[name].wish.preserve:  # the DRA CPU driver does not take its CPUs back
            self.node.reconfigure(wishes={name: wish})

    def _push(self, name: str) -> None:
        cpus = admission.orders(self.node.state, self.node[name]).cpus
        if cpus is not None:
            listed = self.node.listed[name]
            self.node.listed[name] = replace(listed, resources=replace(listed.resources, cpus=cpus))


def recorded(history: History) -> dict[str, int]:
    """Return the CPUs that records which a restart sees name, of containers that may own CPUs."""
    found = {}
    for name, listed in history.node.listed.items():
        wish = history.node[name].wish
        may_own = wish.qos is QoSClass.DEDICATED and (KEPT_BY_DRA in wish.preserve or not wish.is_hands_off)
        memory = record.read(listed.record) if may_own and name not in history.hidden else None
        if memory is not None and memory.exclusive:
            found[name] = memory.exclusive
    return found


def played(name: str, plan: str, steps) -> History:
    history = History(name, plan)
    for step in steps:
        history.play(step)
    return history


HISTORIES = st.lists(STEPS, max_size=14)


FOLLOWED = [Drive(1), Run("p", 1000), Run("p", 100), Reload(2, "shared"), Run("p", 1000)]


@example("8cpu", "none", FOLLOWED, "large")
@given(MACHINES, PLANS, HISTORIES, PLANS)
@settings(max_examples=examples.times(5))
def test_no_owner_with_a_sound_record_loses_cpus(name, plan, steps, later):
    history = played(name, plan, steps)
    owners = dict(history.node.state.owners)
    sound = {k: cpus for k, cpus in recorded(history).items() if owners.get(k) == cpus}
    if sound != recorded(history):
        return
    history.restart(later)
    assert {k: history.node.state.owners.get(k) for k in sound} == sound


def sizes(history: History) -> dict[str, int]:
    """Return how many CPUs of its own each pool has."""
    now = history.node.state.pools
    return {k: cpus.bit_count() for k, cpus in now.tiers.items() if not cpus & now.share}


def short(now: Pools) -> bool:
    """Return whether a pool has less than its minimum or its containers ask for."""
    minima = any(each.minimum > now.cpus(each.name).bit_count() for each in now.plan)
    return minima or any(tiers.shortage(now, name) for name in now.tiers)


WITH_RESIZES = st.lists(st.one_of(STEPS, RESIZES), max_size=14)
A_FOLLOWER_THAT_ASKS_FOR_ITS_OWN = [
    Run("p", 1000),
    Run("p", 2000),
    OfOne("resize", 0, 100),
    Drive(1),
    OfOne("resize", 2, 1000),
    OfOne("resize", 1, 1000),
]

A_MOVE_TO_SHARE_BEFORE_ITS_PUSH = [Run("p", 1000), Run("u", 100, "gold"), Reload(1, "shared")]


@given(MACHINES, PLANS, WITH_RESIZES)
@example("2cpu", "small", A_MOVE_TO_SHARE_BEFORE_ITS_PUSH)
@settings(max_examples=examples.times(5))
def test_no_restart_takes_cpus_of_a_pool(name, plan, steps):
    history = played(name, plan, [*steps, *[OfAll("free")] * len(steps)])
    had = sizes(history)
    history.restart(plan)
    now = sizes(history)
    assert {k: now.get(k, 0) for k in had if now.get(k, 0) < had[k]} == {}


@given(MACHINES, PLANS, WITH_RESIZES, PLANS)
@example("8cpu", "large", A_FOLLOWER_THAT_ASKS_FOR_ITS_OWN, "none")
@settings(max_examples=examples.times(5))
def test_no_restart_gives_a_container_cpus_of_another(name, plan, steps, later):
    """The exception is a container that ran on the other one's CPUs: one set in both specs names no owner."""
    history = played(name, plan, [*steps, OfAll("push")])
    had = dict(history.node.state.owners)
    followed = {(k, a.follows) for k, a in history.node.state.containers.items()}
    history.restart(later)
    now = history.node.state.owners
    taken = {(k, j) for k in now for j in had if k != j and now[k] & had[j]} - followed
    assert taken == set()


WITH_HOTPLUG = st.lists(st.one_of(STEPS, HOTPLUG), max_size=14)


CLAIMED_ON_CPUS_THAT_COME_BACK = [Drive(2), Online(0xFE), Online(-1), Run("p", 1000)]


@given(MACHINES, PLANS, WITH_HOTPLUG)
@example("8cpu", "none", CLAIMED_ON_CPUS_THAT_COME_BACK)
@settings(max_examples=examples.times(5))
def test_cpus_that_come_back_displace_no_owner(name, plan, steps):
    history = played(name, plan, [*steps, Online(-1), OfAll("push")])
    driven = {k for k, each in history.node.state.containers.items() if each.hands_off}
    had = dict(history.node.state.owners)
    history.restart(plan)
    now = history.node.state.owners
    assert {(k, j) for k in driven for j in had if k != j and now.get(k, 0) & had[j]} == set()


@given(MACHINES, PLANS, HISTORIES)
@settings(max_examples=examples.times(5))
def test_no_owner_loses_cpus_if_specifications_are_fresh(name, plan, steps):
    history = played(name, plan, [*steps, Run("w", 100, "shared"), OfAll("push")])
    had = dict(history.node.state.owners)
    history.restart(plan)
    now = history.node.state.owners
    assert {k: now.get(k) for k in had} == had


GROUPS_WITHOUT_MEMBERS = [
    *(Run("p", milli) for milli in (100, 2000, 100)),
    *(Drive(count) for count in (1, 1, 2)),
    Run("p", 2000),
    Run("u", 3000, "gold"),
    Drive(2),
    Reload(7, "shared"),
    Run("p", 3000),
]


@given(MACHINES, PLANS, HISTORIES)
@example("4node", "groups of authors", GROUPS_WITHOUT_MEMBERS)
@settings(max_examples=examples.times(5))
def test_missing_records_cost_at_most_one_owner_its_cpus(name, plan, steps):
    """One container that waits in `share` looks like an owner of all of `share`; without any no owner loses CPUs."""
    history = played(name, plan, [*steps, OfAll("push")])
    state = history.node.state
    if short(state.pools):
        return  # the last owner's CPUs look like the set of `share` beside pools of their full size
    history.hidden = {k for k in history.node.listed if not state.containers[k].hands_off}
    had, waits = dict(state.owners), bool(waiting.of(state))
    history.restart(plan)
    now = history.node.state.owners
    assert sum(now.get(k) != cpus for k, cpus in had.items()) <= waits


@given(MACHINES, PLANS, HISTORIES, st.integers(0, 9))
@settings(max_examples=examples.times(5))
def test_a_restart_keeps_the_order_of_waiting_containers(name, plan, steps, which):
    history = played(name, plan, [*steps, Run("w", 100, "shared"), OfAll("push")])
    queue = [each.id for each in waiting.of(history.node.state)]
    owners = sorted(history.node.state.owners)
    if owners:  # one of them ends while the daemon is stopped
        del history.node.listed[owners[which % len(owners)]]
    history.restart(plan)
    waits = [each.id for each in waiting.of(history.node.state)]
    assert waits == [each for each in queue if each in waits]
    assert not waits or waits == queue[-len(waits) :]
