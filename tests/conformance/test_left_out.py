"""Where a version's modules cannot be had, that is told in words that say which, and nothing half made is kept."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.rig import RigError, go_compiler, go_programs, waiting
from tests.rig.go_programs import NEWEST


def test_a_version_whose_modules_no_proxy_gives_is_told_as_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    try:
        compiler = go_compiler.found()
    except RigError as error:
        pytest.skip(f"no Go: {error}")
    nothing = {"GOPROXY": "off", "GOMODCACHE": f"{tmp_path}/modules", "GOCACHE": f"{tmp_path}/build"}
    alone = replace(compiler, environment={**compiler.environment, **nothing})
    monkeypatch.setattr(go_compiler, "found", lambda: alone)
    monkeypatch.setattr(waiting, "PAUSE_SECONDS", 0)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(RigError, match=rf"(?s)containerd/nri v{NEWEST.nri}\n.*lookup disabled"):
        go_programs.built(NEWEST)
    assert [path.name for path in (tmp_path / "cache/nri-coloc/conformance").iterdir()] == [".lock"]
