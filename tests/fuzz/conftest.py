"""How many inputs each fuzz test makes up: `--fuzz-inputs`."""

import pytest


@pytest.fixture
def fuzz_inputs(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("--fuzz-inputs", default=2000))
