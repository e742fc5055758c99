"""Quota and burst are written in an order that the kernel accepts."""

from nri_coloc.host.bandwidth import POD, Bandwidth, Write, of_pod, writes


def test_a_pod_bursts_as_its_containers_together():
    both = {"a": Bandwidth(100, 60), "b": Bandwidth(100, 30)}
    assert of_pod(200, both) == Bandwidth(200, 90)
    assert of_pod(80, both) == Bandwidth(80, 80)
    assert of_pod(-1, both) == Bandwidth(-1, 90)


def test_a_burst_goes_down_before_its_quota():
    found = writes({"a": Bandwidth(100, 100)}, {"a": Bandwidth(50, 50)})
    assert found == (Write("a", "burst", 50), Write("a", "quota", 50))


def test_a_quota_goes_up_before_its_burst():
    found = writes({"a": Bandwidth(50, 50)}, {"a": Bandwidth(100, 100)})
    assert found == (Write("a", "quota", 100), Write("a", "burst", 100))


def test_a_new_quota_is_a_lower_one_than_none():
    found = writes({"a": Bandwidth(-1, 500)}, {"a": Bandwidth(100, 100)})
    assert found == (Write("a", "burst", 100), Write("a", "quota", 100))


def test_downwards_containers_come_first_upwards_the_pod():
    low = {POD: Bandwidth(100, 100), "a": Bandwidth(100, 100)}
    high = {POD: Bandwidth(200, 200), "a": Bandwidth(200, 200)}
    assert [(w.target, w.knob) for w in writes(high, low)] == [
        ("a", "burst"), (POD, "burst"), ("a", "quota"), (POD, "quota"),
    ]  # fmt: skip
    assert [(w.target, w.knob) for w in writes(low, high)] == [
        (POD, "quota"), ("a", "quota"), (POD, "burst"), ("a", "burst"),
    ]  # fmt: skip


def test_what_is_as_it_should_be_is_not_written():
    same = {POD: Bandwidth(100, 10), "a": Bandwidth(100, 10)}
    assert writes(same, same) == ()
    assert writes({}, {"new": Bandwidth()}) == ()


def test_a_new_container_starts_from_the_kernels_defaults():
    assert writes({}, {"a": Bandwidth(100, 10)}) == (Write("a", "quota", 100), Write("a", "burst", 10))


def test_a_new_quota_keeps_within_its_pods():
    none = {POD: Bandwidth(100), "a": Bandwidth(-1)}
    some = {POD: Bandwidth(300), "a": Bandwidth(200)}
    assert writes(none, some) == (Write(POD, "quota", 300), Write("a", "quota", 200))
    assert writes(some, none) == (Write("a", "quota", -1), Write(POD, "quota", 100))


def test_a_pod_gets_a_quota_after_its_containers_fell():
    found = writes({POD: Bandwidth(-1), "a": Bandwidth(200)}, {POD: Bandwidth(100), "a": Bandwidth(100)})
    assert found == (Write("a", "quota", 100), Write(POD, "quota", 100))
