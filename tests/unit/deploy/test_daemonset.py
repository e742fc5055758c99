"""The manifest names only paths, ports, flags, keys and probes that the program has."""

import re
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import yaml

from nri_coloc.cli import commands as cli
from nri_coloc.core import endpoint
from nri_coloc.core.settings import Settings
from nri_coloc.host import kubelet
from nri_coloc.service import http
from nri_coloc.service import options as daemon_options
from nri_coloc.service.configuration import loading as reader
from tests.unit.deploy.kit import RELEASES, refusals

MANIFEST = Path(__file__).parents[3] / "deploy" / "daemonset.yaml"
TEXT = MANIFEST.read_text()
DOCUMENTS: list[dict[str, Any]] = list(yaml.safe_load_all(TEXT))
BY_KIND = {document["kind"]: document for document in DOCUMENTS}
POD = BY_KIND["DaemonSet"]["spec"]["template"]["spec"]
CONTAINER = POD["containers"][0]
MOUNTS = {mount["mountPath"]: mount for mount in CONTAINER["volumeMounts"]}
VOLUMES = {volume["name"]: volume for volume in POD["volumes"]}
PROBE = CONTAINER["readinessProbe"]["httpGet"]

FLAGS = cli._parser().parse_args(["run", *CONTAINER["args"]])
CONFIG_NAME = PurePosixPath(FLAGS.config).name
SETTINGS = reader.load(BY_KIND["ConfigMap"]["data"][CONFIG_NAME], "the ConfigMap")

MEBI = 1 << 20
PSS_BUDGET_MIB = 80


def mount_of(path: str) -> dict[str, Any]:
    """Return the mount that contains a path of the program: the nearest one."""
    found = [PurePosixPath(p) for p in MOUNTS if PurePosixPath(path).is_relative_to(p)]
    assert found, f"{path} is not mounted"
    mount: dict[str, Any] = MOUNTS[str(max(found, key=lambda p: len(p.parts)))]
    return mount


def host_path(path: str) -> dict[str, Any]:
    source: dict[str, Any] = VOLUMES[mount_of(path)["name"]]["hostPath"]
    return source


def mebibytes(quantity: str) -> int:
    assert quantity.endswith("Mi")
    return int(quantity.removesuffix("Mi"))


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("kind", BY_KIND)
def test_it_fits_the_schema_of_kubernetes(kind, release):
    assert refusals(BY_KIND[kind], release) == []


def test_a_key_that_kubernetes_does_not_know_would_be_noticed():
    spoiled = {**BY_KIND["ServiceAccount"], "automountToken": False}
    assert refusals(spoiled, RELEASES[0]) != []


def test_each_kind_is_there_once():
    expected = {"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "ConfigMap", "DaemonSet"}
    assert len(DOCUMENTS) == len(expected)
    assert set(BY_KIND) == expected


def test_what_refers_to_each_other_has_the_same_names():
    account, role, binding = (BY_KIND[k] for k in ("ServiceAccount", "ClusterRole", "ClusterRoleBinding"))
    assert POD["serviceAccountName"] == account["metadata"]["name"]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"][0]["name"] == account["metadata"]["name"]
    spec = BY_KIND["DaemonSet"]["spec"]
    assert spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()
    namespaced = ("ServiceAccount", "ConfigMap", "DaemonSet")
    assert {BY_KIND[k]["metadata"]["namespace"] for k in namespaced} == {"kube-system"}
    assert binding["subjects"][0]["namespace"] == "kube-system"


def test_the_program_gets_no_rights_while_no_package_talks_to_kubernetes():
    package = Path(cli.__file__).parents[1]
    assert not (package / "kube").exists(), "grant what it uses, and mount a token"
    assert BY_KIND["ClusterRole"]["rules"] == []
    assert POD["automountServiceAccountToken"] is False


def test_the_configuration_is_valid():
    assert SETTINGS.tuning.observe is False


def test_the_configuration_lies_where_the_flag_says():
    mount = mount_of(FLAGS.config)
    volume = VOLUMES[mount["name"]]
    assert mount["mountPath"] == str(PurePosixPath(FLAGS.config).parent)
    assert "subPath" not in mount, "a subPath is never updated"
    assert volume["configMap"]["name"] == BY_KIND["ConfigMap"]["metadata"]["name"]


def test_every_config_map_key_is_the_file_read():
    assert list(BY_KIND["ConfigMap"]["data"]) == [CONFIG_NAME]


@pytest.mark.parametrize("socket", [SETTINGS.nri_socket, SETTINGS.cri_socket], ids=["nri", "cri"])
def test_a_socket_is_mounted_by_its_folder(socket):
    folder = str(PurePosixPath(socket).parent)
    assert mount_of(socket)["mountPath"] == folder
    assert mount_of(socket)["readOnly"] is True
    assert host_path(socket)["path"] == folder
    assert host_path(socket)["type"] in ("Directory", "DirectoryOrCreate")


def test_no_volume_is_a_socket_or_a_file():
    kinds = {v["hostPath"]["type"] for v in VOLUMES.values() if "hostPath" in v}
    assert kinds <= {"Directory", "DirectoryOrCreate"}


@pytest.mark.parametrize(
    "path", [SETTINGS.cri_socket, f"{FLAGS.host_root}{kubelet.FOLDER}"], ids=["containerd", "kubelet"]
)
def test_the_mounts_of_pods_leave_our_view_with_them(path):
    assert mount_of(path)["mountPropagation"] == "HostToContainer"


@pytest.mark.parametrize(
    ("path", "read_only"),
    [("/sys", True), ("/sys/fs/cgroup", False), ("/proc", False), (kubelet.FOLDER, True)],
    ids=["sys", "cgroup", "proc", "kubelet"],
)
def test_the_host_lies_below_the_host_root(path, read_only):
    below = f"{FLAGS.host_root}{path}"
    assert mount_of(below)["mountPath"] == below
    assert host_path(below)["path"] == path
    assert mount_of(below).get("readOnly", False) is read_only


@pytest.mark.parametrize(
    "folder",
    [
        FLAGS.state_dir or daemon_options.DEFAULT_STATE_DIR,
        str(PurePosixPath(FLAGS.admin_socket or daemon_options.DEFAULT_ADMIN_SOCKET).parent),
    ],
    ids=["state", "admin socket"],
)
def test_a_written_folder_is_on_the_host(folder):
    assert mount_of(folder)["mountPath"] == folder
    assert host_path(folder) == {"path": folder, "type": "DirectoryOrCreate"}
    assert "readOnly" not in mount_of(folder)


def test_the_admin_sockets_folder_has_nothing_else_in_it():
    folder = str(PurePosixPath(FLAGS.admin_socket or daemon_options.DEFAULT_ADMIN_SOCKET).parent)
    assert [path for path in MOUNTS if path.startswith(f"{folder}/")] == []


def test_every_mount_has_a_volume_and_every_volume_a_mount():
    assert {mount["name"] for mount in MOUNTS.values()} == set(VOLUMES)
    assert len(MOUNTS) == len(CONTAINER["volumeMounts"])


def test_the_probe_asks_where_the_program_listens():
    host, port = endpoint.split(FLAGS.http or SETTINGS.http)
    assert (PROBE["host"], PROBE["port"]) == (host, port)
    assert PROBE["path"] in http._ROUTES


def test_probes_and_program_agree_about_the_default():
    assert SETTINGS.http == Settings().http


def test_readiness_is_asked_of_readyz():
    assert PROBE["path"] == "/readyz"


def test_no_process_with_its_port_has_it_restarted():
    assert "livenessProbe" not in CONTAINER


def test_loopback_is_the_nodes_own():
    assert POD["hostNetwork"] is True


def test_it_is_on_every_linux_node_and_goes_last():
    assert POD["tolerations"] == [{"operator": "Exists"}]
    assert POD["nodeSelector"] == {"kubernetes.io/os": "linux"}
    assert POD["priorityClassName"] == "system-node-critical"


def test_it_is_never_best_effort_and_never_throttled():
    requests, limits = CONTAINER["resources"]["requests"], CONTAINER["resources"]["limits"]
    assert int(requests["cpu"].removesuffix("m")) >= 250
    assert "cpu" not in limits


def test_its_memory_fits_the_budget_with_room():
    requests, limits = CONTAINER["resources"]["requests"], CONTAINER["resources"]["limits"]
    assert PSS_BUDGET_MIB < mebibytes(requests["memory"]) <= mebibytes(limits["memory"])
    assert mebibytes(limits["memory"]) >= 2 * PSS_BUDGET_MIB


def test_it_may_do_no_more_than_it_must():
    context = CONTAINER["securityContext"]
    assert context["readOnlyRootFilesystem"] is True
    assert context["allowPrivilegeEscalation"] is False
    assert context["privileged"] is False
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert context["capabilities"]["drop"] == ["ALL"]


def test_the_numbers_of_processes_are_the_hosts_as_scheduling_hints_need():
    assert SETTINGS.tuning.reclaim.hints.offline_policy
    assert POD["hostPID"] is True
    assert "SYS_NICE" in CONTAINER["securityContext"]["capabilities"]["add"]


def test_every_capability_has_a_reason_beside_it():
    lines = TEXT.splitlines()
    for name in CONTAINER["securityContext"]["capabilities"]["add"]:
        at = next(n for n, line in enumerate(lines) if re.fullmatch(rf"\s*- {name}", line))
        assert lines[at - 1].lstrip().startswith("#"), name


def test_an_update_cannot_wait_for_the_replaced_copys_lock():
    strategy = BY_KIND["DaemonSet"]["spec"]["updateStrategy"]
    assert strategy["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}


def test_its_end_has_more_time_than_it_takes():
    assert 2 < POD["terminationGracePeriodSeconds"] <= 10
