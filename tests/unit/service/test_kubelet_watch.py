"""service/kubelet_watch.py, hooks/translation.py: a pod that the kubelet has pinned is left alone."""

import json
from pathlib import Path
from typing import Any

import pytest

from nri_coloc.core.settings import Tuning
from nri_coloc.core.workload import KEPT_BY_KUBELET, Container, Pod
from nri_coloc.host import kubelet
from nri_coloc.placing import reclaim_cgroups
from nri_coloc.service.kubelet_watch import KubeletWatch
from tests.unit.parts import a_translator

REFUSE, PRESERVE = Tuning(), Tuning(preserve_kubelet=True)


def keep(root: Path, policy: str = "static", **entries: dict[str, str]) -> None:
    write(root, json.dumps({"policyName": policy, "entries": entries}))


def write(root: Path, text: str) -> None:
    path = Path(kubelet.files(str(root))[0])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".tmp").write_text(text)
    path.with_suffix(".tmp").replace(path)


class TestWatch:
    def test_nothing_new_is_nothing_to_tell(self, tmp_path):
        keep(tmp_path, uid={"app": "1"})
        assert KubeletWatch(str(tmp_path)).look() is False

    def test_each_change_of_a_file_is_reported(self, tmp_path):
        watch = KubeletWatch(str(tmp_path))
        keep(tmp_path, uid={"app": "1"})
        assert (watch.look(), watch.look(), watch.found.exclusive) == (True, False, 0b10)
        keep(tmp_path, uid={"app": "2"})
        assert (watch.look(), watch.found.exclusive) == (True, 0b100)
        Path(kubelet.files(str(tmp_path))[0]).unlink()
        assert (watch.look(), watch.found.policy) == (True, "none")

    def test_a_file_with_equal_content_is_no_change(self, tmp_path):
        keep(tmp_path)
        watch = KubeletWatch(str(tmp_path))
        keep(tmp_path)
        assert watch.look() is False

    @pytest.mark.parametrize("tuning", [REFUSE, PRESERVE], ids=["refuse", "preserve-kubelet"])
    def test_the_entries_count_under_both_settings(self, tmp_path, tuning):
        keep(tmp_path, uid={"app": "1"})
        watch = KubeletWatch(str(tmp_path))
        assert watch.over(tuning).kept_by_kubelet == {"uid": {"app": 0b10}}

    def test_a_broken_file_takes_nothing_back(self, tmp_path):
        keep(tmp_path, uid={"app": "1"})
        watch = KubeletWatch(str(tmp_path))
        write(tmp_path, "{")
        assert watch.look() is True
        assert watch.over(PRESERVE).kept_by_kubelet == {"uid": {"app": 0b10}}
        assert "CPUs 1" in watch.problem(PRESERVE)
        assert "not a state file" in watch.words()

    def test_a_broken_file_ends_no_refusal(self, tmp_path):
        keep(tmp_path, uid={"app": "1"})
        watch = KubeletWatch(str(tmp_path))
        write(tmp_path, "{")
        watch.look()
        problem = watch.problem(REFUSE)
        assert kubelet.MEND in problem
        assert "not a state file" in problem

    def test_a_file_that_was_never_read_is_a_remark(self, tmp_path):
        write(tmp_path, "{")
        watch = KubeletWatch(str(tmp_path))
        assert watch.problem(REFUSE) == ""
        assert "whether it pins containers is unknown" in watch.remark(REFUSE)
        assert kubelet.MEND_FILE in watch.remark(REFUSE)
        assert watch.remark(PRESERVE) == ""

    def test_a_valid_file_has_no_remark(self, tmp_path):
        keep(tmp_path)
        assert KubeletWatch(str(tmp_path)).remark(REFUSE) == ""

    @pytest.mark.parametrize(
        ("policy", "tuning", "told"),
        [
            ("static", REFUSE, True),
            ("static", PRESERVE, False),
            ("none", REFUSE, False),
            ("none", PRESERVE, False),
        ],
        ids=["refused", "preserved", "none", "none-preserved"],
    )
    def test_a_static_manager_is_a_problem_where_refused(self, tmp_path, policy, tuning, told):
        keep(tmp_path, policy)
        assert (kubelet.MEND in KubeletWatch(str(tmp_path)).problem(tuning)) is told

    @pytest.mark.parametrize(
        ("policy", "words"), [("static", "to CPUs 1"), ("none", "pins nothing")], ids=["static", "none"]
    )
    def test_what_was_found_is_said(self, tmp_path, policy, words):
        keep(tmp_path, policy, uid={"app": "1"})
        assert words in KubeletWatch(str(tmp_path)).words()


class TestWishes:
    translator = a_translator(Tuning())

    def wish(self, kept: dict[str, dict[str, int]], **pod: Any) -> Any:
        found = Pod("p", "uid", "web", "shop", **pod)
        return self.translator.wish(found, Container("c", "p", "app"), Tuning(kept_by_kubelet=kept))

    @pytest.mark.parametrize("name", ["app", ""], ids=["by-name", "whole-pod"])
    def test_what_is_pinned_is_left_alone(self, name):
        wish = self.wish({"uid": {name: 0b1100}})
        assert wish.preserve == {"cpu", KEPT_BY_KUBELET}
        assert wish.because == "the kubelet's CPU manager has pinned it to CPUs 2-3"

    @pytest.mark.parametrize(
        "kept",
        [{}, {"uid": {"other": 1}}, {"another": {"app": 1}}],
        ids=["nothing", "another-container", "another-pod"],
    )
    def test_everyone_else_is_ours(self, kept):
        assert self.wish(kept).preserve == frozenset()

    def test_a_pinned_container_leaves_its_reclaimed_pod_unlimited(self):
        pod = Pod("p", "uid", "web", "shop", cgroup_parent="/kubepods/besteffort/poduid")
        plain = self.translator.pod_wish(pod, Tuning())
        kept = self.translator.pod_wish(pod, Tuning(kept_by_kubelet={"uid": {"app": 1}}))
        assert (reclaim_cgroups.belongs(plain), reclaim_cgroups.belongs(kept)) == (True, False)
        assert not kept.plain
