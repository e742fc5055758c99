"""For any content of the kubelet's files, the policy is none, static or unknown, and unknown has a reason."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from nri_coloc.core import cpuset
from nri_coloc.host import kubelet
from nri_coloc.host.kubelet import CPUManager
from tests.fuzz import corpus


def of_state(data: bytes) -> None:
    judged(kubelet.of_state(os.fsdecode(data), "file"))


def of_config(data: bytes) -> None:
    judged(kubelet.of_config(os.fsdecode(data), "file"))


def judged(found: CPUManager) -> None:
    assert found.policy in ("none", "static", "unknown")
    assert bool(found.problem) == (found.policy == "unknown")
    assert len(found.problem) < 1000
    assert 0 <= found.exclusive < 1 << (cpuset.MAX_CPU_ID + 1)
    assert found.policy == "static" or not found.entries


CHECKS: Final[Mapping[str, corpus.Check]] = {"kubelet_state": of_state, "kubelet_config": of_config}


@corpus.replayed(*CHECKS)
def test_a_kept_file_of_the_kubelet_is_read_or_refused(seed: Path):
    CHECKS[seed.parent.name](seed.read_bytes())


@pytest.mark.parametrize("noun", CHECKS)
def test_any_file_of_the_kubelet_is_read_or_refused(noun: str, fuzz_inputs: int):
    corpus.made_up(noun, CHECKS[noun], fuzz_inputs)


def test_the_kept_state_files_are_not_all_refused():
    found = [
        kubelet.of_state(path.read_text(errors="replace"), "file") for path in corpus.seeds("kubelet_state")
    ]
    assert {"none", "static"} <= {manager.policy for manager in found}
    assert any(manager.exclusive for manager in found)
