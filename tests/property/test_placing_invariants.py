"""The invariants of DESIGN 3 hold at every moment, for all events in any order, on any machine.

A state machine lets pods and containers come and go, the kubelet update them, the plugin restart and the operator
change the configuration. After each step, every invariant that concerns a state is checked. The integration tests check
files and replies in flight.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from operator import or_

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from nri_coloc.core import cpuset
from nri_coloc.core.decisions import (
    ContainerGone,
    ContainerStarting,
    ContainerUpdating,
    Event,
    Outcome,
    PoolsSized,
)
from nri_coloc.core.knobs import Knobs
from nri_coloc.core.reasons import Reason
from nri_coloc.core.settings import PoolTuning, ReclaimTuning, Tuning
from nri_coloc.core.state import Assignment, NodeState
from nri_coloc.core.topology import Topology
from nri_coloc.core.workload import KEPT_BY_DRA, Container, Phase, QoSClass, Wish
from nri_coloc.lending.measured_groups import PodFactsCache
from nri_coloc.placing import admission, claim, pools, request, supply, tiers, waiting
from nri_coloc.placing.node import step
from nri_coloc.placing.update import merge
from tests.property import looks
from tests.property.looks import as_before, rendered, without_some
from tests.property.strategies import LOANS, MILLI, PLAIN, PLANS, RESOURCES, TOPOLOGIES, WISHES
from tests.rig import examples
from tests.rig.records import malformed
from tests.unit.placing.kit import DEDICATED, Node, asking, container, record_lines

DRIVEN = replace(DEDICATED, preserve=frozenset({"cpu", KEPT_BY_DRA}))
PODS = st.sampled_from(("p", "q"))
NAMES = st.sampled_from(("a", "b", "c", "d", "e", "f"))
PARTITION = ReclaimTuning(partition=True)
COUNTS = st.sampled_from((0, 0, 1, 2, 5, 99))


class PlacementMachine(RuleBasedStateMachine):
    """Run a node, a runtime that keeps the answers, and all events that change them."""

    @initialize(machine=TOPOLOGIES, reserved=COUNTS, plan=PLANS)
    def boot(self, machine: Topology, reserved: int, plan: tuple[PoolTuning, ...]) -> None:
        tuning = Tuning(reserved_count=reserved, pools=plan, reclaim=PARTITION)
        self.node = Node(tuning=tuning, state=pools.initial(machine, tuning))
        self.pod_facts = PodFactsCache()
        # containers whose record no longer agrees with the state: joined sidecars, and containers that a reload moved
        self.lapsed: set[str] = set()
        # containers that got own CPUs after their creation: only their spec shows it
        self.gained: set[str] = set()

    # ---- events ----

    @rule(name=NAMES, on=PODS, milli=MILLI)
    def create_dedicated(self, name, on, milli):
        self.create(name, on, milli, DEDICATED)

    @rule(name=NAMES, on=PODS)
    def create_sidecar(self, name, on):
        self.create(name, on, 100, DEDICATED)

    @rule(name=NAMES, on=PODS, wish=PLAIN)
    def create_plain(self, name, on, wish):
        self.create(name, on, 0, wish)

    @rule(name=NAMES, on=PODS, milli=MILLI, wish=WISHES)
    def create_anything(self, name, on, milli, wish):
        self.create(name, on, milli, wish)

    def create(self, name: str, on: str, milli: int, wish: Wish) -> None:
        """A second attempt with the same id counts, too: it stays in its pod."""
        known = self.state.containers.get(name)
        where = known.container.pod_id if known else on
        self.act(lambda: self.node.create(name, milli, wish, where), answered=name)
        self.lapsed.discard(name)
        self.gained.discard(name)

    @rule(on=PODS, milli=MILLI)
    def resize_the_pod(self, on, milli):
        """The kubelet writes another CPU request into the pod's cgroup."""
        former = dict(self.state.owners)
        self.act(lambda: self.node.resize_pod(on, milli))
        self.lapsed |= {
            k for k in former.keys() | self.state.owners.keys() if former.get(k) != self.state.owners.get(k)
        }

    @rule(on=PODS, milli=MILLI, wish=WISHES)
    def come_and_go(self, on, milli, wish):
        """Releasing an admitted container restores the former free set; CPUs that its sidecars gave up are free too.

        A pool that shrinks again after its guest may keep other CPUs than before, but as many. The exception is a pool
        that asked for more than there was, and has the CPUs that the sidecars gave up.
        """
        former = self.node.state
        self.act(lambda: self.node.create("guest", milli, wish, on))
        left = former.owners.keys() - self.node.state.owners.keys()
        joined = reduce(or_, (former.owners[k] for k in left), 0)
        self.act(lambda: self.node.stop("guest"))
        then, now = former.pools.free | joined, self.node.state.pools.free
        assert self.node.state.pools.dedicated == former.pools.dedicated & ~joined
        assert now == then or self.node.state.pools.plan
        assert now.bit_count() == then.bit_count() or joined
        assert self.node.state.owners == {k: v for k, v in former.owners.items() if not v & joined}

    @rule(name=NAMES, on=PODS, wish=WISHES, running=st.booleans())
    def start(self, name, on, wish, running):
        known = self.node.state.containers.get(name)
        facts = known.container if known else container(name, on, 1000)
        where = self.node.pod(facts.pod_id)
        self.act(lambda: self.node.happen(ContainerStarting(where, facts, wish, running)))
        if name in self.state.ended:
            assert name not in self.state.containers
            return
        self.listed_if_new(name, facts)
        if running:
            self.node.listed[name] = replace(self.node.listed[name], phase=Phase.RUNNING)

    @rule(name=NAMES, on=PODS, milli=MILLI)
    def come_too_early(self, name, on, milli):
        """A container that comes while a guest has nearly every CPU waits, and gets its own when the guest is gone."""
        self.act(
            lambda: self.node.create("guest", 1000 * (self.state.pools.free.bit_count() - 1), on="guest")
        )
        self.create(name, on, milli, DEDICATED)
        facts = self.node[name].container
        self.act(
            lambda: self.node.happen(
                ContainerStarting(self.node.pod(facts.pod_id), facts, DEDICATED, running=True)
            )
        )
        self.node.listed[name] = replace(self.node.listed[name], phase=Phase.RUNNING)
        self.act(lambda: self.node.remove_pod("guest"))
        self.free()

    @rule(on=PODS, milli=MILLI)
    def fail_to_start(self, on, milli):
        """The next attempt has as many CPUs as the failed one, which leaves nothing behind.

        A container that followed the failed attempt may inherit its CPUs. The next attempt follows this container.
        """
        self.act(lambda: self.node.attempt("guest-0", "guest", milli, on))
        had = self.cpus_of_main("guest-0")
        self.act(lambda: self.node.attempt("guest-1", "guest", milli, on))
        assert "guest-0" not in self.state.containers
        assert self.cpus_of_main("guest-1").bit_count() == had.bit_count()
        self.act(lambda: self.node.stop("guest-1"))

    @rule()
    def free(self):
        """One pod gets all CPUs that it waited for; other containers lose nothing, except sidecars that join it."""
        before = self.state
        waited = {a.id: waiting.missing(before, a) for a in waiting.of(before)}
        outcome = self.act(self.node.free)
        placed = {d.subject.id for d in outcome.decisions if d.reason is Reason.CPUS_FREED and d.subject}
        assert len({self.node[k].container.pod_id for k in placed}) <= 1
        assert bool(placed) == (outcome.state is not before)
        for name in placed:
            had, has = before.containers[name].exclusive, self.node[name].exclusive
            assert has & had == had
            # fewer than it waited for if another container of its pod was placed first
            assert 0 < (has & ~had).bit_count() <= waited[name]
            assert waiting.missing(self.state, self.node[name]) == 0
            self.gained.add(name)
        for name in before.owners.keys() - placed:
            joined = self.node[name].follows in placed
            assert joined or self.state.owners.get(name) == before.owners[name]

    @rule(name=NAMES, on=PODS, wish=WISHES, requested=RESOURCES)
    def update(self, name, on, wish, requested):
        facts = self.node.listed.get(name) or container(name, on)
        asked = request.of_container(facts)
        if name in self.state.ended:
            self.act(lambda: self.node.update(name, requested, wish, on))
            assert name not in self.state.containers
            return
        self.act(lambda: self.node.update(name, requested, wish, on), answered=name)
        self.listed_if_new(name, replace(facts, resources=merge(facts.resources, requested)))
        pinned_elsewhere = self.node[name].hands_off and requested.cpus  # no driver of claims would do this
        if pinned_elsewhere or asked != request.of_container(self.node[name].container):
            self.lapsed.add(name)  # from the next placement on a sidecar, or the main container

    @rule(name=NAMES, milli=MILLI)
    def resize(self, name, milli):
        """An owner grows around its CPUs, shrinks within them, or keeps them; all of that survives a restart."""
        if name not in self.node.listed:
            return
        before = self.node[name]
        had = self.state.cpus_of(before)
        outcome = self.act(lambda: self.node.update(name, asking(milli)), answered=name)
        now, has = self.node[name], self.state.cpus_of(self.node[name])
        inherits = not now.is_managed or admission.inherits(self.state, now)
        # the answer carries its CPUs, if they changed
        assert had == has or inherits or outcome.orders_for(name).cpus == cpuset.render(has)
        met = Reason.RESIZE_UNMET not in {d.reason for d in outcome.decisions}
        if before.exclusive and now.exclusive and not now.hands_off:
            assert before.exclusive & now.exclusive in (before.exclusive, now.exclusive)
            whole = supply.of(self.state, now.container, now.wish).cpus
            assert now.exclusive.bit_count() == whole if met else now.exclusive == before.exclusive
        if now.exclusive and not before.exclusive:
            self.gained.add(name)
        is_small = [request.of_container(a.container, a.wish).milli < 1000 for a in (before, now)]
        if any(is_small) or not met:
            self.lapsed.add(name)

    @rule(name=NAMES, milli=MILLI, wish=WISHES)
    def judge_again(self, name, milli, wish):
        """A new request gives a container another class."""
        if name not in self.node.listed or self.node[name].hands_off or self.node[name].qos is wish.qos:
            return
        self.act(lambda: self.node.update(name, asking(milli), wish, judged={name: wish}), answered=name)
        if self.node[name].exclusive and self.node.listed[name].phase is Phase.RUNNING:
            self.gained.add(name)
        else:
            self.lapsed.add(name)

    @rule(name=NAMES, on=PODS, data=st.data())
    def create_with_a_claim(self, name, on, data):
        """The DRA CPU driver has pinned the container to free CPUs; no owner loses any."""
        free = list(cpuset.members(self.state.pools.free))
        cpus = cpuset.of(data.draw(st.lists(st.sampled_from(free), min_size=1, max_size=3)))
        # no claim passes the gate if the pod's request does not cover it
        passes = self.state.containers.get(name) is None and on not in self.node.requests
        if passes and cpus != self.state.pools.free:
            former = dict(self.state.owners)
            spec = asking(1000 * cpus.bit_count(), cpus=cpuset.render(cpus))
            self.act(lambda: self.node.create(name, wish=DRIVEN, on=on, resources=spec, claimed=cpus), name)
            assert self.state.owners == {**former, name: cpus}

    @rule(name=NAMES, removed=st.booleans())
    def stop(self, name, removed):
        self.act(lambda: self.node.stop(name, removed=removed))

    @rule(name=PODS, wish=WISHES)
    def start_pod(self, name, wish):
        self.act(lambda: self.node.start_pod(name, wish))

    @rule(name=PODS)
    def remove_pod(self, name):
        self.act(lambda: self.node.remove_pod(name))

    @rule(name=NAMES)
    def lose_one_and_synchronize(self, name):
        self.node.listed.pop(name, None)
        self.act(self.node.synchronize)

    @rule(plan=PLANS)
    def change_the_pools(self, plan):
        self.act(lambda: self.node.reconfigure(replace(self.node.tuning, pools=plan)))

    @rule(count=COUNTS, gone=st.sampled_from((0, 0, 1, 6, 1 << 5)), name=NAMES, wish=WISHES)
    def reconfigure(self, count, gone, name, wish):
        known = self.node.state.containers.get(name)
        wishes = {name: wish} if known else {}
        on = {known.container.pod_id: wish} if known else {}
        machine = without_some(self.node.state.topology, gone)
        former = dict(self.node.state.owners)
        tuning = replace(self.node.tuning, reserved_count=count)
        self.act(lambda: self.node.reconfigure(tuning, wishes, on, machine))
        now = self.node.state.owners
        self.lapsed |= {k for k in former.keys() | now.keys() if former.get(k) != now.get(k)} | wishes.keys()

    @rule(
        counts=st.dictionaries(st.sampled_from(("reclaim", "share", "gold", "name")), st.integers(-1, 17)),
    )
    def size(self, counts):
        self.act(lambda: self.node.happen(PoolsSized(counts, "pool resized: a test wants it")))

    @rule(amounts=st.dictionaries(NAMES, LOANS))
    def grant(self, amounts):
        self.act(lambda: self.node.grant(amounts))

    def cpus_of_main(self, name: str) -> int:
        """Return the CPUs that a container owns, or that the main container that it follows owns."""
        return self.state.owners.get(self.node[name].follows or name, 0)

    def listed_if_new(self, name: str, facts: Container) -> None:
        """Add a container to the listing.

        A container whose creation we did not answer has no record: after a restart its CPUs are chosen again.
        """
        if name not in self.node.listed:
            self.node.clock += 1
            self.node.listed[name] = replace(facts, created_at=self.node.clock)
            self.lapsed.add(name)

    # ---- checks after each event ----

    def act(self, happen: Callable[[], Outcome], answered: str = "") -> Outcome:
        """Return the outcome of an event; `answered` gets its CPUs with the answer to its own hook."""
        before = self.state
        outcome = happen()
        self.node.push()
        self.nobody_moves_in_silence(before, outcome, answered)
        looks.releases_name_the_owner_of_the_cpus(before, outcome)
        assert list(malformed(record_lines(outcome, before))) == []
        joined = before.owners.keys() - outcome.state.owners.keys()
        self.gained |= outcome.state.owners.keys() - before.owners.keys() - {answered}
        self.lapsed = (self.lapsed | joined) & outcome.state.containers.keys()
        self.gained &= outcome.state.containers.keys()
        return outcome

    @staticmethod
    def nobody_moves_in_silence(before: NodeState, outcome: Outcome, answered: str) -> None:
        """Assert that each container with new CPUs is in the moves, by itself or with its pod, and only once."""
        after, moves = outcome.state, outcome.moves
        assert len(set(moves.containers)) == len(moves.containers)
        assert len(set(moves.pods)) == len(moves.pods)
        for name in before.containers.keys() & after.containers.keys() - {answered}:
            now = after.containers[name]
            if not now.hands_off and before.cpus_of(before.containers[name]) != after.cpus_of(now):
                assert name in moves.containers or now.container.pod_id in moves.pods, name

    # ---- invariants at every moment ----

    @invariant()
    def everything_holds(self):
        looks.exclusive_cpus_belong_to_one_container(self.state)
        looks.no_other_container_runs_on_owned_cpus(self.state)
        looks.a_follower_sits_on_its_own_pods_main_container(self.state)
        looks.reserved_cpus_are_the_systems_only(self.state)
        looks.every_set_is_neither_empty_nor_offline_nor_isolated(self.state)
        looks.the_box_has_what_it_was_told(self.state)
        looks.pools_with_cpus_of_their_own_are_apart(self.state)
        looks.who_is_known_is_as_a_stranger_finds_them(self.state, self.pod_facts)
        for tuning in (ReclaimTuning(), PARTITION):
            looks.every_cpu_is_lendable_or_owned_or_nobodys(self.state, tuning)
        looks.what_members_ask_for_is_known(self.state)
        looks.no_value_that_is_written_is_empty(self.state)
        looks.no_boxed_pod_holds_another_class(self.state)
        looks.every_container_has_its_pod(self.state)
        looks.no_pod_owns_more_than_it_requests(self.state)
        looks.what_is_repeated_agrees(self.state)
        self.synchronising_with_our_own_state_changes_nothing()
        self.exclusive_cpus_survive_a_restart_by_their_records()

    @property
    def state(self) -> NodeState:
        return self.node.state

    def synchronising_with_our_own_state_changes_nothing(self):
        listing = self.node.listing()
        once = step(self.state, listing, self.node.tuning)
        # the runtime may know another request of a container whose creation we did not answer, and a pool has its
        # containers' requests
        asked_anew = once.state.pools.asked != self.state.pools.asked
        assert not asked_anew or self.lapsed
        assert asked_anew or (once.decisions, once.state.pools) == ((), self.state.pools)
        assert once.state.pods == self.state.pods
        for name, now in once.state.containers.items():
            then = self.state.containers[name]
            # a value that a reload dropped is the kubelet's once it is pushed
            assert (
                name in self.lapsed
                or replace(now, container=as_before(now.container, then.container)) == then
            )
        assert step(once.state, listing, self.node.tuning).state is once.state

    def exclusive_cpus_survive_a_restart_by_their_records(self):
        """Assert that after a restart from records each container owns the same CPUs, with two exceptions.

        A container of the pod that is placed again may be the main container by then. If only a spec names a
        container's CPUs, another container must live in `share`, whose spec names the CPUs of `share`. Without it, a
        lapsed record may have, by chance, all of `share`.
        """
        again = self.node.anew().state
        anew = {self.state.containers[k].container.pod_id for k in self.lapsed}
        anew |= {a.container.pod_id for a in self.state.containers.values() if self.may_own_more(a)}
        anew |= {self.node[k].container.pod_id for k in self.gained if self.has_a_part_of_its_pods(k)}
        if not any(self.lives_in_share(a) for a in self.state.containers.values()):
            anew |= {self.state.containers[k].container.pod_id for k in self.gained}
            if any(self.claimed(k) & self.state.pools.share for k in self.lapsed):
                return
        for name, cpus in self.state.owners.items():
            keeps = again.owners.get(name) == cpus
            assert self.state.containers[name].container.pod_id in anew or keeps
        # a refused container may have in its spec, by chance, a pool's set of the size that it asked for
        for name in again.owners.keys() - self.state.owners.keys():
            due = supply.of(again, again.containers[name].container, again.containers[name].wish)
            assert anew or again.owners[name].bit_count() == due.cpus

    def may_own_more(self, a: Assignment) -> bool:
        """Return whether a container of a pod with a known request may own more CPUs: too few were free."""
        is_known = self.state.cpu_request_of(a.container.pod_id) is not None
        due = supply.of(self.state, a.container, a.wish)
        return is_known and a.qos is QoSClass.DEDICATED and due.cpus > a.exclusive.bit_count()

    def has_a_part_of_its_pods(self, name: str) -> bool:
        """Return whether its pod's request decides its number of own CPUs, so that its spec shows too little."""
        return supply.of(self.state, self.node[name].container, self.node[name].wish).capped

    def claimed(self, name: str) -> int:
        of_pod = self.state.cpu_request_of(self.node[name].container.pod_id)
        return claim.of(self.node.listed[name], self.node[name].wish, of_pod).cpus

    def lives_in_share(self, a: Assignment) -> bool:
        planned = {tuning.name for tuning in self.state.pools.plan} - {"share", "system"}
        is_ours = a.is_managed and bool(self.node.listed[a.id].record)
        now, anew = tiers.base(a.pool), tiers.base(tiers.pool_of(a.wish))
        return is_ours and a.qos in (QoSClass.SHARED, QoSClass.SYSTEM) and not {now, anew} & planned

    @precondition(lambda self: self.state.containers)
    @rule(name=NAMES, on=PODS, milli=MILLI, wish=WISHES)
    def the_same_question_has_the_same_answer(self, name, on, milli, wish):
        listing: list[Event] = [ContainerGone(name), self.node.listing()]
        listing.append(
            ContainerUpdating(self.node.pod(on), container(name, on, milli), wish, container("x").resources)
        )
        for event in listing:
            one, two = (step(self.state, event, self.node.tuning) for _ in range(2))
            assert one == two
            assert rendered(one) == rendered(two)


def test_nothing_is_rendered_from_nothing():
    node = Node()
    assert rendered(Outcome(node.state)) == []
    assert Knobs().named() == {}


TestPlacement = PlacementMachine.TestCase
TestPlacement.settings = settings(
    max_examples=examples.times(2), stateful_step_count=40, report_multiple_bugs=False
)
