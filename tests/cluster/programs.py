"""All programs that a pair of versions needs on this machine: installed, downloaded or compiled the first time.

On a fresh machine that takes half an hour. So it begins beside the first test that may run beside a compiler, at the
lowest priority; a test on a cluster waits for the rest.
"""

from threading import Thread
from typing import Final

import pytest

from tests.cluster import binaries, product_image
from tests.cluster.binaries import Pair
from tests.rig import RigError, installed
from tests.rig.order import bears_a_machine

PACKAGES: Final = {
    "ip": "iproute2",
    "unshare": "util-linux",
    "openssl": "openssl",
    "buildah": "buildah",
    "debootstrap": "debootstrap",
}


def prepare(pair: Pair) -> None:
    """Install, download or compile all programs of a pair, and build the image of the product."""
    installed.have(PACKAGES)
    binaries.etcd()
    binaries.cni()
    binaries.containerd_of(pair)
    for build in binaries.builds_of(pair):
        binaries.programs(build)
    product_image.archive()


class Ahead:
    """Prepare the pairs beside the first test that allows it, as a plugin of pytest."""

    def __init__(self, pairs: tuple[Pair, ...]) -> None:
        self._pairs = pairs
        self._preparing = Thread(target=self._prepare, name="cluster-programs", daemon=True)

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Begin the work; a test that needs a missing program waits for the lock of the cache."""
        if bears_a_machine(item) and self._preparing.ident is None:
            self._preparing.start()

    def _prepare(self) -> None:
        for pair in self._pairs:
            try:
                prepare(pair)
            except RigError:  # the fixture tries again, and its test shows the cause
                return
