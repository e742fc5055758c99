"""Hooks become events: some facts come from the hook, others from the state, and some are not believed."""

import pytest

from nri_coloc._pb import told_pb2
from nri_coloc.core.knobs import Knobs, Original
from nri_coloc.core.workload import Phase, QoSClass
from nri_coloc.hooks.translation import Translator
from nri_coloc.nri.calls import HookKind
from nri_coloc.placing import admission, record
from nri_coloc.placing.node import Node
from tests.rig.told import entry
from tests.unit.hooks.hook_messages import TUNING, hook, synchronized
from tests.unit.parts import Requests, a_node, a_translator


@pytest.fixture
def translator() -> Translator:
    return a_translator(TUNING)


def test_known_pod_is_not_read_from_the_hook(translator):
    node = a_node()
    node.decide(translator.pod_started(hook(HookKind.RUN_POD_SANDBOX, "dedicated"), TUNING))
    event = translator.creating(hook(HookKind.CREATE_CONTAINER), node.state, TUNING)
    assert event.pod is node.state.pods["p"].pod
    assert event.wish.qos is QoSClass.DEDICATED


def test_unknown_pod_is_read_from_the_hook(translator):
    event = translator.creating(hook(HookKind.CREATE_CONTAINER, "dedicated"), a_node().state, TUNING)
    assert (event.pod.name, event.wish.qos) == ("web", QoSClass.DEDICATED)


@pytest.mark.parametrize(
    ("kind", "running"), [(HookKind.START_CONTAINER, False), (HookKind.POST_START_CONTAINER, True)]
)
def test_a_start_says_whether_it_runs_already(kind, running, translator):
    event = translator.starting(hook(kind), a_node().state, TUNING, running=running)
    assert (event.running, event.container.pid, event.container.phase) == (running, 7, Phase.CREATED)


def test_a_known_container_starts_with_its_wish(translator):
    """Its annotations were read at its creation, and its figures are the kubelet's, not those of the spec."""
    node = a_node()
    node.decide(translator.pod_started(hook(HookKind.RUN_POD_SANDBOX, "dedicated"), TUNING))
    node.decide(translator.creating(hook(HookKind.CREATE_CONTAINER), node.state, TUNING))
    known = node.state.containers["c"]
    told = hook(HookKind.START_CONTAINER)
    assert told.container is not None
    told.container.linux.resources.cpu.shares.value = 2
    event = translator.starting(told, node.state, TUNING, running=False)
    assert event.wish is known.wish
    assert (event.container.pid, event.container.resources.shares) == (7, 2048)


def test_an_update_without_new_figures_keeps_the_wish(translator):
    node = a_node()
    node.decide(translator.pod_started(hook(HookKind.RUN_POD_SANDBOX, "dedicated"), TUNING))
    node.decide(translator.creating(hook(HookKind.CREATE_CONTAINER), node.state, TUNING))
    wanted = told_pb2.LinuxResources()
    wanted.cpu.quota.value, wanted.cpu.shares.value = 300_000, 2048
    event = translator.updating(hook(HookKind.UPDATE_CONTAINER, resources=wanted), node.state, TUNING)
    assert event.wish is node.state.containers["c"].wish


def test_updates_wish_uses_its_own_figures(translator):
    """A part of the limit is one of the new limit; the daemon's own value is not taken for the kubelet's."""
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


def test_update_holds_the_kubelets_request(translator):
    wanted = told_pb2.LinuxResources()
    wanted.cpu.shares.value = 512
    event = translator.updating(hook(HookKind.UPDATE_CONTAINER, resources=wanted), a_node().state, TUNING)
    assert (event.requested.shares, event.container.resources.shares) == (512, 2048)
    nothing = translator.updating(hook(HookKind.UPDATE_CONTAINER), a_node().state, TUNING)
    assert nothing.requested.shares is None


def test_container_without_a_listed_pod_gets_one(translator):
    container = told_pb2.Container(id="c", pod_sandbox_id="gone", name="app")
    event = synchronized(translator, [], [container], a_node().state)
    assert event.pods == ()
    ((listed, wish),) = event.containers
    assert (listed.pod_id, wish.qos) == ("gone", QoSClass.SHARED)


# ---- a part of a limit that was resized ----

GI = 1 << 30


class Listed:
    """A container of 1 GiB whose pod asks for `limit`, as the runtime lists it after the daemon's answer."""

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
        """Let the kubelet ask for another limit; the spec then holds the daemon's answer."""
        wanted = told_pb2.LinuxResources()
        wanted.memory.limit.value = limit
        event = self.translator.updating(self.hook._replace(resources=wanted), self.node.state, TUNING)
        orders = self.node.decide(event).orders_for("c")
        return self.holds(orders.memory_limit or limit)

    def limit_after(self, node: Node) -> int | None:
        """Return the memory limit that is ordered after the runtime has listed the container, bytes."""
        event = synchronized(self.translator, [self.hook.pod], [self.container], node.state)
        state = node.decide(event).state
        assert self.translator.wishes_again(state, TUNING)[0]["c"] == state.containers["c"].wish
        return admission.orders(state, state.containers["c"]).memory_limit


RESIZED = pytest.mark.parametrize(("percent", "kubelets"), [(50, 2 * GI), (33, 3 * GI + 7), (100, GI // 2)])


@RESIZED
def test_reconnect_keeps_a_share_of_a_resized_limit(translator, percent, kubelets):
    listed = Listed(translator, f"{percent}%").resized(kubelets)
    assert listed.limit_after(listed.node) in (kubelets * percent // 100, None)


@RESIZED
def test_restart_keeps_it_despite_an_older_record(translator, percent, kubelets):
    listed = Listed(translator, f"{percent}%").resized(kubelets)
    assert listed.limit_after(a_node()) == kubelets * percent // 100


def test_smaller_limit_is_recognised(translator):
    assert Listed(translator, "50%").resized(GI // 2).limit_after(a_node()) == GI // 4


@pytest.mark.parametrize("holds", [GI, 300 << 20, -1, 0], ids=["restored", "another", "none", "nothing"])
def test_amount_holds_against_the_spec(translator, holds):
    listed = Listed(translator, "512Mi").holds(holds)
    assert listed.limit_after(a_node()) == 512 << 20


def test_reduced_loan_is_no_resize(translator):
    listed = Listed(translator, "50%", "reclaimed").holds(32 << 20)
    event = synchronized(translator, [listed.hook.pod], [listed.container], a_node().state)
    ((_, wish),) = event.containers
    assert wish.annotated.memory_limit == GI // 2


# ---- containers without a record ----


class Adopted:
    """A container of 1 GiB from before the daemon: the limit in its spec, and the previous process's journal."""

    def __init__(self, limit: str, *, says: int, journalled: Original) -> None:
        self.hook = hook(HookKind.CREATE_CONTAINER)
        self.hook.pod.annotations.append(entry("coloc.nri.io/memory-limit", limit))
        assert self.hook.container is not None
        self.hook.container.linux.resources.memory.limit.value = says
        translator = a_translator(TUNING, journalled=journalled)
        event = synchronized(translator, [self.hook.pod], [self.hook.container], a_node().state)
        ((self.container, self.wish),) = event.containers

    @property
    def limits(self) -> tuple[int | None, int | None]:
        """Return the kubelet's limit and the daemon's, bytes."""
        return self.container.resources.memory_limit, self.wish.annotated.memory_limit


GIB_BEFORE = Original(frozenset({"memory_limit"}), Knobs(memory_limit=GI))


def test_share_of_a_limit_is_not_applied_twice():
    assert Adopted("50%", says=GI // 2, journalled=GIB_BEFORE).limits == (GI, GI // 2)


def test_share_of_a_resized_limit_neither():
    assert Adopted("50%", says=3 * GI // 2, journalled=GIB_BEFORE).limits == (3 * GI, 3 * GI // 2)


def test_limit_that_is_no_share_is_the_kubelets():
    assert Adopted("512Mi", says=2 * GI, journalled=GIB_BEFORE).limits == (2 * GI, GI // 2)


def test_unchanged_value_is_the_kubelets():
    found = Adopted("50%", says=GI, journalled=Original(frozenset()))
    assert (found.limits, found.container.journalled) == ((GI, GI // 2), None)


def test_record_from_a_pods_own_key_is_dropped(translator):
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


@pytest.mark.parametrize(("qos", "expected"), [("shared", GI), ("reclaimed", None)])
def test_a_listed_reclaimed_pod_shows_no_memory_request(qos, expected):
    requests, told = Requests(), hook(HookKind.CREATE_CONTAINER, qos)
    requests.memory_by_pod["p"] = GI
    event = synchronized(a_translator(TUNING, requests), [told.pod], [told.container], a_node().state)
    ((pod, _wish),) = event.pods
    assert pod.memory_request == expected
