"""Facts about a pod are complete, bounded, and never from a text that its author may write freely."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_coloc.core.pod_facts import NO_LENT, ContainerFacts, Facts, Kind, Lent, Owner, PodFacts
from nri_coloc.core.workload import Pod
from nri_coloc.kubernetes import facts
from tests.unit.kubernetes.kit import BATCH_CPU, BATCH_MEMORY, GIB, KOORDINATOR, container, pod


def read(found: dict[str, Any]) -> Facts:
    return facts.read(found, KOORDINATOR).facts


def test_native_requests_are_the_pods_effective_ones():
    found = read(pod(container(cpu="1", memory="1Gi"), overhead={"cpu": "250m", "memory": "1"}))
    assert (found.cpu_milli, found.memory_bytes) == (1250, GIB + 1)


def test_each_container_has_its_own_requests():
    sidecar, init = container("s", sidecar=True, cpu="2"), container("i", memory="3")
    assert read(pod(container("m", cpu="1"), initContainers=[sidecar, init])).containers == (
        ContainerFacts("m", Kind.MAIN, 1000, 0, Lent()),
        ContainerFacts("s", Kind.SIDECAR, 2000, 0, Lent()),
        ContainerFacts("i", Kind.INIT, 0, 3, Lent()),
    )


def test_lent_amounts_are_those_of_the_spec():
    found = container(batch_cpu="2k", batch_memory="1Gi")
    found["resources"]["limits"] = {BATCH_CPU: "4k", BATCH_MEMORY: "2Gi"}
    assert read(pod(found)).containers[0].lent == Lent(2000, GIB, 4000, 2 * GIB)


def test_an_annotation_lends_nothing():
    found = pod(container())
    found["metadata"]["annotations"] = {"coloc.nri.io/lent": '{"main": {"cpu": "64"}}'}
    assert read(found).containers[0].lent == Lent()


def test_the_controller_is_the_owner():
    found = pod(container())
    found["metadata"]["ownerReferences"] = [
        {"kind": "Node", "name": "n1", "uid": "a"},
        {"kind": "Job", "name": "render", "uid": "b", "controller": True},
    ]
    assert read(found).owner == Owner("Job", "render", "b")


def test_a_pod_without_a_controller_has_no_owner():
    assert read(pod(container())).owner == Owner()


@pytest.mark.parametrize("kind", ["k" * 64, "Dae\u200bmon", "a\nb", ""])
def test_a_forged_owner_costs_no_other_fact(kind):
    found = pod(container())
    found["metadata"]["ownerReferences"] = [{"kind": kind, "name": "a\u202e", "uid": "b", "controller": True}]
    assert read(found) == read(pod(container()))


def test_a_deletion_is_read_with_its_grace():
    found = pod(container())
    found["metadata"] |= {"deletionTimestamp": "2026-11-26T10:00:30Z", "deletionGracePeriodSeconds": 30}
    told = facts.read(found, KOORDINATOR)
    assert (told.deleting_at, told.grace_s) == ("2026-11-26T10:00:30Z", 30)


@pytest.mark.parametrize("priority", [-(2**31), 0, 9000, 2**31 - 1])
def test_a_priority_is_any_int32(priority):
    assert read(pod(container(), priority=priority)).priority == priority


# --- hostile input --------------------------------------------------------------------------------------


def changed(path: str, value: Any) -> dict[str, Any]:
    found = pod(container())
    parent: Any = found
    *parents, last = path.split(".")
    for key in parents:
        parent = parent[int(key)] if key.isdigit() else parent[key]
    parent[last] = value
    return found


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.uid", ""),
        ("metadata.uid", "u" * 65),
        ("metadata.namespace", "n" * 64),
        ("metadata.name", "n" * 254),
        ("metadata.name", 7),
        ("metadata.name", "a\ud800"),
        ("metadata.namespace", "a\nb"),
        ("metadata.ownerReferences", {}),
        ("metadata.deletionTimestamp", "9" * 65),
        ("metadata.deletionGracePeriodSeconds", -1),
        ("spec.priority", 2**31),
        ("spec.priority", True),
        ("spec.priority", "9"),
        ("spec.containers", "abc"),
        ("spec.containers.0.resources", []),
        ("spec.containers.0.resources.requests", {"memory": "9" * 41}),
    ],
)
def test_a_broken_bound_leaves_a_pod_without_facts(path, value):
    with pytest.raises(ValueError):
        read(changed(path, value))


def confirmed(found: dict[str, Any]) -> Lent | None:
    told = read(found)
    return PodFacts({told.uid: told}).lent(Pod("p", told.uid, told.name, told.namespace), "main")


def test_many_init_containers_confirm_no_loan():
    few = [container(f"i{at}") for at in range(facts.MOST_CONTAINERS - 1)]
    lends = container(batch_memory="1Gi")
    assert confirmed(pod(lends, initContainers=few)) == Lent(memory_bytes=GIB)
    assert confirmed(pod(lends, initContainers=[*few, container("one-more")])) == NO_LENT


@pytest.mark.parametrize("amount", ["-1", "12E", "1e30"])
def test_an_unreadable_lent_amount_confirms_no_loan(amount):
    lends = container(batch_memory="1Gi")
    lends["resources"]["limits"] = {BATCH_CPU: amount}
    assert confirmed(pod(lends)) == NO_LENT


def test_too_many_containers_cost_no_priority():
    many = [container(f"c{at}") for at in range(facts.MOST_CONTAINERS + 1)]
    assert read(pod(*many, priority=-5)).priority == -5


def test_an_unprintable_container_confirms_no_loan():
    assert read(pod(container("a\ud800"))).containers == ()


def test_two_containers_of_one_name_confirm_no_loan():
    assert read(pod(container("a"), initContainers=[container("a")])).containers == ()


def test_an_error_never_repeats_a_long_text():
    with pytest.raises(ValueError) as caught:
        read(changed("metadata.name", "n" * 1_000_000))
    assert len(str(caught.value)) < 200


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "requests"]), inner),
    max_leaves=8,
)
PATHS = st.sampled_from(
    [
        "metadata",
        "spec",
        "status",
        "metadata.uid",
        "spec.containers",
        "spec.overhead",
        "spec.containers.0.resources",
    ]
)


@given(PATHS, JSON)
def test_any_object_is_read_or_refused(path, value):
    said = ""
    try:
        read(changed(path, value))
    except ValueError as refused:
        said = str(refused)
    assert len(said) < 200
