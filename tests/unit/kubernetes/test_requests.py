"""Effective requests of pods are those that the scheduler and the kubelet count."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_coloc.kubernetes import requests
from nri_coloc.kubernetes.presets import Amounts
from nri_coloc.kubernetes.requests import CPU, MEMORY, Demand, Floor, Size
from nri_coloc.pods import quantity
from tests.unit.kubernetes.kit import BATCH_CPU, KOORDINATOR, container, pod


@dataclass(frozen=True)
class Case:
    """milli-CPU: `main` of each container; `init`: init containers, a sidecar's begins with +."""

    name: str
    expected: int
    main: tuple[str, ...] = ()
    init: tuple[str, ...] = ()
    spec: dict[str, Any] = field(default_factory=dict)


CASES = [
    Case("no containers", 0),
    Case("the sum of containers", 1500, main=("1", "500m")),
    Case("the largest init container", 3000, main=("1",), init=("3", "2")),
    Case("init containers run one by one", 1000, main=("1",), init=("1", "1")),
    Case("a sidecar runs beside containers", 3000, main=("1",), init=("+2",)),
    Case("a sidecar runs beside later init containers", 5000, main=("1",), init=("+2", "3")),
    Case("a sidecar does not run beside earlier ones", 3000, main=("1",), init=("3", "+2")),
    Case("sidecars add up", 6000, init=("+1", "+2", "3")),
    Case("overhead is added", 1250, main=("1",), spec={"overhead": {"cpu": "250m"}}),
    Case(
        "the pod's own request replaces the sum",
        4000,
        ("1",),
        ("+9",),
        {"resources": {"requests": {"cpu": 4}}},
    ),
    Case(
        "another resource of the pod does not", 1000, ("1",), (), {"resources": {"requests": {"memory": "1"}}}
    ),
    Case("limits of the pod are no request", 1000, ("1",), (), {"resources": {"limits": {"cpu": "8"}}}),
    Case(
        "ephemeral containers request nothing",
        1000,
        ("1",),
        (),
        {"ephemeralContainers": [container(cpu="9")]},
    ),
    Case("fractions are rounded up", 2, main=("1u", "1n")),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_effective_request_is_kubernetes_own(case):
    main = [container(f"m{at}", cpu=text) for at, text in enumerate(case.main)]
    init = [
        container(f"i{at}", sidecar=text.startswith("+"), cpu=text.lstrip("+"))
        for at, text in enumerate(case.init)
    ]
    assert requests.effective(pod(*main, initContainers=init, **case.spec), CPU) == case.expected


def test_lent_cpu_is_counted_in_whole_units():
    assert requests.effective(pod(container(batch_cpu="2k"), container(batch_cpu="500m")), BATCH_CPU) == 2001


def test_a_pods_own_request_replaces_no_lent_amount():
    own = {"requests": {BATCH_CPU: "9"}}
    assert requests.effective(pod(container(batch_cpu="1"), resources=own), BATCH_CPU) == 1


# --- in-place resize ------------------------------------------------------------------------------------


def resized(spec: str, allocated: str, actual: str, **status: Any) -> dict[str, Any]:
    state = {
        "name": "main",
        "allocatedResources": {"memory": allocated},
        "resources": {"requests": {"memory": actual}},
    }
    found = pod(container(memory=spec))
    found["status"] |= {"containerStatuses": [state], **status}
    return found


INFEASIBLE = {"conditions": [{"type": "PodResizePending", "reason": "Infeasible"}]}
DEFERRED = {"conditions": [{"type": "PodResizePending", "reason": "Deferred"}]}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (resized("3", "1", "1"), 3),
        (resized("1", "3", "1"), 3),
        (resized("1", "1", "3"), 3),
        (resized("3", "1", "2", **INFEASIBLE), 2),
        (resized("3", "1", "1", **DEFERRED), 3),
    ],
    ids=["spec", "allocated", "actual", "infeasible", "deferred"],
)
def test_the_largest_side_of_a_resize_counts(found, expected):
    assert requests.effective(found, MEMORY) == expected


def test_the_status_of_an_init_container_counts_nothing():
    found = resized("1", "9", "9")
    found["spec"] |= {"containers": [], "initContainers": [container(memory="1")]}
    assert requests.effective(found, MEMORY) == 1


# --- which pods count -----------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_demands_nothing(phase):
    assert requests.demand(pod(container(batch_cpu="1"), phase=phase), KOORDINATOR) is None


def test_a_pod_without_a_node_demands_nothing():
    assert requests.demand(pod(container(batch_cpu="1"), node=""), KOORDINATOR) is None


@pytest.mark.parametrize("phase", ["Pending", "Running", "Unknown", ""])
def test_a_terminating_pod_counts(phase):
    found = pod(container(batch_cpu="5", batch_memory="7", gate="1"), phase=phase)
    found["metadata"]["deletionTimestamp"] = "2026-11-26T10:00:00Z"
    assert requests.demand(found, KOORDINATOR) == Demand(Amounts(5, 7), 1, is_admitted=True)


def test_a_pod_without_start_time_is_not_admitted():
    found = pod(container(batch_cpu="5"), phase="Pending")
    del found["status"]["startTime"]
    assert requests.demand(found, KOORDINATOR) == Demand(Amounts(5, 0))


def test_an_online_pod_demands_no_lent_amount():
    assert requests.demand(pod(container(cpu="2")), KOORDINATOR) == Demand(is_admitted=True)


@pytest.mark.parametrize("amount", ["12E", "8Ei", "1e99"])
def test_an_overflow_counts_as_the_largest_amount(amount):
    assert requests.demand(pod(container(batch_cpu=amount)), KOORDINATOR) == Demand(
        Amounts(quantity.LARGEST, 0), is_admitted=True
    )


@pytest.mark.parametrize("amount", ["", "-1", "9" * 500, [], {}, 1.5, True], ids=lambda v: str(v)[:8])
def test_an_unreadable_request_is_counted_as_unreadable(amount):
    assert requests.demand(pod(container(batch_cpu=amount)), KOORDINATOR) == Demand(is_readable=False)


@pytest.mark.parametrize(
    "found",
    [
        {"spec": []},
        {"spec": {"nodeName": 3}},
        {"spec": {"nodeName": "n1", "containers": {}}},
        {"spec": {"nodeName": "n1", "containers": [None]}},
        {"spec": {"nodeName": "n1"}, "status": {"conditions": "x"}},
    ],
    ids=repr,
)
def test_another_shape_of_pod_is_counted_as_unreadable(found):
    assert requests.demand(found, KOORDINATOR) == Demand(is_readable=False)


def test_the_floor_keeps_admitted_pods_apart():
    demands = [
        Demand(Amounts(1, 10), 1, is_admitted=True),
        Demand(Amounts(2, 20), 1),
        Demand(is_readable=False),
    ]
    found = requests.floor(demands)
    most = Demand(Amounts(2, 20), 1)
    assert found == Floor(
        Amounts(1, 10), Amounts(3, 30), gate=2, unreadable=1, demands=tuple(demands), most=most
    )


SMALL = Demand(Amounts(1000, 1 << 30), 1, is_admitted=True)
NODE = Size(Amounts(8000, 8 << 30), max_pods=110)


@pytest.mark.parametrize(
    "large",
    [Demand(Amounts(quantity.LARGEST, 0)), Demand(Amounts(0, 9 << 30)), Demand(gate=111)],
    ids=["cpu", "memory", "gate"],
)
@pytest.mark.parametrize("is_admitted", [True, False])
def test_a_pod_above_the_node_is_left_out(large, is_admitted):
    found = requests.floor([SMALL, large._replace(is_admitted=is_admitted)])
    assert requests.carried(found, NODE, None) == requests.floor([SMALL])


@pytest.mark.parametrize(("is_admitted", "expected"), [(True, 5000), (False, 1000)])
def test_a_pending_pod_counts_within_the_report(is_admitted, expected):
    found = requests.floor([SMALL, Demand(Amounts(4000, 0), is_admitted=is_admitted)])
    assert requests.carried(found, NODE, Amounts(3000, 8 << 30)).bound.cpu_milli == expected


def test_left_out_pods_are_counted():
    demands = [SMALL, Demand(Amounts(quantity.LARGEST, 0)), Demand(is_readable=False)]
    assert requests.left_out(requests.floor(demands), NODE) == 2


def test_a_sum_stays_within_int64():
    most = 2**63 - 1
    assert requests.floor([Demand(Amounts(most, most), most)] * 2).bound == Amounts(most, most)


# --- properties -----------------------------------------------------------------------------------------

INITS = st.lists(st.tuples(st.booleans(), st.integers(0, 9)), max_size=6)


@given(st.lists(st.integers(0, 9), max_size=4), INITS)
def test_every_moment_of_a_start_is_covered(main, inits):
    found = pod(
        *(container(f"m{at}", memory=str(each)) for at, each in enumerate(main)),
        initContainers=[
            container(f"i{at}", sidecar=is_sidecar, memory=str(each))
            for at, (is_sidecar, each) in enumerate(inits)
        ],
    )
    sidecars, moments = 0, []
    for is_sidecar, each in inits:
        moments.append(sidecars + each)
        sidecars += each if is_sidecar else 0
    moments.append(sidecars + sum(main))
    assert requests.effective(found, MEMORY) == max(moments)


KEYS = st.sampled_from(
    [
        "spec",
        "status",
        "containers",
        "initContainers",
        "resources",
        "requests",
        "name",
        "phase",
        "nodeName",
        BATCH_CPU,
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(KEYS, JSON, max_size=6))
def test_no_object_raises_out_of_demand(found):
    demand = requests.demand(found, KOORDINATOR)
    assert demand is None or demand.amounts >= Amounts()
