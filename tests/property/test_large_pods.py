"""A pod may have any number of containers: a decision on all of them costs in proportion to their number."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from nri_coloc._pb import nri_pb2
from nri_coloc.core.settings import PoolTuning, Selector, Tuning
from nri_coloc.hooks.pod_requests import PodRequests
from nri_coloc.nri.calls import HookKind
from tests.property.tenancy import Kubelet, Tenancy, hook_of
from tests.property.tenants import ContainerSpec, Figures, TenantPod
from tests.rig import told
from tests.unit.parts import a_translator

NO_WORDS: Mapping[str, str] = {}
WITH_A_POOL = Tuning(
    pools=(PoolTuning("gold", members=(Selector(label=("tier", "gold")),), minimum=1, maximum=4),)
)


def calls_of(action: Callable[[], Any]) -> int:
    """Return how many Python functions an action calls. The time says how busy the machine is."""
    counted = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal counted
        counted += event == "call"

    sys.setprofile(count)
    try:
        action()
    finally:
        sys.setprofile(None)
    return counted


def run_pod(number: int, tuning: Tuning, words: Mapping[str, str] = NO_WORDS) -> Tenancy:
    """Return a node with a pod of many containers, of class dedicated when the pod requests a CPU."""
    specs = tuple(ContainerSpec(f"c{each}", Figures(900 // number)) for each in range(number))
    asking = {"coloc.nri.io/qos-class": "dedicated", **words}
    node = Tenancy(tuning, Kubelet(1))
    node.run(TenantPod(specs, annotations=asking, labels={"tier": "gold"}))
    return node


def resize_of_a_pod(number: int, tuning: Tuning) -> int:
    """Return the calls of a resize that gives all of a pod's containers class dedicated."""
    node = run_pod(number, tuning)
    message, wanted = node.pods["tenant"], nri_pb2.Container()
    node.kubelet.write(message.linux.cgroup_parent, 3000)
    wanted.linux.resources.cpu.shares.value = 2048
    hook = hook_of(HookKind.UPDATE_CONTAINER, message, node.containers["tenant-c0"])
    event = node.updating(hook._replace(resources=told.resources(wanted.linux.resources)))
    assert len(event.judged) == number
    return calls_of(lambda: node.node.decide(event))


def test_a_resize_costs_in_proportion_to_the_containers():
    assert resize_of_a_pod(320, Tuning()) < 6 * resize_of_a_pod(80, Tuning())


def test_a_resize_costs_in_proportion_beside_an_operators_pool():
    assert resize_of_a_pod(160, WITH_A_POOL) < 6 * resize_of_a_pod(40, WITH_A_POOL)


def new_settings_beside_an_unknown_request(number: int, *, is_listed: bool) -> int:
    """Return the calls of reading the wishes again beside a pod whose CPU request is unknown."""
    node = run_pod(number, Tuning())
    state = node.node.state
    (place,) = state.pods.values()
    unknown = replace(place, pod=replace(place.pod, cpu_request=None))
    state = replace(state, pods={place.pod.id: unknown} if is_listed else {})
    translator = a_translator(Tuning(), PodRequests(node.kubelet, node.kubelet.version))
    return calls_of(lambda: translator.wishes_again(state, Tuning()))


@pytest.mark.parametrize("is_listed", [True, False])
def test_new_settings_cost_in_proportion_beside_an_unknown_request(is_listed):
    small, large = (
        new_settings_beside_an_unknown_request(number, is_listed=is_listed) for number in (40, 160)
    )
    assert large < 6 * small


def test_a_restart_costs_in_proportion_beside_an_operators_pool():
    small, large = (run_pod(number, WITH_A_POOL) for number in (40, 160))
    assert calls_of(large.start_daemon) < 6 * calls_of(small.start_daemon)


def restart_beside_annotations(number: int) -> int:
    """Return the calls of a restart beside a pod with three annotations for each of its containers."""
    keys = {"numa": "none", "priority": "1", "cpu-burst": "0"}
    words = {f"coloc.nri.io/{key}.c{each}": word for each in range(number) for key, word in keys.items()}
    return calls_of(run_pod(number, Tuning(), words).start_daemon)


def test_annotations_of_containers_are_sorted_once():
    assert restart_beside_annotations(160) < 6 * restart_beside_annotations(40)
