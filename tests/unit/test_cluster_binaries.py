"""The programs of a Kubernetes node on a machine that has none of them yet."""

import re
from pathlib import Path

import pytest

from tests.cluster import binaries

VERSIONS = sorted((binaries.SOURCES / "versions").glob("*.mod"))


def wanted_go(module: Path) -> tuple[int, ...]:
    """Return the version of Go that a module file requires."""
    found = re.search(r"^go ([\d.]+)$", module.read_text(), re.MULTILINE)
    assert found
    return tuple(map(int, found[1].split(".")))


def test_root_module_asks_for_the_newest_go():
    assert wanted_go(binaries.SOURCES / "go.mod") == max(map(wanted_go, VERSIONS))


def test_empty_cache_leaves_one_pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert binaries.in_time() == binaries.PAIRS[:1]


def test_cached_pairs_are_all_played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for build in (build for pair in binaries.PAIRS for build in binaries.builds_of(pair)):
        build.folder.mkdir(exist_ok=True)
    assert binaries.in_time() == binaries.PAIRS
