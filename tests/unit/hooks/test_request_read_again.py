"""A pod's CPU request is read at its start, and again only if another request would change a container."""

import json

import pytest

from nri_coloc.core.settings import ClassTuning, PoolTuning, PressureTuning, ReclaimTuning, Tuning
from nri_coloc.core.workload import QoSClass
from nri_coloc.hooks.requests_again import RequestsAgain
from nri_coloc.placing import record
from tests.rig.told import entry
from tests.unit.hooks.asking import Asking
from tests.unit.hooks.hook_messages import TUNING
from tests.unit.parts import Requests, a_node


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


def test_a_lowered_container_lowers_its_pod_before_the_kubelet_does():
    asking = Asking(Requests({"p": 4000})).started()
    asking.create(shares=4096)
    assert asking.update("c", 2).exclusive == 0
    assert asking.request == 0
    assert asking.update("c", 2).exclusive == 0
    assert asking.create("later", shares=2).exclusive == 0


def test_a_pods_request_stays_the_sum_of_its_containers():
    asking = Asking(Requests({"p": 4000})).started()
    asking.create(shares=4096)
    asking.create("beside", shares=3072)
    asking.update("c", 2)
    assert asking.request == 3000


def test_a_container_that_grows_again_owns_cpus_again():
    asking = a_lowered_pod()
    assert asking.update("c", 4096).exclusive.bit_count() == 4
    assert asking.request == 4000


def a_lowered_pod() -> Asking:
    """Return a pod of a container that was lowered to nothing, before the kubelet has lowered the pod's cgroup."""
    asking = Asking(Requests({"p": 4000})).started()
    asking.create(shares=4096)
    asking.update("c", 2)
    return asking


def test_a_former_request_counts_again_after_the_lower_one():
    asking = a_lowered_pod()
    asking.requests.by_pod["p"] = 0
    asking.create("side", shares=2)
    asking.requests.by_pod["p"] = 4000
    asking.create("later", shares=2)
    assert asking.owned == 4


def test_any_container_of_the_pod_reads_its_lower_request():
    asking = Asking(Requests({"p": 4000})).started()
    asking.create(shares=2048)
    asking.update("c", 1024)
    asking.requests.by_pod["p"] = 3000
    asking.create("small", shares=512)
    asking.requests.by_pod["p"] = 4000
    assert asking.create("big", shares=8192).exclusive.bit_count() == 3


def test_a_pods_own_resize_forgets_its_former_request():
    asking = a_lowered_pod()
    asking.requests.by_pod["p"] = 0
    asking.resize_pod()
    asking.requests.by_pod["p"] = 4000
    asking.create("later", shares=2)
    assert asking.owned == 4


def test_a_list_forgets_the_former_request():
    asking = a_lowered_pod()
    asking.requests.by_pod["p"] = 0
    asking.node.decide(asking.listed(asking.container("c", 2).container))
    asking.requests.by_pod["p"] = 4000
    asking.create("later", shares=2)
    assert asking.owned == 4


def test_a_container_that_grows_forgets_the_former_request():
    asking = a_lowered_pod()
    asking.requests.by_pod["p"] = 0
    asking.update("c", 512)
    asking.requests.by_pod["p"] = 4000
    asking.create("later", shares=2)
    assert asking.owned == 4


def test_a_pods_resize_is_newer_than_its_containers():
    asking = a_lowered_pod()
    asking.resize_pod()
    assert asking.request == 4000


class TestAStart:
    """A start takes over no lower request without the classes that follow from it."""

    TUNING = Tuning(classes={QoSClass.DEDICATED: ClassTuning(min_request=1500)})

    def started(self, name: str) -> Asking:
        asking = Asking(Requests({"p": 4000}), tuning=self.TUNING).started()
        asking.create(shares=2)
        asking.requests.by_pod["p"] = 1000
        event = asking.translator.starting(
            asking.container(name, 2), asking.node.state, self.TUNING, running=False
        )
        asking.node.decide(event)
        return asking

    def test_a_known_container_leaves_it_to_the_next_look(self):
        asking = self.started("c")
        RequestsAgain(asking.node, asking.translator, ()).look(0.0)
        assert (asking.request, asking.owned) == (1000, 0)

    def test_an_unknown_container_brings_the_others_classes(self):
        asking = self.started("missed")
        assert (asking.request, asking.owned) == (1000, 0)
