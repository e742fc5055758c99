"""The companion's manifest: not root, nothing of the host but the folder of the socket, and a token of its own."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from nri_coloc.cli import commands as cli
from nri_coloc.core.settings import KubernetesSettings
from nri_coloc.service import options
from nri_coloc.service.monitor import READINESS
from tests.unit.deploy.kit import RELEASES, refusals

DEPLOY = Path(__file__).parents[3] / "deploy"
DOCUMENTS: list[dict[str, Any]] = list(
    yaml.safe_load_all((DEPLOY / "cluster" / "companion.yaml").read_text())
)
BY_KIND = {document["kind"]: document["spec"] for document in DOCUMENTS}
POD = BY_KIND["DaemonSet"]["template"]["spec"]
CONTAINER = POD["containers"][0]
BUDGET_MIB = 45


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda each: each["kind"])
def test_it_fits_the_schema_of_kubernetes(document, release):
    assert refusals(document, release) == []


def test_it_runs_the_companion_on_its_node():
    arguments = cli._parser().parse_args([*CONTAINER["command"][1:], *CONTAINER["args"]])
    assert arguments.command is cli._cluster
    assert arguments.http.endswith(f":{CONTAINER['ports'][0]['containerPort']}")
    field = {"fieldRef": {"fieldPath": "spec.nodeName"}}
    assert CONTAINER["env"] == [{"name": "NODE_NAME", "valueFrom": field}]


def test_it_is_the_user_that_the_daemon_lets_in():
    context = POD["securityContext"]
    assert context["runAsUser"] == KubernetesSettings().companion_uid
    assert context["runAsGroup"] == KubernetesSettings().companion_gid
    assert context["runAsNonRoot"] is True


def test_it_sees_the_folder_of_the_socket_alone():
    folder = str(Path(options.DEFAULT_CLUSTER_SOCKET).parent)
    assert CONTAINER["volumeMounts"] == [{"name": "socket", "mountPath": folder, "readOnly": True}]
    assert POD["volumes"] == [{"name": "socket", "hostPath": {"path": folder, "type": "DirectoryOrCreate"}}]
    assert [POD[key] for key in ("hostNetwork", "hostPID", "hostIPC")] == [False] * 3


def test_it_may_do_no_more_than_it_must():
    context = CONTAINER["securityContext"]
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert context["readOnlyRootFilesystem"] is True
    assert context["allowPrivilegeEscalation"] is False
    assert context["privileged"] is False
    assert POD["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}


def test_only_its_own_pods_mount_the_token():
    assert POD["serviceAccountName"] == "nri-coloc-cluster"
    assert POD["automountServiceAccountToken"] is True


def test_it_is_wherever_the_daemon_is():
    assert POD["tolerations"] == [{"operator": "Exists"}]
    assert POD["nodeSelector"] == {"kubernetes.io/os": "linux"}


def test_its_memory_fits_the_budget_with_room():
    resources = CONTAINER["resources"]
    assert int(resources["requests"]["memory"].removesuffix("Mi")) > BUDGET_MIB
    assert int(resources["limits"]["memory"].removesuffix("Mi")) >= 2 * BUDGET_MIB


def test_its_readiness_is_asked_at_its_port():
    assert CONTAINER["readinessProbe"]["httpGet"] == {"port": "http", "path": READINESS, "scheme": "HTTP"}


def test_no_flood_of_its_port_ends_it():
    assert "livenessProbe" not in CONTAINER


def test_no_pod_can_connect_to_it():
    assert BY_KIND["NetworkPolicy"]["ingress"] == []
    labels = BY_KIND["DaemonSet"]["template"]["metadata"]["labels"]
    assert BY_KIND["NetworkPolicy"]["podSelector"]["matchLabels"] == labels
