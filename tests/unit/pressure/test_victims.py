"""pressure.victims: the order in which reclaimed pods go, as a table."""

import pytest

from nri_coloc.core.workload import KubeQoS
from nri_coloc.pressure.victims import Candidate, choose

GIB = float(1 << 30)
BURSTABLE, BEST_EFFORT = KubeQoS.BURSTABLE, KubeQoS.BEST_EFFORT

ORDER: dict[str, tuple[float, dict[str, Candidate], tuple[str, ...]]] = {
    "a lower priority goes first": (
        1 * GIB,
        {"worker": Candidate(1 * GIB, priority=0), "ps": Candidate(4 * GIB, priority=9)},
        ("worker",),
    ),
    "no annotation beats a PriorityClass": (
        1 * GIB,
        {
            "loud": Candidate(1 * GIB, priority=2**31),
            "classed": Candidate(1 * GIB, kube_priority=1000, priority=-5),
        },
        ("loud",),
    ),
    "no annotation sends another tenant's pod": (
        1 * GIB,
        {
            "hog": Candidate(4 * GIB, priority=2**31, namespace="a"),
            "decoy": Candidate(0.1 * GIB, namespace="a"),
            "other": Candidate(0.9 * GIB, namespace="b"),
        },
        ("hog",),
    ),
    "a tenant's own order holds among its pods": (
        1 * GIB,
        {
            "ps": Candidate(4 * GIB, priority=9, arrival=2, namespace="a"),
            "worker": Candidate(1 * GIB, namespace="a"),
            "other": Candidate(1 * GIB, namespace="b"),
        },
        ("worker",),
    ),
    "BestEffort goes before Burstable": (
        1 * GIB,
        {"bound": Candidate(2 * GIB, kube_qos=BURSTABLE), "free": Candidate(2 * GIB, kube_qos=BEST_EFFORT)},
        ("free",),
    ),
    "a pod above its lent amount goes first": (
        1 * GIB,
        {"within": Candidate(4 * GIB, lent=4 * GIB), "above": Candidate(2 * GIB, lent=1 * GIB)},
        ("above",),
    ),
    "one large pod goes, not four small ones": (
        4 * GIB,
        {"large": Candidate(4 * GIB), **{f"small-{n}": Candidate(1 * GIB) for n in range(4)}},
        ("large",),
    ),
    "the youngest of equals goes": (
        1 * GIB,
        {"old": Candidate(2 * GIB, arrival=1), "young": Candidate(1.5 * GIB, arrival=2)},
        ("young",),
    ),
    "a pod that was refused lately goes last": (
        1 * GIB,
        {"refused": Candidate(4 * GIB, was_refused=True), "other": Candidate(1 * GIB, priority=9)},
        ("other",),
    ),
    "several go at once for a large shortage": (
        5 * GIB,
        {"a": Candidate(2 * GIB), "b": Candidate(2 * GIB), "c": Candidate(2 * GIB), "d": Candidate(2 * GIB)},
        ("a", "b", "c"),
    ),
    "a pod that the rest does not need is spared": (
        10 * GIB,
        {"small": Candidate(1 * GIB, priority=0), "large": Candidate(10 * GIB, priority=1)},
        ("large",),
    ),
    "all go if they are not enough": (
        9 * GIB,
        {"a": Candidate(2 * GIB), "b": Candidate(2 * GIB)},
        ("a", "b"),
    ),
    "a pod that frees nothing is spared": (1 * GIB, {"cache": Candidate(0.0)}, ()),
    "no shortage": (0.0, {"a": Candidate(2 * GIB)}, ()),
    "no pods": (1 * GIB, {}, ()),
}


@pytest.mark.parametrize(("amount", "pods", "goes"), ORDER.values(), ids=ORDER.keys())
def test_the_order(amount: float, pods: dict[str, Candidate], goes: tuple[str, ...]):
    assert choose(amount, pods, most=16) == goes


def test_no_more_than_allowed_go():
    pods = {f"pod-{n}": Candidate(1 * GIB, priority=n) for n in range(9)}
    assert choose(9 * GIB, pods, most=4) == ("pod-0", "pod-1", "pod-2", "pod-3")
    assert choose(9 * GIB, pods, most=0) == ()
    assert choose(9 * GIB, pods, most=-1) == ()
