"""Rights in the cluster: no more than the programs use, and only keys that they write."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from nri_coloc.core.evictions import Outcome, Result
from nri_coloc.kubernetes import eviction, presets
from nri_coloc.kubernetes.event_reasons import EventReason
from nri_coloc.pods import keys
from tests.unit.deploy.kit import RELEASES, refusals

FOLDER = Path(__file__).parents[3] / "deploy" / "cluster"
DOCUMENTS: list[dict[str, Any]] = [
    document
    for name in ("colocationnodes.yaml", "rights.yaml", "policies.yaml")
    for document in yaml.safe_load_all((FOLDER / name).read_text())
]
BY_NAME = {(each["kind"], each["metadata"]["name"]): each for each in DOCUMENTS}
CRD = BY_NAME["CustomResourceDefinition", "colocationnodes.coloc.nri.io"]["spec"]
POLICIES = [each for each in DOCUMENTS if each["kind"] == "ValidatingAdmissionPolicy"]
ROLES = [each for each in DOCUMENTS if each["kind"] in ("Role", "ClusterRole")]
ACCOUNTS = {
    f"system:serviceaccount:kube-system:{each['metadata']['name']}"
    for each in DOCUMENTS
    if each["kind"] == "ServiceAccount"
}
"""ValidatingAdmissionPolicy and the node's name in a token exist from 1.30 on."""


def variable(policy: str, name: str) -> str:
    """Return the expression of a variable of a policy."""
    found = BY_NAME["ValidatingAdmissionPolicy", policy]["spec"]["variables"]
    return next(str(each["expression"]) for each in found if each["name"] == name)


def texts(expression: str) -> set[str]:
    return set(re.findall(r"'([^']*)'", expression))


def rights(account: str) -> set[str]:
    """Return the rights of an account as "verb resource"."""
    roles = [role for role in ROLES if role["metadata"]["name"] == account]
    rules = [rule for role in roles for rule in role["rules"]]
    return {
        f"{verb} {resource}" for rule in rules for verb in rule["verbs"] for resource in rule["resources"]
    }


def results() -> Any:
    schema = CRD["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    return schema["status"]["properties"]["results"]


def orders() -> Any:
    schema = CRD["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    return schema["spec"]["properties"]["evictions"]


@pytest.mark.parametrize("release", RELEASES[1:])  # 1.27 knows no admission policies
@pytest.mark.parametrize("name", BY_NAME, ids=" ".join)
def test_it_fits_the_schema_of_kubernetes(name, release):
    assert refusals(BY_NAME[name], release) == []


def test_the_companion_has_these_rights_alone():
    assert rights("nri-coloc-cluster") == {
        *(f"{verb} nodes" for verb in ("get", "list", "watch")),
        "patch nodes/status",
        *(f"{verb} pods" for verb in ("get", "list", "watch")),
        *(f"{verb} colocationnodes" for verb in ("create", "patch")),
        *(f"{verb} events" for verb in ("create", "patch")),
    }


def test_the_controller_has_these_rights_alone():
    assert rights("nri-coloc-controller") == {
        "list nodes",
        "patch nodes/status",
        *(f"{verb} pods" for verb in ("get", "list")),
        "create pods/eviction",
        "patch pods/status",
        *(f"{verb} colocationnodes" for verb in ("get", "list", "watch")),
        "patch colocationnodes/status",
        *(f"{verb} leases" for verb in ("get", "create", "update")),
    }


def test_an_account_mounts_no_token_by_itself():
    accounts = [each for each in DOCUMENTS if each["kind"] == "ServiceAccount"]
    assert [each["automountServiceAccountToken"] for each in accounts] == [False, False]


def test_each_binding_has_its_account():
    for each in DOCUMENTS:
        if each["kind"].endswith("RoleBinding"):
            name = each["metadata"]["name"]
            assert each["roleRef"]["name"] == name
            assert each["subjects"] == [{"kind": "ServiceAccount", "name": name, "namespace": "kube-system"}]
            assert ("ServiceAccount", name) in BY_NAME


# ---- policies ----


@pytest.mark.parametrize("policy", POLICIES, ids=lambda each: each["metadata"]["name"])
def test_a_policy_denies_and_fails_closed(policy):
    name = policy["metadata"]["name"]
    binding = BY_NAME["ValidatingAdmissionPolicyBinding", name]["spec"]
    assert policy["spec"]["failurePolicy"] == "Fail"
    assert binding == {"policyName": name, "validationActions": ["Deny"]}


def test_the_policies_name_our_accounts():
    named = {text for each in POLICIES for text in texts(each["spec"]["matchConditions"][0]["expression"])}
    assert named == ACCOUNTS


def test_only_lent_amounts_may_change():
    ours = {name for preset in presets.PRESETS.values() for name in preset}
    assert texts(variable("nri-coloc-nodes", "most")) == ours | {presets.OPEN}


def test_only_our_label_and_annotation_may_change():
    assert texts(variable("nri-coloc-nodes", "annotations")) == {presets.REPORTED_AT}
    assert texts(variable("nri-coloc-nodes", "labels")) == {presets.LENDING, "coloc.nri.io/state"}


def test_the_policy_knows_all_reasons_of_events():
    assert texts(variable("nri-coloc-events", "reasons")) == set(EventReason)


def test_only_the_notice_of_a_pod_may_change():
    assert texts(variable("nri-coloc-pods", "annotations")) == {keys.EVICT_AT}


# ---- the object ----


def test_the_object_has_the_programs_outcomes():
    assert set(results()["items"]["properties"]["outcome"]["enum"]) == set(Outcome)


def test_the_object_has_the_programs_bounds():
    assert orders()["maxItems"] == results()["maxItems"] == eviction.MOST_ORDERS
    assert results()["items"]["properties"]["detail"]["maxLength"] == eviction.LONGEST_DETAIL


def test_a_written_result_fits_the_object():
    order = {"id": "a", "namespace": "n", "name": "p", "uid": "u", "expiresAt": "2026-11-26T10:00:00Z"}
    node = {"spec": {"evictions": [order]}}
    written = eviction.status(node, {("a", "u"): Result("a", Outcome.GONE, "the pod has ended", 1)})
    assert set(written[0]) == set(results()["items"]["properties"])


def test_an_order_has_what_the_program_reads():
    assert set(orders()["items"]["required"]) == {"id", "namespace", "name", "uid", "expiresAt"}
    assert "byOperator" in orders()["items"]["properties"]


def test_results_are_written_apart_from_orders():
    assert CRD["versions"][0]["subresources"] == {"status": {}}
