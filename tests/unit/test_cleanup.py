"""The clean-up of a rig keeps folders that another rig may have mounted over."""

from pathlib import Path

import pytest

from tests.rig import cleanup


def test_the_folder_above_the_shims_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    sockets = tmp_path / "containerd" / "s"
    sockets.mkdir(parents=True)
    monkeypatch.setattr(cleanup, "SHIM_SOCKETS", sockets)
    cleanup.clear(cleanup.Traces(tmp_path / "rig", (), frozenset(), ()))
    assert not sockets.exists()
    assert sockets.parent.is_dir()
