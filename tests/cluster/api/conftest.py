"""A real API server without a node: nodes and pods are objects that the tests make."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.api_server import ApiServer
from tests.cluster.binaries import PAIRS, in_time
from tests.rig import installed


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Play each test on the oldest and the newest Kubernetes, if their programs are there.

    A module with `ONLY_NEWEST` is played on the newest alone: its tests need no part that differs between them.
    """
    if "server" in metafunc.fixturenames:
        pairs = in_time() if metafunc.config.getoption("--tier") else PAIRS
        versions = [pair.kubernetes for pair in pairs]
        if getattr(metafunc.module, "ONLY_NEWEST", False):
            versions = versions[-1:]
        metafunc.parametrize("server", versions, indirect=True, scope="module")


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest) -> Iterator[ApiServer]:
    if os.geteuid() != 0:
        pytest.skip("the programs of Kubernetes are installed as root")
    installed.have({"openssl": "openssl"})
    found = ApiServer(request.param, Path(tempfile.mkdtemp(prefix="api-server-")))
    try:
        found.start()
        yield found
    finally:
        found.stop()
