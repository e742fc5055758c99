"""An order is carried out only for a reclaimed pod of its author's node, and its result says why if not."""

from typing import Any

import pytest

from nri_coloc.core.evictions import Outcome, Result
from nri_coloc.core.settings import ClassRule, Tuning
from nri_coloc.core.workload import QoSClass
from nri_coloc.kubernetes import eviction
from nri_coloc.kubernetes.eviction import Answer, Order, Rules, Step

NOW = 1_000_000.0
ORDER = Order("d-1", "jobs", "render-1", "u1", NOW + 60)
OPERATORS = ORDER._replace(by_operator=True)
ON = Rules(may_evict=True, tuning=Tuning())
OFF = Rules(may_evict=False, tuning=Tuning())
OWNER = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "logs", "controller": True}
BUDGET: dict[str, Any] = {
    "message": "Cannot evict pod as it would violate the pod's disruption budget.",
    "details": {"causes": [{"reason": "DisruptionBudget", "message": "needs 2 healthy pods and has 2"}]},
}


def pod(qos: str = "BestEffort", node: str = "n1", phase: str = "Running", **metadata: Any) -> dict[str, Any]:
    """Return a pod that the order names; `metadata` replaces fields."""
    return {
        "metadata": {"uid": "u1", "namespace": "jobs", "name": "render-1", **metadata},
        "spec": {"nodeName": node, "containers": [{"name": "main"}]},
        "status": {"phase": phase, "qosClass": qos},
    }


@pytest.mark.parametrize(
    "other",
    [{"apiVersion": "example.com/v1"}, {"controller": False}, {"controller": None}, {"kind": "Job"}],
    ids=str,
)
def test_a_false_daemonset_protects_no_pod(other):
    assert outcome(pod(ownerReferences=[OWNER | other])) is None


def annotated(**annotations: str) -> dict[str, Any]:
    keys = {key.replace("_", "-"): value for key, value in annotations.items()}
    return pod("Burstable", annotations={f"coloc.nri.io/{key}": value for key, value in keys.items()})


def outcome(found: dict[str, Any] | None, order: Order = ORDER, rules: Rules = ON) -> Outcome | None:
    result = eviction.judge(order, found, "n1", rules, NOW)
    return None if result is None else result.outcome


@pytest.mark.parametrize(
    "found",
    [
        pod(),
        annotated(qos_class="reclaimed"),
        pod("Burstable", labels={"koordinator.sh/qosClass": "BE"}),
        pod("Guaranteed", annotations={"katalyst.kubewharf.io/qos_level": "reclaimed_cores"}),
    ],
    ids=["BestEffort", "annotation", "Koordinator", "Katalyst"],
)
def test_a_reclaimed_pod_of_the_node_is_evicted(found):
    assert outcome(found) is None


@pytest.mark.parametrize("key", ["qos_class.ghost", "containers"])
def test_a_class_for_a_missing_container_protects_nothing(key):
    value = '{"ghost": {"qos-class": "shared"}}' if key == "containers" else "shared"
    assert outcome(annotated(**{"qos_class": "reclaimed", key: value})) is None


@pytest.mark.parametrize("kind", ["containers", "initContainers", "ephemeralContainers"])
def test_an_online_container_of_any_kind_protects(kind):
    found = annotated(**{"qos_class": "reclaimed", "qos_class.web": "shared"})
    found["spec"][kind] = [{"name": "web"}]
    assert outcome(found) is Outcome.REFUSED


@pytest.mark.parametrize("kind", ["container", "initContainer", "ephemeralContainer"])
@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ({"terminated": {"exitCode": 0}}, None),
        ({"running": {}}, Outcome.REFUSED),
        ({"waiting": {"reason": "PodInitializing"}}, Outcome.REFUSED),
        ({}, Outcome.REFUSED),
    ],
    ids=["ended", "running", "waiting", "unknown"],
)
def test_an_ended_online_container_protects_nothing(kind, state, expected):
    found = annotated(**{"qos_class": "reclaimed", "qos_class.web": "shared"})
    found["spec"].setdefault(f"{kind}s", []).append({"name": "web"})
    found["status"][f"{kind}Statuses"] = [{"name": "web", "state": state}]
    assert outcome(found) is expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (None, Outcome.GONE),
        (pod(uid="u2"), Outcome.GONE),
        (pod(phase="Succeeded"), Outcome.GONE),
        (pod(phase="Failed"), Outcome.GONE),
        (pod(deletionTimestamp="2026-11-26T10:00:00Z"), Outcome.ACCEPTED),
        (pod(node="n2"), Outcome.REFUSED),
        (pod(node=""), Outcome.REFUSED),
        (pod("Burstable"), Outcome.REFUSED),
        (pod("Guaranteed"), Outcome.REFUSED),
        (pod(""), Outcome.REFUSED),
        (pod(namespace="kube-system"), Outcome.REFUSED),
        (annotated(qos_class="dedicated"), Outcome.REFUSED),
        (annotated(**{"qos_class": "reclaimed", "qos_class.main": "shared"}), Outcome.REFUSED),
        (annotated(qos_class="reclaimed", avoidance="throttle"), Outcome.REFUSED),
        (pod(annotations={"kubernetes.io/config.mirror": "x"}), Outcome.REFUSED),
        (pod(ownerReferences=[OWNER]), Outcome.REFUSED),
    ],
    ids=[
        "no pod", "another pod", "succeeded", "failed", "deleted already", "another node", "no node", "Burstable",
        "Guaranteed", "unknown QoS", "kube-system", "dedicated", "an online container", "avoidance", "static",
        "DaemonSet",
    ],
)  # fmt: skip
def test_any_other_pod_is_left_alone(found, expected):
    assert outcome(found) is expected


def test_a_pod_that_is_deleted_elsewhere_stays_refused():
    assert outcome(pod(node="n2", deletionTimestamp="2026-11-26T10:00:00Z")) is Outcome.REFUSED


def test_a_switch_that_is_off_stops_the_node():
    assert outcome(pod(), rules=OFF) is Outcome.REFUSED


def test_an_operators_order_overrides_the_switch():
    assert outcome(pod(), OPERATORS, OFF) is None


def test_an_operators_order_overrides_avoidance():
    assert outcome(annotated(qos_class="reclaimed", avoidance="throttle"), OPERATORS) is None


@pytest.mark.parametrize("found", [pod("Burstable"), pod(node="n2")], ids=["class", "node"])
def test_an_operators_order_overrides_nothing_else(found):
    assert outcome(found, OPERATORS) is Outcome.REFUSED


def test_an_order_after_its_time_is_not_carried_out():
    assert outcome(pod(), ORDER._replace(expires_at=NOW)) is Outcome.UNREACHABLE


def test_the_operators_rules_give_the_class():
    rule = ClassRule(qos=QoSClass.RECLAIMED, namespace="jobs")
    assert outcome(pod("Burstable"), rules=Rules(True, Tuning(rules=(rule,)))) is None


def test_a_request_of_less_than_a_cpu_is_not_dedicated():
    found = pod(annotations={"coloc.nri.io/qos-class": "dedicated"})
    assert outcome(found) is None


def test_annotations_beyond_the_bound_give_no_class():
    annotations = {"coloc.nri.io/qos-class": "reclaimed", "coloc.nri.io/x": "x" * 65536}
    assert outcome(pod("Burstable", annotations=annotations)) is Outcome.REFUSED


def test_annotations_hide_no_label_from_a_rule():
    much = {"coloc.nri.io/containers": "x" * (64 << 10)}
    rule = ClassRule(qos=QoSClass.RECLAIMED, label=("team", "batch"))
    rules = Rules(may_evict=True, tuning=Tuning(rules=(rule,)))
    assert outcome(pod("Burstable", labels={"team": "batch"}, annotations=much), rules=rules) is None


def test_annotations_hide_no_other_from_a_rule():
    much = {"coloc.nri.io/containers": "x" * (64 << 10), "team": "batch"}
    rule = ClassRule(qos=QoSClass.RECLAIMED, annotation=("team", "batch"))
    rules = Rules(may_evict=True, tuning=Tuning(rules=(rule,)))
    assert outcome(pod("Burstable", annotations=much), rules=rules) is None


def test_a_refusal_names_the_class():
    found = eviction.judge(ORDER, pod("Burstable"), "n1", ON, NOW)
    assert found is not None
    assert found.detail == "the pod has class shared (default); only class reclaimed is evicted"


# ---- the API server's answer ----


@pytest.mark.parametrize("status", [200, 400, 403, 404, 409, 413, 422])
def test_a_withdrawal_ends_with_an_answer(status):
    assert eviction.is_withdrawn(Answer(status, {}))


@pytest.mark.parametrize("status", [0, 401, 408, 429, 500, 503])
def test_a_withdrawal_without_an_answer_goes_on(status):
    assert not eviction.is_withdrawn(Answer(status, {}))


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (Answer(201, {}), Outcome.ACCEPTED),
        (Answer(404, {}), Outcome.GONE),
        (Answer(429, BUDGET), Outcome.BUDGET),
        (Answer(500, {"message": "a pod has more than one PodDisruptionBudget"}), Outcome.BUDGET),
        (Answer(403, {"message": "no"}), Outcome.REFUSED),
        (Answer(429, {"message": "Too many requests"}), None),
        (Answer(409, {"message": "Precondition failed"}), None),
        (Answer(401, {}), None),
        (Answer(500, {"message": "etcd"}), None),
        (Answer(503, {}), None),
        (Answer(0, {}), None),
    ],
    ids=[
        "created", "not found", "budget", "two budgets", "forbidden", "overloaded server", "conflict",
        "expired token", "server error", "unavailable", "no answer",
    ],
)  # fmt: skip
def test_an_answer_becomes_a_result(answer, expected):
    found = eviction.result(ORDER, answer)
    assert (found and found.outcome) == expected


@pytest.mark.parametrize("status", [400, 403, 413, 422])
def test_a_notice_that_cannot_be_written_passes(status):
    assert eviction.is_passed(Step.NOTICE, Answer(status, {}), 30.0)
    assert not eviction.is_passed(Step.DRY_RUN, Answer(status, {}), 30.0)


@pytest.mark.parametrize("status", [0, 401, 404, 408, 409, 429, 500])
def test_any_other_refusal_ends_an_eviction(status):
    assert not any(eviction.is_passed(step, Answer(status, {}), 30.0) for step in Step)


@pytest.mark.parametrize("status", [0, 401, 408, 429, 500, 503])
def test_an_urgent_eviction_needs_no_notice(status):
    assert eviction.is_passed(Step.NOTICE, Answer(status, {}), 0.0)
    assert not eviction.is_passed(Step.DRY_RUN, Answer(status, {}), 0.0)


@pytest.mark.parametrize("status", [404, 409])
def test_a_changed_pod_ends_an_urgent_eviction(status):
    assert not any(eviction.is_passed(step, Answer(status, {}), 0.0) for step in Step)


def test_a_budget_says_why_and_when():
    found = eviction.result(ORDER, Answer(429, BUDGET, retry_after_s=30))
    assert found == Result("d-1", Outcome.BUDGET, "needs 2 healthy pods and has 2", 30)


def test_the_eviction_names_the_uid():
    assert eviction.request(ORDER)["deleteOptions"] == {"preconditions": {"uid": "u1"}}


# ---- the object of a node ----


def colocation_node(*ids: str, results: tuple[str, ...] = ()) -> dict[str, Any]:
    entries = [
        {"id": name, "namespace": "jobs", "name": "p", "uid": "u", "expiresAt": "2026-11-26T10:00:00Z"}
        for name in ids
    ]
    return {
        "spec": {"evictions": entries},
        "status": {"results": [{"id": name, "outcome": "gone", "detail": ""} for name in results]},
    }


def test_orders_with_a_result_are_done():
    found = eviction.orders(colocation_node("a", "b", results=("a",)))
    assert [each.id for each in found] == ["b"]


def test_another_pod_under_a_finished_id_stays():
    node = colocation_node("a", results=("a",))
    node["spec"]["evictions"][0]["uid"] = "other"
    assert eviction.orders(node) == []


def test_a_node_without_orders_has_none():
    assert eviction.orders({"metadata": {}}) == []


def test_only_an_explicit_flag_is_the_operators():
    node = colocation_node("a", "b")
    node["spec"]["evictions"][1]["byOperator"] = True
    assert [each.by_operator for each in eviction.orders(node)] == [False, True]


def test_a_time_is_seconds_since_1970():
    assert eviction.orders(colocation_node("a"))[0].expires_at == 1795687200.0


def test_a_time_without_a_zone_is_no_time():
    node = colocation_node("a")
    node["spec"]["evictions"][0]["expiresAt"] = "2026-11-26T10:00:00"
    assert "time zone" in eviction.orders(node)[0].problem


@pytest.mark.parametrize("key", ["namespace", "name"])
@pytest.mark.parametrize("text", ["", "..", "a/b", "../x", "a/eviction", "A", "a\n", "a?b", "-a"])
def test_a_name_is_never_a_path(key, text):
    node = colocation_node("a")
    node["spec"]["evictions"][0][key] = text
    (found,) = eviction.orders(node)
    assert key in found.problem
    assert (found.namespace, found.name) == ("", "")


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "../x"},
        {"name": 3},
        {"uid": []},
        {"id": "x" * 65},
        {"expiresAt": "soon"},
        {"expiresAt": "2026-11-26T23:59:60Z"},
    ],
    ids=["path", "number", "no uid", "long id", "no time", "leap second"],
)
def test_an_unreadable_order_costs_no_other(wrong):
    node = colocation_node("a", "b")
    node["spec"]["evictions"][0] |= wrong
    assert [bool(each.problem) for each in eviction.orders(node)] == [True, False]


@pytest.mark.parametrize("entry", [3, None, "all", [], {}])
def test_an_entry_of_another_shape_gets_no_result(entry):
    node = colocation_node("a", "b")
    node["spec"]["evictions"][0] = entry
    orders = eviction.orders(node)
    found = eviction.status(node, {each.key: Result(each.id, Outcome.GONE, "") for each in orders})
    assert [each["id"] for each in found] == ["b"]


@pytest.mark.parametrize("entry", [3, {"id": []}, {"id": "x" * 65}])
def test_an_unreadable_result_costs_no_order(entry):
    node = colocation_node("a", "b", results=("a",))
    node["status"]["results"].append(entry)
    assert [each.id for each in eviction.orders(node)] == ["b"]
    assert [each["id"] for each in eviction.status(node, {})] == ["a"]


def test_results_stay_while_their_orders_do():
    node = colocation_node("a", "b", results=("a", "old"))
    found = eviction.status(node, {("b", "u"): Result("b", Outcome.BUDGET, "x" * 300, 9999)})
    assert [each["id"] for each in found] == ["a", "b"]
    assert found[1] == {"id": "b", "outcome": "budget", "detail": "x" * 200, "retryAfterSeconds": 3600}


def test_a_result_without_its_order_is_dropped():
    assert eviction.status(colocation_node("a"), {("b", "u"): Result("b", Outcome.GONE, "")}) == []


def test_a_second_result_replaces_the_first():
    new = {("a", "u"): Result("a", Outcome.ACCEPTED, "")}
    found = eviction.status(colocation_node("a", results=("a",)), new)
    assert [each["outcome"] for each in found] == ["accepted"]


@pytest.mark.parametrize(
    ("reason", "expires_s", "expected"),
    [
        ("schedule", 55, 30),
        ("cpu_starved", 55, 30),
        ("schedule", 25, 15),
        ("schedule", 5, 0),
        ("memory_short", 55, 0),
        ("io_stall", 55, 0),
        ("operator", 55, 0),
        ("", 55, 0),
    ],
)
def test_a_notice_lasts_by_urgency(reason, expires_s, expected):
    order = ORDER._replace(reason=reason, expires_at=NOW + expires_s)
    assert eviction.notice_s(order, NOW) == expected
