"""The controller's manifest: what the program reads and serves, and no right that it does not use."""

from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import yaml

from nri_coloc.cli import commands as cli
from nri_coloc.core import endpoint
from tests.unit.deploy.kit import RELEASES, refusals

DEPLOY = Path(__file__).parents[3] / "deploy"
DOCUMENTS: list[dict[str, Any]] = list(
    yaml.safe_load_all((DEPLOY / "cluster" / "controller.yaml").read_text())
)
BY_KIND = {document["kind"]: document["spec"] for document in DOCUMENTS}
DEPLOYMENT = BY_KIND["Deployment"]
POD = DEPLOYMENT["template"]["spec"]
CONTAINER = POD["containers"][0]
FLAGS = cli._parser().parse_args([*CONTAINER["command"][1:], *CONTAINER["args"]])
PORT = endpoint.split(FLAGS.http)[1]
CONFIG = next(
    each
    for each in yaml.safe_load_all((DEPLOY / "daemonset.yaml").read_text())
    if each["kind"] == "ConfigMap"
)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda each: each["kind"])
def test_it_fits_the_schema_of_kubernetes(document, release):
    assert refusals(document, release) == []


def test_it_runs_this_command():
    assert CONTAINER["command"] == ["nri-coloc", "controller"]


def test_each_selector_finds_its_pods():
    labels = DEPLOYMENT["template"]["metadata"]["labels"]
    selectors = [
        DEPLOYMENT["selector"],
        BY_KIND["PodDisruptionBudget"]["selector"],
        BY_KIND["NetworkPolicy"]["podSelector"],
        POD["topologySpreadConstraints"][0]["labelSelector"],
    ]
    assert [each["matchLabels"] for each in selectors] == [labels] * 4


def test_one_replica_may_be_evicted():
    assert DEPLOYMENT["replicas"] - BY_KIND["PodDisruptionBudget"]["minAvailable"] == 1


def test_it_reads_the_daemons_configuration():
    mount = CONTAINER["volumeMounts"][0]
    assert mount == {"name": "config", "mountPath": str(PurePosixPath(FLAGS.config).parent), "readOnly": True}
    assert POD["volumes"] == [{"name": "config", "configMap": {"name": CONFIG["metadata"]["name"]}}]
    assert PurePosixPath(FLAGS.config).name in CONFIG["data"]


def test_no_flood_of_its_port_ends_it():
    assert "livenessProbe" not in CONTAINER


def test_a_probe_asks_the_programs_port():
    found = CONTAINER["readinessProbe"]["httpGet"]
    assert (found["path"], found["port"]) == ("/readyz", "http")
    assert CONTAINER["ports"] == [{"name": "http", "containerPort": PORT, "protocol": "TCP"}]


def test_only_its_port_is_open():
    assert BY_KIND["NetworkPolicy"]["policyTypes"] == ["Ingress", "Egress"]
    assert BY_KIND["NetworkPolicy"]["ingress"] == [{"ports": [{"protocol": "TCP", "port": PORT}]}]


def test_it_is_an_ordinary_user_without_the_host():
    assert POD["securityContext"]["runAsNonRoot"] is True
    assert POD["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert [POD[key] for key in ("hostNetwork", "hostPID", "hostIPC")] == [False] * 3
    assert not [each for each in POD["volumes"] if "hostPath" in each]


def test_it_may_do_no_more_than_it_must():
    context = CONTAINER["securityContext"]
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert context["readOnlyRootFilesystem"] is True
    assert context["allowPrivilegeEscalation"] is False
    assert context["privileged"] is False


def test_only_its_own_pods_mount_the_token():
    assert POD["serviceAccountName"] == "nri-coloc-controller"
    assert POD["automountServiceAccountToken"] is True
