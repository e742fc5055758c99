"""The machines of this folder."""

from pathlib import Path

import pytest

from tests.unit.restore.rig import Rig


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def rig(tmp_path: Path, request: pytest.FixtureRequest) -> Rig:
    return Rig(tmp_path, request.param)


@pytest.fixture
def v1(tmp_path: Path) -> Rig:
    return Rig(tmp_path, 1)


@pytest.fixture
def v2(tmp_path: Path) -> Rig:
    return Rig(tmp_path, 2)
