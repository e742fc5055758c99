"""nri-plugins' annotation of requests: believed up to what the kubelet's values say."""

import pytest

from tests.unit.config.vocabulary_kit import told, wish

KEY = "noderesource.dev/resources"


def asking(cpu: object, where: str = "containers", name: str = "app") -> dict[str, object]:
    return {KEY: {where: {name: {"requests": {"cpu": cpu, "memory": "1Gi"}, "limits": {"cpu": "9"}}}}}


@pytest.mark.parametrize(
    ("cpu", "milli"),
    [("1500m", 1500), ("2", 2000), (2, 2000), ("0.5", 500), ("1e0", 1000), ("100u", 1), ("0", 0)],
)
def test_a_request_is_read_as_kubernetes_writes_it(cpu, milli):
    found = wish(asking(cpu), shares=2048)
    assert (found.cpu_milli, found.findings) == (milli, ())


def test_an_init_container_has_its_own():
    found = wish(asking("1", "initContainers"), shares=1024)
    assert (found.cpu_milli, found.init) == (1000, True)


@pytest.mark.parametrize(
    ("told_of", "init"),
    [
        ({"initContainers": {"app": {}}}, True),
        ({"initContainers": {"app": {}}, "containers": {"app": {}}}, False),
        ({"initContainers": {"other": {}}}, False),
        ({"containers": {"app": {"requests": {"cpu": "1"}}}}, False),
    ],
    ids=["without requests", "both", "another", "a main one"],
)
def test_a_container_that_is_named_among_the_init_containers_is_one(told_of, init):
    assert wish({KEY: told_of}, shares=1024).init is init


@pytest.mark.parametrize(
    "annotations",
    [asking("1", name="log"), {KEY: {}}, {KEY: {"containers": {"app": {"requests": {"memory": "1Gi"}}}}}],
    ids=["another container", "nothing", "memory only"],
)
def test_without_a_request_for_this_container_nothing_is_told(annotations):
    found = wish(annotations, shares=1024)
    assert (found.cpu_milli, found.findings) == (0, ())


@pytest.mark.parametrize(
    ("kubelets", "most"),
    [
        ({"shares": 1536}, 1500),
        ({"shares": 1023}, 1000),  # 999m give 1022 shares, 1000m give 1024: rounded up
        ({"shares": 2}, 2),
        ({}, 2),
        ({"shares": 2, "quota": 50000}, 500),
        ({"quota": 50000, "period": 10000}, 5000),
        ({"shares": 262144}, 256000),
        ({"shares": 262144, "quota": 38400000, "period": 100000}, 384000),
    ],
    ids=["shares", "rounded", "none", "not told", "limit", "period", "clamped", "clamped with a limit"],
)
def test_more_than_the_kubelets_values_say_is_denied(kubelets, most):
    assert wish(asking(f"{most}m"), **kubelets).cpu_milli == most
    found = wish(asking(f"{most + 1}m"), **kubelets)
    assert (found.cpu_milli, told(found)) == (
        0,
        [("annotation.denied", f"{KEY}[containers][app][requests][cpu]", f"{most + 1}m")],
    )
    assert found.findings[0].allowed.endswith(f"by the kubelet's values is {most}m")
    assert found.findings[0].used == "what the kubelet's cpu shares say"


@pytest.mark.parametrize("cpu", ["", "two", "-1", True, None, 1.5, "9" * 50], ids=str)
def test_a_bad_amount_is_told(cpu):
    found = wish(asking(cpu), shares=1024)
    assert (found.cpu_milli, [f.kind.value for f in found.findings]) == (0, ["annotation.invalid"])


@pytest.mark.parametrize(
    "text",
    ["{", '{"containers": 7}', '{"containers": {"app": []}}', '{"containers": {"app": {"requests": "x"}}}'],
)
def test_json_of_another_shape_is_one_finding(text):
    found = wish({KEY: text}, shares=1024)
    assert told(found) == [("annotation.invalid", KEY, text)]
