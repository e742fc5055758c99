"""Hooks become events: some facts come from the hook, others from the state, and some are not believed."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from nri_coloc._pb import told_pb2
from nri_coloc.core.decisions import PodResized
from nri_coloc.core.knobs import Knobs, Original
from nri_coloc.core.settings import ClassTuning, PoolTuning, PressureTuning, ReclaimTuning, Tuning
from nri_coloc.core.state import Assignment, NodeState
from nri_coloc.core.workload import Phase, QoSClass
from nri_coloc.hooks.translation import Translator
from nri_coloc.nri.calls import HookKind
from nri_coloc.nri.events import Call, Hook
from nri_coloc.placing import admission, record
from nri_coloc.placing.node import Node
from tests.rig.told import entry
from tests.unit.parts import Requests, a_node, a_translator, listed

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
    translator: Translator,
    pods: Sequence[Any],
    containers: Sequence[Any],
    state: NodeState,
    tuning: Tuning = TUNING,
) -> Any:
    found = listed(translator, pods, containers)
    return translator.synchronized(found.pods, found.containers, state, tuning)


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


# ---- a pod's CPU request ----


class Asking:
    """A pod that asks for CPUs of its own, on a node whose pod cgroups hold these requests."""

    def __init__(self, requests: Requests, *, qos: str = "dedicated", tuning: Tuning = TUNING) -> None:
        self.requests, self.tuning = requests, tuning
        self.translator, self.node = a_translator(tuning, requests), a_node(tuning)
        self.run = hook(HookKind.RUN_POD_SANDBOX, qos)
        self.run.pod.linux.cgroup_parent = "/kubepods/burstable/podu"

    def started(self) -> "Asking":
        self.node.decide(self.translator.pod_started(self.run, self.tuning))
        return self

    def container(self, name: str, shares: int) -> Hook:
        told = hook(HookKind.CREATE_CONTAINER)
        assert told.container is not None
        told.container.id, told.container.name = name, name
        told.container.linux.resources.cpu.shares.value = shares
        return told._replace(pod=self.run.pod)

    def create(self, name: str = "c", shares: int = 2048) -> Assignment:
        event = self.translator.creating(self.container(name, shares), self.node.state, self.tuning)
        return self.node.decide(event).state.containers[name]

    def update(self, name: str, shares: int) -> Assignment:
        wanted = told_pb2.LinuxResources()
        wanted.cpu.shares.value = shares
        told = self.container(name, shares)._replace(resources=wanted)
        event = self.translator.updating(told, self.node.state, self.tuning)
        return self.node.decide(event).state.containers[name]

    def resize_pod(self, told: int | None = None) -> PodResized | None:
        resources = None
        if told is not None:
            resources = told_pb2.LinuxResources()
            resources.cpu.shares.value = told
        event = self.translator.pod_resized(self.run._replace(resources=resources), self.node.state, TUNING)
        if event is not None:
            self.node.decide(event)
        return event

    def listed(self, *containers: Any, state: NodeState | None = None) -> Any:
        """List the pod with these containers; return the event."""
        known = self.node.state if state is None else state
        return synchronized(self.translator, [self.run.pod], containers, known, self.tuning)

    @property
    def request(self) -> int | None:
        return self.node.state.pods["p"].pod.cpu_request


def test_request_is_read_at_the_sandbox_start():
    asking = Asking(Requests({"p": 4000})).started()
    assert (asking.request, asking.requests.reads) == (4000, 1)
    assert asking.node.state.pods["p"].wish.qos is QoSClass.DEDICATED


def test_a_creation_within_the_request_reads_nothing():
    asking = Asking(Requests({"p": 4000})).started()
    assert asking.create().exclusive.bit_count() == 2
    assert asking.requests.reads == 1


def test_a_shared_creation_reads_nothing():
    asking = Asking(Requests({"p": 2000}), qos="shared").started()
    asking.create("c", 4096)
    assert asking.requests.reads == 1


def test_request_is_reread_before_denying_a_class():
    asking = Asking(Requests({"p": 0})).started()
    assert asking.node.state.pods["p"].wish.qos is QoSClass.SHARED
    asking.requests.by_pod["p"] = 2000
    assert asking.create().qos is QoSClass.DEDICATED
    assert (asking.request, asking.requests.reads) == (2000, 2)


def test_request_is_reread_before_denying_cpus():
    asking = Asking(Requests({"p": 1000})).started()
    asking.requests.by_pod["p"] = 2000
    assert asking.create().exclusive.bit_count() == 2
    assert asking.requests.reads == 2


def test_a_denial_costs_one_read():
    asking = Asking(Requests({"p": 0})).started()
    assert (asking.create().qos, asking.requests.reads) == (QoSClass.SHARED, 2)


def test_a_growth_reads_the_request_again():
    asking = Asking(Requests({"p": 2000})).started()
    asking.create()
    asking.requests.by_pod["p"] = 4000
    assert asking.update("c", 4096).exclusive.bit_count() == 4


def test_degrading_reads_a_resized_pods_request_again():
    tuning = Tuning(pressure=PressureTuning(degrade=True))
    asking = Asking(Requests({"p": 500}), qos="shared", tuning=tuning).started()
    asking.create("c", 512)
    asking.requests.by_pod["p"] = 4000
    asking.update("c", 4096)
    assert asking.request == 4000


def test_unreadable_request_stays():
    asking = Asking(Requests({"p": 2000})).started()
    asking.create()
    del asking.requests.by_pod["p"]
    assert asking.update("c", 4096).exclusive.bit_count() == 2
    assert (asking.request, asking.resize_pod()) == (2000, None)


def test_without_a_kubelet_the_containers_requests_count():
    asking = Asking(Requests()).started()
    assert asking.create("side", 512).qos is QoSClass.SHARED
    assert asking.create("app", 512).qos is QoSClass.DEDICATED
    assert asking.create("main", 2048).exclusive.bit_count() == 2


def test_without_a_kubelet_a_limit_is_no_request():
    asking = Asking(Requests()).started()
    told = asking.container("c", 2)
    assert told.container is not None
    told.container.linux.resources.cpu.quota.value = 600_000
    event = asking.translator.creating(told, asking.node.state, TUNING)
    assert (event.wish.qos, event.wish.short) == (QoSClass.SHARED, True)
    (finding,) = event.wish.findings
    assert (finding.kind.value, finding.key) == ("annotation.denied", "coloc.nri.io/qos-class")


def test_an_update_judges_a_denied_class_again():
    asking = Asking(Requests()).started()
    assert asking.create("side", 512).qos is QoSClass.SHARED
    asking.create("main", 512)
    assert asking.update("side", 512).qos is QoSClass.DEDICATED


def test_missed_pod_is_read_before_owning_cpus():
    asking = Asking(Requests({"p": 1000}))
    owned = asking.create(shares=4096)
    assert (owned.exclusive.bit_count(), asking.request) == (1, 1000)


def test_a_resize_of_the_pod_is_taken_over():
    asking = Asking(Requests({"p": 2000})).started()
    asking.create(shares=2)
    asking.requests.by_pod["p"] = 4000
    event = asking.resize_pod(told=4096)
    assert event is not None
    assert event.pod.cpu_request == 4000
    assert asking.node.state.containers["c"].exclusive.bit_count() == 4
    assert asking.resize_pod() is None


def test_own_weight_of_a_reclaimed_pod_is_ignored():
    asking = Asking(Requests({"p": 2000}), qos="reclaimed").started()
    assert asking.node.state.boxed("p")
    asking.requests.by_pod["p"] = 0
    assert asking.resize_pod() is None
    assert asking.request == 2000


@pytest.mark.parametrize("qos", ["shared", ""])
def test_a_list_reads_no_request_that_decides_nothing(qos):
    asking = Asking(Requests({"p": 2000}), qos=qos)
    asking.listed()
    assert asking.requests.reads == 0


@pytest.mark.parametrize(
    "tuning",
    [
        Tuning(pools=(PoolTuning("gold", minimum=1),)),
        Tuning(reclaim=ReclaimTuning(partition=True)),
        Tuning(pressure=PressureTuning(degrade=True)),
    ],
    ids=["pools", "partition", "degrade"],
)
def test_a_list_reads_requests_that_are_needed(tuning):
    asking = Asking(Requests({"p": 2000}), qos="shared", tuning=tuning)
    listed = asking.listed()
    assert [pod.cpu_request for pod, _ in listed.pods] == [2000]


@pytest.mark.parametrize(("milli", "qos"), [(2000, QoSClass.DEDICATED), (500, QoSClass.SHARED)])
def test_list_reads_a_dedicated_pods_request(milli, qos):
    asking = Asking(Requests({"p": milli}))
    container = asking.container("c", 8192).container
    listed = asking.listed(container)
    assert [(pod.cpu_request, wish.qos) for pod, wish in listed.pods] == [(milli, qos)]
    assert [wish.qos for _, wish in listed.containers] == [qos]


def test_a_list_without_a_kubelet_counts_all_containers():
    asking = Asking(Requests())
    both = [asking.container(name, 512).container for name in ("a", "b")]
    listed = asking.listed(*both)
    assert [wish.qos for _, wish in listed.containers] == [QoSClass.DEDICATED] * 2


def test_a_list_keeps_the_request_that_is_known():
    asking = Asking(Requests({"p": 2000})).started()
    listed = asking.listed()
    assert (listed.pods[0][0].cpu_request, asking.requests.reads) == (2000, 1)


def test_new_settings_read_wishes_with_the_known_request():
    asking = Asking(Requests({"p": 2000})).started()
    asking.create()
    dear = Tuning(classes={**TUNING.classes, QoSClass.DEDICATED: ClassTuning(min_request=4000)})
    containers, pods = asking.translator.wishes_again(asking.node.state, dear)
    assert (containers["c"].qos, pods["p"].qos) == (QoSClass.SHARED, QoSClass.SHARED)


class TestALowerRequest:
    """nri-plugins' annotation is written once; an in-place resize is newer."""

    def asking(self, cpu: str = "1") -> Asking:
        asking = Asking(Requests({"p": 8000}))
        told = json.dumps({"containers": {"c": {"requests": {"cpu": cpu}}}})
        asking.run.pod.annotations.append(entry("noderesource.dev/resources", told))
        return asking.started()

    def test_it_counts_at_creation(self):
        assert self.asking().create(shares=2048).exclusive.bit_count() == 1

    def test_a_resize_is_newer(self):
        asking = self.asking()
        asking.create(shares=2048)
        assert asking.update("c", 4096).exclusive.bit_count() == 4
        assert asking.update("c", 4096).exclusive.bit_count() == 4

    def test_request_at_creation_stays_the_bound(self):
        asking = self.asking("2")
        asking.create(shares=2048)
        assert asking.update("c", 4096).exclusive.bit_count() == 4
        containers, _ = asking.translator.wishes_again(asking.node.state, TUNING)
        assert containers["c"].cpu_milli == 0

    def test_a_restart_keeps_what_a_resize_gave(self):
        asking = self.asking("2")
        owned = asking.create(shares=2048)
        container = asking.container("c", 4096).container
        assert container is not None
        container.annotations.append(entry("coloc.nri.io/record", record.write(owned)))
        container.linux.resources.cpu.cpus = "0-3"
        listed = asking.listed(container, state=a_node().state)
        assert listed.containers[0][1].cpu_milli == 0
        container.linux.resources.cpu.cpus = "0-1"
        listed = asking.listed(container, state=a_node().state)
        assert listed.containers[0][1].cpu_milli == 2000
