"""host/kubelet.py: the kubelet's state file and its configuration show the CPU manager's policy and pinned CPUs."""

import json
import os
from pathlib import Path

import pytest

from nri_coloc.core import cpuset
from nri_coloc.host import kubelet
from nri_coloc.host.kubelet import CPUManager

ENTRIES = {"uid-web": {"app": "2-3", "proxy": "4"}}


def state(policy: object = "static", **fields: object) -> str:
    return json.dumps({"policyName": policy, "defaultCpuSet": "0-1,5-7", "checksum": 1, **fields})


def read(content: str) -> CPUManager:
    return kubelet.of_state(content, "the state file")


def host(root: Path, *, state_file: str | None = None, config: str | None = None) -> str:
    for path, content in zip(kubelet.files(str(root)), (state_file, config), strict=True):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        if content is not None:
            Path(path).write_text(content)
    return str(root)


class TestStateFile:
    def test_the_entries_are_pinned_cpus_by_pod_and_container(self):
        found = read(state(entries=ENTRIES))
        assert found.policy == "static"
        assert found.entries == {"uid-web": {"app": 0b1100, "proxy": 0b10000}}
        assert cpuset.render(found.exclusive) == "2-4"

    def test_a_static_manager_may_have_pinned_nothing_yet(self):
        assert read(state()) == CPUManager("static", {}, "the state file", default=0b11100011)

    @pytest.mark.parametrize(
        ("facts", "cpus"), [({"defaultCpuSet": "2-7"}, "2-7"), ({"defaultCpuSet": ""}, ""), ({}, "0-1,5-7")]
    )
    def test_the_default_set_is_known(self, facts, cpus):
        assert cpuset.render(read(state(**facts)).default) == cpus

    def test_a_default_set_of_another_kind_is_no_state(self):
        assert read(state(defaultCpuSet=7)).policy == "unknown"

    def test_none_is_none_whatever_else_it_says(self):
        assert read(state("none", entries=ENTRIES)) == CPUManager("none", source="the state file")

    def test_a_whole_pod_may_be_pinned(self):
        found = read(state(entries=ENTRIES, podEntries={"uid-web": {"cpuSet": "2-5"}, "b": {"cpuSet": "6"}}))
        assert found.entries["uid-web"] == {"app": 0b1100, "proxy": 0b10000, "": 0b111100}
        assert found.entries["b"] == {"": 0b1000000}

    def test_newer_kubelets_say_it_again_in_a_text_that_counts(self):
        inner = state(entries={"uid-web": {"app": "6"}})
        assert read(state(entries=ENTRIES, data=inner)).entries == {"uid-web": {"app": 1 << 6}}

    @pytest.mark.parametrize(
        "content",
        [
            "",
            "{",
            "[]",
            "null",
            state(entries={"0a1b": "2-3"}),
            state(entries={"uid": {"app": "3-2"}}),
            state(entries={"uid": {"app": 3}}),
            state(entries=["uid"]),
            state(podEntries={"uid": {}}),
            state(data="{"),
            state("fancy"),
            state(None),
            "[" * 100_000,
        ],
        ids=[
            *(
                "empty",
                "torn",
                "list",
                "null",
                "by-container-id",
                "not-a-cpulist",
                "number",
                "entries-a-list",
            ),
            *("pod-without-cpus", "torn-data", "unknown-policy", "no-policy", "nested"),
        ],
    )
    def test_what_makes_no_sense_is_unknown_with_a_sentence(self, content):
        found = read(content)
        assert (found.policy, found.exclusive) == ("unknown", 0)
        assert "the state file" in found.problem


class TestConfiguration:
    @pytest.mark.parametrize(
        ("content", "policy"),
        [
            ("kind: KubeletConfiguration\ncpuManagerPolicy: static\n", "static"),
            ('cpuManagerPolicy: "static"  # pinned\n', "static"),
            ("'cpuManagerPolicy' : 'static'", "static"),
            ('{"kind": "KubeletConfiguration", "cpuManagerPolicy": "static"}', "static"),
            ("cpuManagerPolicy: none", "none"),
            ("cpuManagerPolicy:\n", "none"),
            ("kind: KubeletConfiguration\n", "none"),
            ("# cpuManagerPolicy: static\n", "none"),
            ("cpuManagerPolicyOptions:\n  cpuManagerPolicy: static\n", "none"),
            ("", "none"),
            ('{"kind": "KubeletConfiguration"}', "none"),
        ],
        ids=[
            *("plain", "quoted", "quoted-key", "json", "none", "empty-value", "absent", "commented-out"),
            *("of-a-section", "empty", "absent-in-json"),
        ],
    )
    def test_the_one_key_is_found(self, content, policy):
        assert kubelet.of_config(content, "f").policy == policy

    @pytest.mark.parametrize("content", ["cpuManagerPolicy: fancy", "{", '{"cpuManagerPolicy": 7}'])
    def test_anything_else_is_unknown_with_a_sentence(self, content):
        found = kubelet.of_config(content, "its configuration")
        assert found.policy == "unknown"
        assert "its configuration" in found.problem


class TestHost:
    def test_a_pipe_is_not_waited_for(self, tmp_path):
        root = host(tmp_path)
        for path in kubelet.files(root):
            os.mkfifo(path)
        assert kubelet.read(root).policy == "unknown"

    def test_no_folder_is_no_manager(self, tmp_path):
        assert kubelet.read(str(tmp_path)) == CPUManager("none")

    def test_the_state_file_goes_before_the_configuration(self, tmp_path):
        root = host(tmp_path, state_file=state("none"), config="cpuManagerPolicy: static")
        found = kubelet.read(root)
        assert (found.policy, found.source) == ("none", kubelet.files(root)[0])

    def test_the_configuration_counts_while_there_is_no_state_file(self, tmp_path):
        root = host(tmp_path, config="cpuManagerPolicy: static")
        found = kubelet.read(root)
        assert (found.policy, found.source) == ("static", kubelet.files(root)[1])

    def test_what_cannot_be_read_is_unknown_with_a_sentence(self, tmp_path):
        Path(kubelet.files(str(tmp_path))[0]).mkdir(parents=True)
        found = kubelet.read(str(tmp_path))
        assert found.policy == "unknown"
        assert "cpu_manager_state" in found.problem

    @pytest.mark.parametrize("number", [0, 1], ids=["state", "configuration"])
    def test_huge_file_is_unknown_with_a_remedy(self, tmp_path, number):
        path = Path(kubelet.files(str(tmp_path))[number])
        path.parent.mkdir(parents=True)
        path.write_text("# a comment\n" * 100_000 + "cpuManagerPolicy: static\n")
        found = kubelet.read(str(tmp_path))
        assert (found.policy, found.source) == ("unknown", str(path))
        assert "more than 1 MiB" in found.problem

    def test_a_host_root_may_end_in_a_slash(self, tmp_path):
        root = host(tmp_path, state_file=state(entries=ENTRIES))
        assert kubelet.read(f"{root}/") == kubelet.read(root)
        assert kubelet.files("/")[0] == kubelet.STATE_FILE
