"""service/state_view.py: the shape of `/v1/state`, and the example of DESIGN 4.8 in it."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from nri_coloc.core.knobs import Knobs
from nri_coloc.core.pod_facts import ContainerFacts, Facts, Kind, Lent, Owner, PodFacts
from nri_coloc.core.state import Assignment, Crowd, NodeState, PodPlace, Pools
from nri_coloc.core.topology import CPU, Topology
from nri_coloc.core.workload import Container, Pod, QoSClass
from nri_coloc.service import state_view
from nri_coloc.service.state_view import ReadBack

GIB = 1 << 30
MACHINE = Topology.build([CPU(n, core=str(n // 2), node=n // 4) for n in range(8)], {0: 8 * GIB, 1: 8 * GIB})
POOLS = Pools(dedicated=0b0000_0011, system=0b1111_1100, share=0b1111_1100, reclaim=0b1111_1100)
LENDING = {"state": "Offline", "factor": 1.0, "until": None, "reason": "no_windows"}
APP = Assignment(Container("9c1b", "s1", "app"), QoSClass.DEDICATED, "dedicated", exclusive=0b11)


def state_json(
    state: NodeState,
    *host_groups: str,
    observe: bool = False,
    throttled: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
    **by_id: dict[str, str],
) -> dict[str, Any]:
    found = ReadBack(by_id.get("actual", {}), by_id.get("unread", {}), host_groups, ())
    waits_for = by_id.get("waits_for", {})
    return state_view.state_json(
        state, observe=observe, found=found, waits_for=waits_for, lending=LENDING, throttled=throttled
    )


def node(*assignments: Assignment, pods: tuple[Pod, ...] = (), topology: Topology = MACHINE) -> NodeState:
    return NodeState(topology, POOLS, {pod.id: PodPlace(pod) for pod in pods}, Crowd.of(assignments))


def test_cgroups_of_all_pods_are_shown():
    found = ReadBack({}, {}, (), ("kubepods", "kubelet/kubepods"))
    said = state_view.state_json(
        node(), observe=False, found=found, waits_for={}, lending=LENDING, throttled={}
    )
    assert said["node"]["pod_cgroups"] == ["kubepods", "kubelet/kubepods"]


def test_the_example_of_the_design_is_shown_whole():
    state = node(APP, pods=(Pod("s1", name="web", namespace="shop"),))
    assert state_json(state, actual={"9c1b": "0-1"}) == {
        "mode": "enforce",
        "node": {
            "cpus": "0-7",
            "reserved": "",
            "numa": [
                {"id": 0, "cpus": "0-3", "memory_bytes": 8 * GIB},
                {"id": 1, "cpus": "4-7", "memory_bytes": 8 * GIB},
            ],
        },
        "lending": LENDING,
        "pools": {
            "reserved": {"cpus": "", "members": 0},
            "dedicated": {"cpus": "0-1", "members": 1},
            "system": {"cpus": "2-7", "members": 0},
            "share": {"cpus": "2-7", "members": 0},
            "reclaim": {"cpus": "2-7", "members": 0},
        },
        "containers": [
            {
                "id": "9c1b",
                "namespace": "shop",
                "pod": "web",
                "container": "app",
                "class": "dedicated",
                "pool": "dedicated",
                "cpus": "0-1",
                "actual_cpus": "0-1",
                "mems": "0",
                "exclusive": True,
                "waits_for": "",
            }
        ],
    }


def test_remarks_on_the_settings_are_shown_if_there_are_any():
    said = state_view.state_json(
        node(),
        observe=False,
        found=ReadBack({}, {}, (), ()),
        waits_for={},
        lending=LENDING,
        throttled={},
        remarks=("pressure.disk is 4",),
    )
    assert said["remarks"] == ["pressure.disk is 4"]
    assert "remarks" not in state_json(node())


def test_observing_is_a_mode():
    assert state_json(node(), observe=True)["mode"] == "observe"


def test_cpus_not_read_back_yet_say_so():
    (container,) = state_json(node(APP))["containers"]
    assert (container["actual_cpus"], container["actual_cpus_unknown"]) == ("", "not read back yet")


def test_cpus_that_cannot_be_read_say_why():
    refused = "cannot read /sys/fs/cgroup/cpuset.cpus: Input/output error"
    (container,) = state_json(node(APP), unread={"9c1b": refused})["containers"]
    assert (container["actual_cpus"], container["actual_cpus_unknown"]) == ("", refused)


def test_cgroups_outside_kubernetes_are_listed():
    assert state_json(node(), "hadoop-yarn")["host_groups"] == ["hadoop-yarn"]
    assert "host_groups" not in state_json(node())


def test_a_container_of_an_unknown_pod_has_no_pod():
    (container,) = state_json(node(APP))["containers"]
    assert (container["namespace"], container["pod"]) == ("", "")


def test_a_sidecar_runs_on_the_main_containers_cpus_without_owning_them():
    sidecar = Assignment(Container("x", "s1", "log"), QoSClass.DEDICATED, "dedicated", follows="9c1b")
    container = state_json(node(APP, sidecar))["containers"][1]
    assert (container["cpus"], container["exclusive"]) == ("0-1", False)


def test_a_hands_off_container_shows_its_specs_cpus():
    left = Assignment(
        Container("x", "s1"), QoSClass.SHARED, "share", hands_off=True, original=Knobs(cpus="5")
    )
    everywhere = Assignment(Container("y", "s1"), QoSClass.SHARED, "share", hands_off=True)
    first, second = state_json(node(left, everywhere))["containers"]
    assert (first["cpus"], second["cpus"]) == ("5", "")


def test_containers_are_sorted_by_namespace_pod_name_and_id():
    pods = (Pod("s1", name="b", namespace="z"), Pod("s2", name="a", namespace="z"), Pod("s3", namespace="a"))
    places = [("4", "s1", "x"), ("3", "s1", "x"), ("2", "s2", "y"), ("1", "s2", "x"), ("5", "s3", "")]
    state = node(*(Assignment(Container(*place), QoSClass.SHARED, "share") for place in places), pods=pods)
    assert [c["id"] for c in state_json(state)["containers"]] == ["5", "1", "2", "3", "4"]


def test_a_pool_of_another_name_is_shown_while_it_has_members():
    batch = Assignment(Container("x", "s1"), QoSClass.SHARED, "batch")
    pools = state_json(node(batch))["pools"]
    assert list(pools) == ["reserved", "dedicated", "system", "share", "reclaim", "batch"]
    assert pools["batch"] == {"cpus": "2-7", "members": 1}


def test_the_operators_pools_are_shown_with_and_without_members():
    state = replace(node(), pools=replace(POOLS, tiers={"gold": 0b1100, "etl": 0}))
    pools = state_json(state)["pools"]
    assert list(pools)[5:] == ["etl", "gold"]
    assert (pools["gold"], pools["etl"]) == ({"cpus": "2-3", "members": 0}, {"cpus": "", "members": 0})


def test_memory_nodes_are_all_unless_bound_or_near():
    machine = Topology.build([CPU(0), CPU(1, node=1)], {0: GIB, 1: GIB})
    free = Assignment(Container("a", "s1"), QoSClass.SHARED, "share")
    bound = Assignment(Container("b", "s1"), QoSClass.SHARED, "share", mems=0b10)
    near = Assignment(Container("c", "s1"), QoSClass.DEDICATED, "dedicated", exclusive=0b10)
    shown = state_json(node(free, bound, near, topology=machine))
    assert [c["mems"] for c in shown["containers"]] == ["0-1", "1", "1"]
    assert [numa["id"] for numa in shown["node"]["numa"]] == [0, 1]


def test_a_container_that_waits_shows_for_what():
    waiting = replace(APP, pool="share", exclusive=0)
    (shown,) = state_json(node(waiting), waits_for={"9c1b": "2 CPUs of its own"})["containers"]
    assert (shown["class"], shown["pool"], shown["exclusive"]) == ("dedicated", "share", False)
    assert shown["waits_for"] == "2 CPUs of its own"


def test_a_degraded_container_shows_its_limit():
    other = replace(APP, container=replace(APP.container, id="other"))
    said = state_view.state_json(
        node(APP, other),
        observe=False,
        found=ReadBack({}, {}, (), ()),
        waits_for={},
        lending=LENDING,
        throttled={},
        degraded={"9c1b": {"quota": "3.25 cores"}},
    )
    shown = {one["id"]: one.get("degraded") for one in said["containers"]}
    assert shown == {"9c1b": {"quota": "3.25 cores"}, "other": None}


def test_a_throttled_pods_containers_show_their_limit():
    (container,) = state_json(node(APP), throttled={"s1": {"io.max": "1.0 MiB/s"}})["containers"]
    assert container["throttled"] == {"io.max": "1.0 MiB/s"}
    assert "throttled" not in state_json(node(APP))["containers"][0]


def test_facts_stand_with_their_containers():
    lent = ContainerFacts("app", Kind.MAIN, 0, 0, Lent(500, GIB))
    told = Facts(
        uid="u1",
        namespace="shop",
        name="web",
        owner=Owner("Job", "render", "j1"),
        priority=9,
        cpu_milli=1500,
        memory_bytes=2 * GIB,
        containers=(lent,),
    )
    state = node(APP, pods=(Pod("s1", "u1", "web", "shop"),))
    (row,) = state_json(replace(state, facts=PodFacts({"u1": told})))["containers"]
    assert row["facts"] == {
        "cpu_request_milli": 1500,
        "memory_request_bytes": 2 * GIB,
        "priority": 9,
        "lent_cpu_milli": 500,
        "lent_memory_bytes": GIB,
        "owner": "Job/render",
    }
