"""A target has only cgroups that belong to one pod or container, and only files that exist."""

from dataclasses import replace

import pytest

from nri_coloc.core.decisions import ContainerCreating, PodStarted
from nri_coloc.core.knobs import Capability, Knobs
from nri_coloc.core.settings import ReclaimTuning, Tuning
from nri_coloc.core.workload import Numa, Pod, QoSClass, Resources, Wish
from nri_coloc.host.write_back import Apart
from nri_coloc.repair import targets
from tests.unit.parts import a_node, create, start_pod
from tests.unit.placing import kit

CAN = kit.EVERYTHING


def test_a_shared_container_has_its_pools_cpus():
    node = a_node()
    create(node, "app")
    create(node, "owner", kit.DEDICATED, 2000, on="db")
    target = targets.of_container(node.state, "app", CAN)
    assert target is not None
    assert (target.path, target.cpus, target.journalled) == ("kubepods/podweb/app", kit.mask("2-7"), False)


def test_values_without_a_push_are_always_files():
    node = a_node()
    create(
        node,
        "app",
        Wish(QoSClass.SHARED, knobs=Knobs(shares=4096, memory_limit=1 << 20, memory_high=1 << 19)),
    )
    bound = Wish(QoSClass.DEDICATED, numa=Numa.SINGLE)
    create(node, "owner", bound, 2000, on="db")
    app, owner = (targets.of_container(node.state, name, CAN) for name in ("app", "owner"))
    assert app is not None
    assert owner is not None
    assert [(value.name, value.text) for value in app.values] == [("memory.high", str(1 << 19))]
    assert [(value.name, value.text) for value in owner.values] == [("cpuset.mems", "0")]
    assert not app.journalled


def test_a_later_sidecar_is_not_bound_by_file():
    node = a_node()
    create(node, "side", kit.DEDICATED, 100)
    create(node, "main", Wish(QoSClass.DEDICATED, numa=Numa.SINGLE), 2000)
    side = targets.of_container(node.state, "side", CAN)
    assert side is not None
    assert node.state.mems_of(node.state.containers["side"]) == 1
    assert side.values == ()


def test_a_reclaimed_container_inherits_and_its_pod_is_limited():
    node = a_node()
    start_pod(node, "batch")
    create(node, "job", kit.RECLAIMED, 0, on="batch")
    container, pod = targets.of_container(node.state, "job", CAN), targets.of_pod(node.state, "batch", CAN)
    assert container is not None
    assert container.cpus == 0
    assert pod is not None
    assert (pod.path, pod.cpus, pod.journalled) == ("kubepods/podbatch", kit.mask("0-7"), True)
    assert ("cpu.weight", "1") in [(value.name, value.text) for value in pod.values]


def test_ordered_cpus_stay_when_their_pod_leaves():
    node = a_node()
    start_pod(node, "batch")
    create(node, "job", kit.RECLAIMED, 0, on="batch")
    assert list(targets.apart(node.state, "batch")) == []
    create(node, "agent", on="batch")
    assert list(targets.apart(node.state, "batch")) == [
        Apart("kubepods/podbatch/job", ordered=True),
        Apart("kubepods/podbatch/agent", ordered=True),
    ]
    own = Wish(QoSClass.RECLAIMED, preserve=frozenset({"cpu"}))
    for name, cpus in (("pinned", "4-5"), ("free", "")):
        container = kit.container(
            name, "night", resources=Resources(cpus=cpus), cgroups_path=f"/kubepods/podnight/{name}"
        )
        node.decide(ContainerCreating(kit.pod("night"), container, own))
    assert list(targets.apart(node.state, "night")) == [Apart("kubepods/podnight/pinned", ordered=False)]


@pytest.mark.parametrize("handler", ["pod", "ignore"])
def test_containers_of_other_handlers_are_not_written(handler):
    node = a_node()
    create(node, "app", Wish(QoSClass.SHARED, handler=handler))
    assert targets.of_container(node.state, "app", CAN) is None


def test_a_vms_containers_live_in_their_pods_cgroup():
    node = a_node()
    create(node, "app", replace(kit.SHARED, handler="pod"))
    create(node, "plain", on="other")
    app, plain = (node.state.containers[name] for name in ("app", "plain"))
    assert targets.lives_in(node.state, app) == "kubepods/podweb"
    assert targets.lives_in(node.state, plain) == "kubepods/podother/plain"
    assert [targets.holds_a_vm(node.state, name) for name in ("web", "other", "none")] == [True, False, False]


def test_who_is_unknown_has_no_target():
    state = a_node().state
    assert targets.of_container(state, "x", CAN) is None
    assert targets.of_pod(state, "x", CAN) is None


@pytest.mark.parametrize("path", ["", "/", "..", "/a/../../b", "a\0b", "x" * 5000])
def test_a_path_that_is_none_has_no_target(path):
    node = a_node()
    container = kit.container("app", cgroups_path=path)
    node.decide(ContainerCreating(kit.pod(), container, kit.SHARED))
    assert targets.of_container(node.state, "app", CAN) is None


@pytest.mark.parametrize(
    ("parent", "path"),
    [
        ("/kubepods/besteffort/pod1", "kubepods/besteffort/pod1"),
        (
            "kubepods-besteffort-pod1.slice",
            "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod1.slice",
        ),
        ("/kubepods/besteffort", None),
        ("kubepods-besteffort.slice", None),
        ("/system.slice", None),
        ("/kubepods", None),
        ("", None),
        ("/", None),
        ("/kubepods/../podx", None),
    ],
)
def test_only_a_pods_own_cgroup_is_its_target(parent, path):
    node = a_node()
    node.decide(PodStarted(Pod("batch", cgroup_parent=parent), kit.RECLAIMED))
    target = targets.of_pod(node.state, "batch", CAN)
    assert (target and target.path) == path
    assert node.state.boxed("batch") is bool("pod" in parent.rpartition("/")[2].replace("kubepods", ""))


PAGE = 4096


def protecting(low: int, minimum: int) -> Wish:
    return Wish(QoSClass.SHARED, knobs=Knobs(memory_low=low, memory_min=minimum))


def test_protections_are_summed_along_each_path_outermost_first():
    node = a_node()
    create(node, "a", protecting(1 * PAGE, 2 * PAGE), on="x", limited=True)
    create(node, "b", protecting(10 * PAGE, 20 * PAGE), on="x", limited=True)
    create(node, "c", protecting(100 * PAGE, 200 * PAGE), on="y", limited=True)
    sums = targets.protections(node.state, CAN, 0)
    assert [(path, found.low // PAGE, found.min // PAGE) for path, found in sums.items()] == [
        ("kubepods", 111, 222),
        ("kubepods/podx", 11, 22),
        ("kubepods/pody", 100, 200),
    ]


def test_a_sum_is_what_the_kernel_will_show_of_it():
    node = a_node()
    create(node, "a", protecting(100_000_000, 3 * PAGE // 2), on="x", limited=True)
    create(node, "b", protecting(0, 3 * PAGE // 2), on="x", limited=True)
    found = targets.protections(node.state, CAN, 0)["kubepods"]
    assert (found.low, found.min) == (100_000_000 // PAGE * PAGE, 3 * PAGE)


def test_without_the_files_there_are_no_protections():
    node = a_node()
    create(node, "a", protecting(1, 2), limited=True)
    assert targets.protections(node.state, Capability(2, frozenset()), 0) == {}


def lending_to(*paths: str, enabled: bool = True) -> Tuning:
    return Tuning(reclaim=ReclaimTuning(enabled=enabled, host_groups=paths))


def test_a_host_group_has_the_boxs_cpus_and_the_smallest_weight():
    node = a_node()
    target = targets.of_host_group(node.state, "yarn", CAN)
    assert (target.path, target.cpus, target.journalled) == ("yarn", node.state.pools.reclaim, True)
    assert [(value.name, value.text) for value in target.values] == [("cpu.weight", "1")]


def test_a_cgroup_in_which_others_live_is_no_host_group():
    node = a_node()
    node.decide(PodStarted(Pod("x", cgroup_parent="/apps/podx"), kit.SHARED))
    container = kit.container("y", cgroups_path="/services/y")
    node.decide(ContainerCreating(kit.pod("web"), container, kit.SHARED))
    tuning = lending_to("yarn", "apps", "services", "services/y", "app", "apps/podx/deeper")
    assert targets.host_groups(node.state, tuning) == ("yarn", "app", "apps/podx/deeper")


def test_offline_pods_may_live_in_a_host_group():
    node = a_node()
    node.decide(PodStarted(Pod("x", cgroup_parent="/apps/podx"), kit.RECLAIMED))
    assert targets.host_groups(node.state, lending_to("apps")) == ("apps",)


def test_while_nothing_is_lent_there_are_no_host_groups():
    assert targets.host_groups(a_node().state, lending_to("yarn", enabled=False)) == ()
