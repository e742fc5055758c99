"""The memory request of a container and of a pod is certain, or unknown."""

from dataclasses import replace

import pytest

from nri_coloc.core import workload
from nri_coloc.core.workload import Container, Pod, Resources

BURSTABLE = Pod("p", namespace="shop", cgroup_parent="/kubepods/burstable/pod1")
GUARANTEED = Pod("p", namespace="shop", cgroup_parent="/kubepods/pod1")
BEST_EFFORT = Pod("p", namespace="shop", cgroup_parent="/kubepods/besteffort/pod1")
UNKNOWN = Pod("p", namespace="shop", cgroup_parent="/elsewhere")
GIB = 1 << 30


def container(score: int | None = None, limit: int | None = None, name: str = "c") -> Container:
    return Container(name, "p", name, oom_score_adj=score, resources=Resources(memory_limit=limit))


@pytest.mark.parametrize(
    ("limit", "expected"),
    [(None, 0), (0, 0), (-1, 0), (GIB, GIB), (9223372036854771712, 0)],
    ids=["absent", "keep", "unlimited", "set", "unlimited on v1"],
)
def test_a_memory_limit_is_known_or_not(limit, expected):
    assert workload.known_memory_limit(container(limit=limit)) == expected


@pytest.mark.parametrize(
    ("pod", "score", "limit", "expected"),
    [
        (GUARANTEED, -997, GIB, GIB),
        (GUARANTEED, -997, None, 0),
        (BURSTABLE, 500, None, 32 * GIB),
        (BURSTABLE, 998, None, 64 * GIB * 2 // 1000),
        (BURSTABLE, 3, None, 64 * GIB * 997 // 1000),
        (BURSTABLE, 500, 32 * GIB, 32 * GIB),
        (BURSTABLE, 500, 48 * GIB, 32 * GIB),
        (BURSTABLE, 500, 32 * GIB - 1, 0),
        (BURSTABLE, 999, GIB, 0),
        (BURSTABLE, 2, GIB, 0),
        (BURSTABLE, -997, GIB, 0),
        (BURSTABLE, None, GIB, 0),
        (BEST_EFFORT, 500, GIB, 0),
        (UNKNOWN, 500, GIB, 0),
    ],
    ids=[
        "guaranteed has its limit",
        "guaranteed without one",
        "half the machine",
        "smallest certain",
        "largest certain",
        "as much as its limit",
        "resized to a higher limit",
        "resized to a limit below it",
        "raised by the kubelet",
        "below the kubelet's range",
        "critical pod",
        "not told",
        "best effort",
        "not kubernetes",
    ],
)
def test_a_request_is_certain_or_nothing(pod, score, limit, expected):
    assert workload.certain_memory(pod, container(score, limit), 64 * GIB) == expected


def test_a_limit_that_was_lower_keeps_a_request_uncertain():
    lowered = replace(container(500, 48 * GIB), lowest_limit=GIB)
    assert workload.certain_memory(BURSTABLE, lowered, 64 * GIB) == 0
    assert workload.certain_memory(GUARANTEED, replace(lowered, oom_score_adj=-997), 64 * GIB) == 48 * GIB


@pytest.mark.parametrize(
    ("pod", "score", "certain", "expected"),
    [
        (GUARANTEED, -997, None, 48 * GIB),
        (GUARANTEED, -997, 2 * GIB, 2 * GIB),
        (GUARANTEED, -997, 0, 0),
        (BURSTABLE, 500, 32 * GIB, 32 * GIB),
        (BURSTABLE, 500, 2 * GIB, 0),
        (BURSTABLE, 500, 0, 0),
    ],
    ids=["known", "in part", "unknown", "as the score", "below the score", "unknown beside a score"],
)
def test_an_inferred_limit_proves_its_certain_part(pod, score, certain, expected):
    inferred = replace(container(score, 48 * GIB), certain_limit=certain)
    assert workload.certain_memory(pod, inferred, 64 * GIB) == expected


@pytest.mark.parametrize(
    ("request_of_pod", "certain", "expected"),
    [
        (2 * GIB, 0, 2 * GIB),
        (64 * GIB, GIB, 48 * GIB),
        (48 * GIB - 4095, 0, 48 * GIB),
        (2 * GIB, None, 48 * GIB),
    ],
    ids=["smaller", "larger", "rounded by the kernel", "beside a known limit"],
)
def test_the_pods_own_request_proves_an_inferred_limit(request_of_pod, certain, expected):
    inferred = replace(container(-997, 48 * GIB), certain_limit=certain)
    pod = replace(GUARANTEED, memory_request=request_of_pod)
    assert workload.certain_memory(pod, inferred, 64 * GIB) == expected


def test_a_guaranteed_request_is_that_of_the_last_resize():
    grown, shrunk = container(-997, 2 * GIB), container(-997, GIB // 2)
    assert [workload.certain_memory(GUARANTEED, one, 64 * GIB) for one in (grown, shrunk)] == [
        2 * GIB,
        GIB // 2,
    ]


def test_an_unknown_machine_makes_no_request_certain():
    assert workload.certain_memory(BURSTABLE, container(500), -1) == 0


def test_a_pod_that_carries_our_record_hides_its_request():
    of = replace(BURSTABLE, claims_record=True)
    assert workload.certain_memory(of, container(500), 64 * GIB) == 0


class TestPods:
    def of(self, pod: Pod, *containers: Container) -> int:
        return workload.certain_memory_of_pod(pod, containers, 32 * GIB)

    def test_sidecars_that_inherit_a_score_add_nothing(self):
        sidecars = [container(900, name=f"sidecar-{n}") for n in range(20)]
        assert self.of(BURSTABLE, container(900, name="main"), *sidecars) == 32 * GIB // 10

    def test_the_largest_request_counts(self):
        assert self.of(BURSTABLE, container(950, name="a"), container(750, name="b")) == 8 * GIB

    def test_guaranteed_limits_add_up(self):
        assert self.of(GUARANTEED, container(-997, GIB, "a"), container(-997, GIB, "b")) == 2 * GIB

    def test_a_retried_container_counts_once(self):
        first, second = container(-997, GIB, "a"), replace(container(-997, GIB, "a"), id="again")
        assert self.of(GUARANTEED, first, second) == GIB

    def test_the_pods_own_limit_in_each_container_counts_once(self):
        pod = replace(GUARANTEED, resources=Resources(memory_limit=2 * GIB))
        assert self.of(pod, *(container(-997, 2 * GIB, name) for name in "abc")) == 2 * GIB

    def test_a_limit_that_was_raised_since_counts(self):
        pod = replace(GUARANTEED, resources=Resources(memory_limit=GIB))
        assert self.of(pod, container(-997, 3 * GIB)) == 3 * GIB

    def test_limits_count_up_to_the_pods_own_request(self):
        pod = replace(GUARANTEED, memory_request=3 * GIB, resources=Resources(memory_limit=4 * GIB))
        assert self.of(pod, *(container(-997, 2 * GIB, name) for name in "abc")) == 3 * GIB

    @pytest.mark.parametrize("pod", [BEST_EFFORT, UNKNOWN], ids=["best effort", "not kubernetes"])
    def test_others_have_none(self, pod: Pod):
        assert self.of(pod, container(500, GIB)) == 0

    def test_an_empty_pod_has_none(self):
        assert self.of(GUARANTEED) == 0
