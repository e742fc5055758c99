"""`kubectl apply -k deploy` has every part, and changes of the daemon only what its second socket needs."""

from pathlib import Path
from typing import Any

import yaml

from nri_coloc.core.settings import KubernetesSettings
from nri_coloc.service import options
from nri_coloc.service.configuration import loading

DEPLOY = Path(__file__).parents[3] / "deploy"
KUSTOMIZATION: dict[str, Any] = yaml.safe_load((DEPLOY / "kustomization.yaml").read_text())
PATCHES = {each["target"]["kind"]: yaml.safe_load(each["patch"]) for each in KUSTOMIZATION["patches"]}
BASE = {each["kind"]: each for each in yaml.safe_load_all((DEPLOY / "daemonset.yaml").read_text())}
CONFIG = "config.yaml"


def test_it_has_every_manifest():
    found = {path.relative_to(DEPLOY).as_posix() for path in DEPLOY.glob("cluster/*.yaml")}
    assert set(KUSTOMIZATION["resources"]) == {"daemonset.yaml", *found}


def test_each_patch_finds_its_object():
    for each in KUSTOMIZATION["patches"]:
        assert BASE[each["target"]["kind"]]["metadata"]["name"] == each["target"]["name"]


def test_the_daemon_gets_the_folder_of_the_second_socket():
    group, mount, volume = (each["value"] for each in PATCHES["DaemonSet"])
    folder = str(Path(options.DEFAULT_CLUSTER_SOCKET).parent)
    assert group == {"supplementalGroups": [KubernetesSettings().companion_gid]}
    assert mount == {"name": volume["name"], "mountPath": folder}
    assert volume["hostPath"] == {"path": folder, "type": "DirectoryOrCreate"}


def test_its_configuration_differs_in_one_section():
    with_section = yaml.safe_load(PATCHES["ConfigMap"]["data"][CONFIG])
    section = with_section.pop("kubernetes")
    assert with_section == yaml.safe_load(BASE["ConfigMap"]["data"][CONFIG])
    assert section == {"report": "status", "evict": False}


def test_its_configuration_is_valid():
    settings = loading.load(PATCHES["ConfigMap"]["data"][CONFIG], "the ConfigMap")
    assert settings.kubernetes.report is True
