"""One containerd, the newest, for the whole soak, and a daemon that lends on it."""

import os
from collections.abc import Iterator

import pytest

from tests.rig import cleanup
from tests.rig.containerd import Containerd, bring_up
from tests.rig.daemon import Daemon

# a daemon has a full ring after a day; a ring that still fills up would look like a leak
CONFIG = "reclaim:\n  enabled: true\ntelemetry:\n  auditRing: 100\n"


@pytest.fixture(scope="module")
def containerd() -> Iterator[Containerd]:
    if os.geteuid() != 0:
        pytest.skip("a real containerd needs root")
    found = bring_up("2")
    try:
        yield found
    finally:
        found.stop()
    assert [left for traces in found.stopped for left in cleanup.leftovers(traces)] == []


@pytest.fixture(scope="module")
def daemon(containerd: Containerd) -> Iterator[Daemon]:
    with Daemon(containerd, config=CONFIG) as found:
        found.wait_ready()
        yield found
