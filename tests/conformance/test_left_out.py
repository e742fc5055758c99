"""If a version's modules cannot be had, the error names them, and no half-made file is kept."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.rig import RigError, go_compiler
from tests.rig.daemon import PROJECT
from tests.rig.go_programs import NEWEST

BUILD = """
from tests.rig import waiting
from tests.rig.go_programs import NEWEST, built
waiting.PAUSE_SECONDS = 0
built(NEWEST)
"""


def test_a_version_whose_modules_no_proxy_gives_is_told_as_missing(tmp_path: Path):
    try:
        found = Path(go_compiler.found().command).parent
    except RigError as error:
        pytest.skip(f"no Go: {error}")
    path = f"{found}:{os.environ.get('PATH', os.defpath)}"
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "GOPROXY": "off", "PATH": path}
    command = [sys.executable, "-c", BUILD]
    done = subprocess.run(
        command, cwd=PROJECT, env=env, capture_output=True, text=True, check=False, timeout=120
    )
    assert f"RigError: {found}/go build failed" in done.stderr
    assert f"containerd/nri v{NEWEST.nri}" in done.stderr
    assert "module lookup disabled" in done.stderr
    assert [path.name for path in (tmp_path / "nri-coloc/conformance").iterdir()] == [".lock"]
