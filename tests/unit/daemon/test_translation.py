"""From hooks to events: what is taken from the hook, what from the state, and what is never believed."""

from collections.abc import Sequence
from typing import Any

import pytest

from nri_coloc._pb import told_pb2
from nri_coloc.daemon.node import Node
from nri_coloc.daemon.translation import Translator
from nri_coloc.model.knobs import NO_KNOBS, Knobs, Original
from nri_coloc.model.state import NodeState
from nri_coloc.model.tuning import Tuning
from nri_coloc.model.workload import KEPT_BY_DRA, Phase, QoSClass
from nri_coloc.nri.events import Call, Hook
from nri_coloc.nri.subscription import HookKind
from nri_coloc.policy import admission, record
from tests.rig.told import entry
from tests.unit.daemon.kit import a_node, a_translator, listed

TUNING = Tuning()


@pytest.fixture
def translator() -> Translator:
    return a_translator(TUNING)


def hook(kind: HookKind, qos: str = "", resources: told_pb2.LinuxResources | None = None) -> Hook:
    pod = told_pb2.PodSandbox(id="p", name="web", namespace="shop", uid="u")
    if qos:
        pod.annotations.append(entry("coloc.nri.io/qos-class", qos))
    container = told_pb2.Container(id="c", pod_sandbox_id="p", name="app", pid=7)
    container.linux.resources.cpu.shares.value = 2048
    return Hook(Call(1, kind.value, 0), kind, pod, None if kind.about_pod else container, resources)


def synchronized(
    translator: Translator, pods: Sequence[Any], containers: Sequence[Any], state: NodeState
) -> Any:
    found = listed(translator, pods, containers)
    return translator.synchronized(found.pods, found.containers, state, TUNING)


def test_a_pod_that_the_state_knows_is_not_read_from_the_hook_again(translator):
    node = a_node()
    node.decide(translator.pod_started(hook(HookKind.RUN_POD_SANDBOX, "dedicated"), TUNING))
    event = translator.creating(hook(HookKind.CREATE_CONTAINER), node.state, TUNING)
    assert event.pod is node.state.pods["p"].pod
    assert event.wish.qos is QoSClass.DEDICATED


def test_a_pod_that_the_state_does_not_know_is_taken_from_the_hook(translator):
    event = translator.creating(hook(HookKind.CREATE_CONTAINER, "dedicated"), a_node().state, TUNING)
    assert (event.pod.name, event.wish.qos) == ("web", QoSClass.DEDICATED)


@pytest.mark.parametrize(
    ("kind", "running"), [(HookKind.START_CONTAINER, False), (HookKind.POST_START_CONTAINER, True)]
)
def test_a_start_says_whether_it_runs_already(kind, running, translator):
    event = translator.starting(hook(kind), a_node().state, TUNING, running=running)
    assert (event.running, event.container.pid, event.container.phase) == (running, 7, Phase.CREATED)


def test_an_updates_wish_is_read_with_the_figures_that_it_brings(translator):
    """A part of the limit is one of the new limit, and what holds our own value is not taken for the kubelet's."""
    told = hook(HookKind.CREATE_CONTAINER, "shared")
    told.pod.annotations.append(entry("coloc.nri.io/memory-limit", "50%"))
    assert told.container is not None
    told.container.linux.resources.memory.limit.value = 1 << 30
    node = a_node()
    node.decide(translator.pod_started(told, TUNING))
    node.decide(translator.creating(told, node.state, TUNING))
    assert node.state.containers["c"].wish.knobs.memory_limit == 1 << 29
    told.container.linux.resources.memory.limit.value = 1 << 29
    for limit, part in ((None, 1 << 29), (3 << 30, 3 << 29)):
        wanted = told_pb2.LinuxResources()
        wanted.cpu.shares.value = 512
        if limit:
            wanted.memory.limit.value = limit
        event = translator.updating(told._replace(resources=wanted), node.state, TUNING)
        assert event.wish.knobs.memory_limit == part
    unknown = translator.updating(told._replace(resources=wanted), a_node().state, TUNING)
    assert unknown.wish.knobs.memory_limit == 3 << 29


def test_an_update_says_what_the_kubelet_wants_and_none_is_nothing(translator):
    wanted = told_pb2.LinuxResources()
    wanted.cpu.shares.value = 512
    event = translator.updating(hook(HookKind.UPDATE_CONTAINER, resources=wanted), a_node().state, TUNING)
    assert (event.requested.shares, event.container.resources.shares) == (512, 2048)
    nothing = translator.updating(hook(HookKind.UPDATE_CONTAINER), a_node().state, TUNING)
    assert nothing.requested.shares is None


def test_a_container_whose_pod_is_not_listed_gets_an_empty_one(translator):
    container = told_pb2.Container(id="c", pod_sandbox_id="gone", name="app")
    event = synchronized(translator, [], [container], a_node().state)
    assert event.pods == ()
    ((listed, wish),) = event.containers
    assert (listed.pod_id, wish.qos) == ("gone", QoSClass.SHARED)


# ---- a part of a limit that was resized ----

GI = 1 << 30


class Listed:
    """A container of 1 GiB whose pod wishes for `limit`, as the runtime lists it after our answer."""

    def __init__(self, translator: Translator, limit: str, qos: str = "shared") -> None:
        self.translator, self.node = translator, a_node()
        self.hook = hook(HookKind.CREATE_CONTAINER, qos)
        self.hook.pod.annotations.append(entry("coloc.nri.io/memory-limit", limit))
        assert self.hook.container is not None
        self.container = self.hook.container
        self.container.linux.resources.memory.limit.value = GI
        self.node.decide(translator.pod_started(self.hook, TUNING))
        created = self.node.decide(translator.creating(self.hook, self.node.state, TUNING)).state.containers[
            "c"
        ]
        self.container.annotations.append(entry("coloc.nri.io/record", record.write(created)))
        self.holds(created.knobs.memory_limit or GI)

    def holds(self, limit: int) -> "Listed":
        self.container.linux.resources.memory.limit.value = limit
        return self

    def resized(self, limit: int) -> "Listed":
        """Have the kubelet ask for another limit, and the spec hold what we answered."""
        wanted = told_pb2.LinuxResources()
        wanted.memory.limit.value = limit
        event = self.translator.updating(self.hook._replace(resources=wanted), self.node.state, TUNING)
        orders = self.node.decide(event).orders_for("c")
        return self.holds(orders.memory_limit or limit)

    def limit_after(self, node: Node) -> int | None:
        """What is asked for once the runtime has listed it."""
        event = synchronized(self.translator, [self.hook.pod], [self.container], node.state)
        state = node.decide(event).state
        assert self.translator.wishes_again(state, TUNING)[0]["c"] == state.containers["c"].wish
        return admission.orders(state, state.containers["c"]).memory_limit


RESIZED = pytest.mark.parametrize(("percent", "kubelets"), [(50, 2 * GI), (33, 3 * GI + 7), (100, GI // 2)])


@RESIZED
def test_a_runtime_that_comes_back_leaves_a_part_of_a_resized_limit_as_it_is(translator, percent, kubelets):
    listed = Listed(translator, f"{percent}%").resized(kubelets)
    assert listed.limit_after(listed.node) in (kubelets * percent // 100, None)


@RESIZED
def test_a_restart_leaves_it_too_though_the_record_tells_the_limit_of_the_first_day(
    translator, percent, kubelets
):
    listed = Listed(translator, f"{percent}%").resized(kubelets)
    assert listed.limit_after(a_node()) == kubelets * percent // 100


def test_a_limit_that_became_smaller_is_known_again_too(translator):
    assert Listed(translator, "50%").resized(GI // 2).limit_after(a_node()) == GI // 4


@pytest.mark.parametrize("holds", [GI, 300 << 20, -1, 0], ids=["restored", "another", "none", "nothing"])
def test_an_amount_is_no_part_and_holds_whatever_the_spec_says(translator, holds):
    listed = Listed(translator, "512Mi").holds(holds)
    assert listed.limit_after(a_node()) == 512 << 20


def test_what_a_loan_was_cut_to_tells_of_no_resize(translator):
    listed = Listed(translator, "50%", "reclaimed").holds(32 << 20)
    event = synchronized(translator, [listed.hook.pod], [listed.container], a_node().state)
    ((_, wish),) = event.containers
    assert wish.annotated.memory_limit == GI // 2


# ---- whom no record tells of ----


class Adopted:
    """A container of 1 GiB that ran before us: what its spec says in a later life, and the journal of a former one."""

    def __init__(self, limit: str, *, says: int, journalled: Original) -> None:
        self.hook = hook(HookKind.CREATE_CONTAINER)
        self.hook.pod.annotations.append(entry("coloc.nri.io/memory-limit", limit))
        assert self.hook.container is not None
        self.hook.container.linux.resources.memory.limit.value = says
        translator = a_translator(TUNING, journalled)
        event = synchronized(translator, [self.hook.pod], [self.hook.container], a_node().state)
        ((self.container, self.wish),) = event.containers

    @property
    def limits(self) -> tuple[int | None, int | None]:
        """The kubelet's, and ours."""
        return self.container.resources.memory_limit, self.wish.annotated.memory_limit


GIB_BEFORE = Original(frozenset({"memory_limit"}), Knobs(memory_limit=GI))


def test_a_part_of_a_limit_is_not_taken_of_itself_in_the_next_life():
    assert Adopted("50%", says=GI // 2, journalled=GIB_BEFORE).limits == (GI, GI // 2)


def test_a_part_of_a_resized_limit_is_not_either():
    assert Adopted("50%", says=3 * GI // 2, journalled=GIB_BEFORE).limits == (3 * GI, 3 * GI // 2)


def test_a_limit_that_is_no_part_of_any_is_the_kubelets():
    assert Adopted("512Mi", says=2 * GI, journalled=GIB_BEFORE).limits == (2 * GI, GI // 2)


def test_what_a_former_life_did_not_change_is_the_kubelets():
    found = Adopted("50%", says=GI, journalled=Original(frozenset()))
    assert (found.limits, found.container.journalled) == ((GI, GI // 2), None)


def test_a_record_in_a_pod_that_carries_the_key_itself_is_dropped(translator):
    pod = told_pb2.PodSandbox(id="p", annotations=[entry("coloc.nri.io/record", "x")])
    container = told_pb2.Container(
        id="c", pod_sandbox_id="p", annotations=[entry("coloc.nri.io/record", "x")]
    )
    ((listed, _),) = synchronized(translator, [pod], [container], a_node().state).containers
    assert listed.record == ""


def test_every_wish_is_read_again_under_another_tuning(translator):
    node = a_node()
    node.decide(translator.creating(hook(HookKind.CREATE_CONTAINER, "system"), node.state, TUNING))
    containers, pods = translator.wishes_again(node.state, TUNING)
    assert (set(containers), set(pods)) == ({"c"}, {"p"})
    assert containers["c"].qos is QoSClass.SHARED, "system is for kube-system"


def driven_hook(kind: HookKind, cpus: str = "4-5", qos: str = "reclaimed") -> Hook:
    found = hook(kind, qos)
    assert found.container is not None
    found.container.env.append(b"DRA_CPUSET_0b6e=4-5")
    found.container.linux.resources.cpu.cpus = cpus
    return found


def test_what_the_dra_driver_has_pinned_is_dedicated_and_left_alone_whatever_its_pod_is(translator):
    node = a_node()
    node.decide(translator.pod_started(hook(HookKind.RUN_POD_SANDBOX, "reclaimed"), TUNING))
    wish = translator.creating(driven_hook(HookKind.CREATE_CONTAINER), node.state, TUNING).wish
    assert (wish.qos, wish.preserve) == (QoSClass.DEDICATED, frozenset({"cpu", KEPT_BY_DRA}))
    assert wish.because == "the DRA CPU driver has pinned it to CPUs 4-5"
    assert wish.knobs == NO_KNOBS  # a reclaimed pod's score of 1000 is not for it


def test_a_variable_that_anybody_wrote_changes_nothing(translator):
    wish = translator.creating(driven_hook(HookKind.CREATE_CONTAINER, cpus=""), a_node().state, TUNING).wish
    assert (wish.qos, wish.preserve) == (QoSClass.RECLAIMED, frozenset())
