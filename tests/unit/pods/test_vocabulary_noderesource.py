"""nri-plugins' annotation of requests only lowers the request that follows from the kubelet's shares."""

import pytest

from nri_coloc.core.knobs import Knobs
from tests.unit.pods.vocabulary_kit import GIB, told, wish

KEY = "noderesource.dev/resources"


def asking(cpu: object, where: str = "containers", name: str = "app") -> dict[str, object]:
    return {KEY: {where: {name: {"requests": {"cpu": cpu, "memory": "1Gi"}, "limits": {"cpu": "9"}}}}}


@pytest.mark.parametrize(
    ("cpu", "milli"),
    [("1500m", 1500), ("2", 2000), (2, 2000), ("0.5", 500), ("1e0", 1000), ("100u", 1), ("0", 0)],
)
def test_a_lower_request_is_read_as_kubernetes_writes_it(cpu, milli):
    found = wish(asking(cpu), shares=4096)
    assert (found.cpu_milli, found.findings) == (milli, ())


def test_an_init_container_has_its_own():
    found = wish(asking("1", "initContainers"), shares=2048)
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
        ({"shares": 1023}, 1000),
        ({"shares": 3}, 3),
        ({"shares": 512, "quota": 600_000}, 500),
    ],
    ids=["shares", "rounded", "least", "limit"],
)
def test_more_than_the_kubelets_shares_say_is_denied(kubelets, most):
    assert (wish(asking(f"{most}m"), **kubelets).findings) == ()
    found = wish(asking(f"{most + 1}m"), **kubelets)
    assert (found.cpu_milli, told(found)) == (
        0,
        [("annotation.denied", f"{KEY}[containers][app][requests][cpu]", f"{most + 1}m")],
    )
    assert found.findings[0].allowed.endswith(f"by the kubelet's shares is {most}m")
    assert found.findings[0].used == "the request by the kubelet's cpu shares"


@pytest.mark.parametrize("quota", [None, 600_000], ids=["alone", "beside-a-limit"])
def test_it_makes_no_request_where_there_is_none(quota):
    found = wish(asking("6"), shares=2, quota=quota)
    assert (found.cpu_milli, [f.kind.value for f in found.findings]) == (0, ["annotation.denied"])


@pytest.mark.parametrize(("cpu", "shares"), [("1m", 2), ("2m", 2), ("300", 262144)], ids=["1m", "2m", "300"])
def test_a_request_that_shares_cannot_say_is_no_finding(cpu, shares):
    found = wish(asking(cpu), shares=shares)
    assert (found.cpu_milli, found.findings) == (0, ())


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


# --- loans -----------------------------------------------------------------------------------------------

BATCH = ("kubernetes.io/batch-cpu", "kubernetes.io/batch-memory")
RECLAIMED = tuple(f"resource.katalyst.kubewharf.io/reclaimed_{name}" for name in ("millicpu", "memory"))


def lent(names: tuple[str, ...], where: str = "containers", **more: object) -> dict[str, object]:
    """Return the webhook's annotation of a pod with a loan: half a CPU, two at most, and 1 GiB."""
    cpu, memory = names
    own = {"requests": {cpu: "500", memory: "1Gi"}, "limits": {cpu: "2k", memory: "1Gi"}}
    return {KEY: {where: {"app": own | more}}}


@pytest.mark.parametrize("names", [BATCH, RECLAIMED], ids=["Volcano", "Katalyst"])
@pytest.mark.parametrize("where", ["containers", "initContainers"])
def test_a_reclaimed_container_gets_what_it_was_lent(names, where):
    found = wish(lent(names, where), qos="reclaimed", shares=2)
    assert found.annotated == Knobs(shares=512, quota=200_000, period=100_000, memory_limit=GIB)
    told_of = [key for key, _, _ in found.origins if key != "init-container"]
    assert told_of == ["memory-limit", "lent-shares", "lent-quota"]


def test_an_online_container_is_lent_nothing():
    found = wish(lent(BATCH), qos="shared", shares=2)
    assert (found.annotated, found.findings) == (Knobs(), ())


def test_a_value_of_the_kubelets_stays_the_kubelets():
    found = wish(lent(BATCH), qos="reclaimed", shares=300, quota=40_000, memory_limit=7)
    assert found.annotated == Knobs()


def test_what_koordinators_webhook_told_comes_first():
    theirs = {"containers": {"app": {"limits": {BATCH[0]: "1000"}}}}
    both = {**lent(BATCH), "node.koordinator.sh/extended-resource-spec": theirs}
    found = wish(both, qos="reclaimed", shares=2)
    assert (found.knobs.quota, found.knobs.memory_limit) == (100_000, GIB)


@pytest.mark.parametrize(("amount", "hint"), [("200m", "did you mean 200?"), ("8", "did you mean 8000?")])
def test_a_mistaken_unit_of_cpu_is_refused_with_a_hint(amount, hint):
    name = RECLAIMED[0]
    found = wish(lent(RECLAIMED, requests={}, limits={name: amount}), qos="reclaimed", shares=2)
    assert told(found) == [("annotation.invalid", f"{KEY}[containers][app][limits][{name}]", amount)]
    assert found.findings[0].allowed.endswith(hint)
    assert found.annotated == Knobs()


@pytest.mark.parametrize(
    ("amount", "hint"),
    [
        ("512m", "did you mean 512Mi?"),
        ("512", "did you mean 512Mi?"),
        (256, "did you mean 256Mi?"),
        ("0.5Ki", "m means thousandths"),
    ],
)
def test_a_mistaken_unit_of_memory_is_refused_with_a_hint(amount, hint):
    name = BATCH[1]
    found = wish(lent(BATCH, requests={}, limits={name: amount}), qos="reclaimed", shares=2)
    assert told(found) == [("annotation.invalid", f"{KEY}[containers][app][limits][{name}]", str(amount))]
    assert found.findings[0].allowed.endswith(hint)
    assert found.annotated == Knobs()


def test_a_limit_that_is_no_object_is_one_finding():
    found = wish({KEY: {"containers": {"app": {"limits": 7}}}}, qos="reclaimed")
    assert [key for _, key, _ in told(found)] == [KEY]
