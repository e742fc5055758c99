"""The test bed of the fast sampler, on both versions of cgroups."""

import pytest

from tests.rig import open_files
from tests.unit.lending.fast_bed import Bed


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def bed(request, tmp_path):
    made = Bed(tmp_path, request.param)
    yield made
    made.sampler.close()
    assert made.sampler.open_files == 0
    assert open_files.below(tmp_path) == 0
