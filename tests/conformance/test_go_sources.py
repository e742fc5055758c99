"""The Go program is formatted, and each version's module files name that version."""

import re
import subprocess

import pytest

from tests.rig import RigError, go_compiler
from tests.rig.go_programs import EDITIONS, SOURCES, Edition

BY_VERSION = pytest.mark.parametrize("edition", EDITIONS, ids=lambda one: f"nri-{one.nri}")


def test_the_sources_are_formatted():
    try:
        gofmt = go_compiler.found().gofmt
    except RigError as error:
        pytest.skip(f"gofmt: {error}")
    done = subprocess.run([gofmt, "-l", "."], cwd=SOURCES, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@BY_VERSION
def test_a_versions_modules_are_pinned(edition: Edition):
    modules = (SOURCES / f"versions/{edition.nri}.mod").read_text()
    sums = (SOURCES / f"versions/{edition.nri}.sum").read_text()
    assert re.findall(r"github\.com/containerd/nri v(\S+)", modules) == [edition.nri]
    assert f"github.com/containerd/nri v{edition.nri} h1:" in sums


@BY_VERSION
def test_every_version_builds_with_a_fetchable_compiler(edition: Edition):
    modules = (SOURCES / f"versions/{edition.nri}.mod").read_text()
    wanted = re.search(r"^go (\d+)\.(\d+)", modules, re.MULTILINE)
    assert wanted
    assert (int(wanted[1]), int(wanted[2])) <= go_compiler.AT_LEAST


def test_every_module_file_belongs_to_a_version():
    assert {path.stem for path in (SOURCES / "versions").iterdir()} == {edition.nri for edition in EDITIONS}
