"""The option for the number of inputs of each fuzz test: `--fuzz-inputs`."""

import pytest


@pytest.fixture
def fuzz_inputs(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("--fuzz-inputs", default=2000))
