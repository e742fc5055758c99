"""Other plugins on the same runtime set the same field, validate our answers, or push values that are ours."""

from collections.abc import Callable

import pytest

from nri_coloc._pb import nri_pb2
from nri_coloc.core import cpuset
from nri_coloc.core.workload import Resources
from nri_coloc.errors import RuntimeRefused
from tests.conformance.looking import cpus, owned
from tests.integration.harness import assert_unhurt, dedicated, pod, shared
from tests.rig.daemon import Daemon
from tests.rig.go_plugins import GoNode
from tests.rig.go_programs import EDITIONS
from tests.rig.waiting import wait_until

VALIDATING = [edition for edition in EDITIONS if edition.number >= (0, 10, 0)]

BEFORE_US, AFTER_US = "10", "90"


def pins(value: str) -> Callable[[nri_pb2.CreateContainerRequest], nri_pb2.CreateContainerResponse]:
    """Return a handler that answers every creation with the same CPUs."""
    answer = nri_pb2.CreateContainerResponse()
    answer.adjust.linux.resources.cpu.cpus = value
    return lambda _: answer


def update_of(container_id: str, value: str) -> nri_pb2.ContainerUpdate:
    update = nri_pb2.ContainerUpdate(container_id=container_id)
    update.linux.resources.cpu.cpus = value
    return update


# ---- the same field ----


@pytest.mark.parametrize("index", [BEFORE_US, AFTER_US], ids=["before-us", "after-us"])
def test_a_rival_plugins_creation_fails_at_no_cost_for_us(node: GoNode, daemon: Daemon, index: str):
    neighbour = shared(node)
    lost = len(daemon.audit("runtime.lost"))
    with (
        node.nri.companion("rival", index, CreateContainer=pins("7")),
        pytest.raises(RuntimeRefused, match=r"plugins \S+ and \S+ both tried to set .*[cC][pP][uU]"),
    ):
        dedicated(node)
    wait_until(lambda: owned(daemon) == "", 30, "the CPUs to be returned")
    assert len(daemon.audit("runtime.lost")) == lost
    assert_unhurt(daemon)
    node.remove_pod(node.pod("shop/web"))
    assert cpuset.render(cpus(node, dedicated(node))) == "0-1"
    assert cpuset.render(cpus(node, neighbour)) == "2-7"


def test_a_plugin_that_sets_another_field_is_merged_with_us(node: GoNode, daemon: Daemon):
    answer = nri_pb2.CreateContainerResponse()
    answer.adjust.annotations["example.com/seen"] = "yes"
    with node.nri.companion("friend", AFTER_US, CreateContainer=lambda _: answer):
        web = dedicated(node)
    assert node.runtime.containers[web].annotations["example.com/seen"] == "yes"
    assert cpuset.render(cpus(node, web)) == "0-1"
    assert_unhurt(daemon)


def test_a_later_plugin_sees_what_we_adjusted(node: GoNode):
    seen = []

    def look(request: nri_pb2.CreateContainerRequest) -> nri_pb2.CreateContainerResponse:
        seen.append(request.container.linux.resources.cpu.cpus)
        return nri_pb2.CreateContainerResponse()

    with node.nri.companion("looker", AFTER_US, CreateContainer=look):
        dedicated(node)
    assert seen == ["0-1"]


def test_a_creation_survives_an_earlier_plugins_update_of_a_neighbour(node: GoNode, daemon: Daemon):
    neighbour = shared(node)
    answer = nri_pb2.CreateContainerResponse(update=[update_of(neighbour, "4-7")])
    with node.nri.companion("rival", BEFORE_US, CreateContainer=lambda _: answer):
        web = dedicated(node)
    assert cpuset.render(cpus(node, web)) == "0-1"
    wait_until(lambda: not node.cpus(neighbour) & node.cpus(web), 30, "the neighbour to leave")
    assert_unhurt(daemon)


def test_a_rival_plugins_update_fails_alone(node: GoNode, daemon: Daemon):
    web, lost = dedicated(node), len(daemon.audit("runtime.lost"))
    answer = nri_pb2.UpdateContainerResponse(update=[update_of(web, "6-7")])
    with (
        node.nri.companion("rival", AFTER_US, UpdateContainer=lambda _: answer),
        pytest.raises(RuntimeRefused, match=r"plugins \S+ and \S+ both tried to set"),
    ):
        node.runtime.update(web, Resources(cpus="0-7"))
    assert len(daemon.audit("runtime.lost")) == lost
    assert cpuset.render(cpus(node, web)) == "0-1"
    node.runtime.update(web, Resources(shares=512))
    assert_unhurt(daemon)


# ---- validators ----


@pytest.mark.parametrize("edition", VALIDATING, indirect=True, ids=lambda one: f"nri-{one.nri}")
def test_a_validator_sees_what_we_set_and_that_it_was_us(node: GoNode):
    seen: list[nri_pb2.ValidateContainerAdjustmentRequest] = []

    def look(request: nri_pb2.ValidateContainerAdjustmentRequest):
        seen.append(request)
        return nri_pb2.ValidateContainerAdjustmentResponse()

    with node.nri.companion("judge", BEFORE_US, ValidateContainerAdjustment=look):
        web = dedicated(node)
    (request,) = seen
    assert request.adjust.linux.resources.cpu.cpus == "0-1"
    assert [(plugin.index, plugin.name) for plugin in request.plugins] == [
        ("10", "judge"),
        ("50", "nri-coloc"),
    ]
    owners = request.owners.owners[web].simple
    assert owners[nri_pb2.Field.Value("FIELD_CPUSET_CPUS")] == "50-nri-coloc"


@pytest.mark.parametrize("edition", VALIDATING, indirect=True, ids=lambda one: f"nri-{one.nri}")
def test_a_creation_that_a_validator_rejects_leaves_no_cpus_taken(node: GoNode, daemon: Daemon):
    neighbour = shared(node)
    no = nri_pb2.ValidateContainerAdjustmentResponse(reject=True, reason="no pinning here")
    with (
        node.nri.companion("judge", BEFORE_US, ValidateContainerAdjustment=lambda _: no),
        pytest.raises(RuntimeRefused, match="no pinning here"),
    ):
        dedicated(node)
    wait_until(lambda: owned(daemon) == "", 30, "the CPUs to be returned")
    wait_until(lambda: cpuset.render(node.cpus(neighbour)) == "0-7", 30, "the neighbour to grow back")
    assert_unhurt(daemon)


# ---- pushes ----


def test_what_another_plugin_pushes_over_our_placement_is_put_back(node: GoNode, daemon: Daemon):
    neighbour, web = shared(node), dedicated(node)
    pushed = len(node.nri.pushed)
    with node.nri.companion("pusher", AFTER_US) as pusher:
        pusher.push(update_of(neighbour, "0-7"))
    # by now the repair may be pushed over the same call
    assert {update.container_id for update in node.nri.pushed[pushed:]} == {neighbour}
    wait_until(lambda: not node.cpus(neighbour) & node.cpus(web), 30, "the repair")
    assert daemon.audited("drift.repair", container_id=neighbour)
    node.nri.pushed.clear()


def test_a_container_of_a_plugin_that_left_is_nothing_special(node: GoNode, daemon: Daemon):
    with node.nri.companion("guest", AFTER_US):
        web = dedicated(node)
    node.runtime.stop(web)
    pod(node, "another")
    assert owned(daemon) == ""
    assert_unhurt(daemon)
