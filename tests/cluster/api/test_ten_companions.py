"""Ten companions whose API server restarts at once for all of them."""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Final

import pytest

from nri_coloc.kubernetes.api import Api
from nri_coloc.kubernetes.presets import DEFAULT, Amounts
from nri_coloc.pods import quantity
from tests.cluster.api import kit
from tests.cluster.api_server import ApiServer, node
from tests.cluster.companion_rig import GIB, OFFER, CompanionRig, reporting_for
from tests.rig.waiting import wait_until

ONLY_NEWEST = True
NAMES: Final = [f"n{number}" for number in range(10)]
RENEWED_MILLI: Final = 1700
"""The offer after the outage."""


@pytest.fixture
def admin(server: ApiServer) -> Iterator[Api]:
    found = server.admin()
    kit.apply(server)
    for name in NAMES:
        found.create("/api/v1/nodes", node(name))
        found.create(kit.COMPANIONS, kit.companion_pod(name))
    yield found
    found.close()


@pytest.fixture
def rigs(server: ApiServer, admin: Api) -> Iterator[list[CompanionRig]]:
    """Ten companions whose nodes show their offers."""
    with ExitStack() as ends:
        found = []
        for name in NAMES:
            kit.companion_on(server, admin, name).close()
            kubeconfig = server.folder / f"companion-{name}.kubeconfig"
            found.append(ends.enter_context(reporting_for(name, kubeconfig)))
        wait_until(lambda: shown(admin) == {2000}, 60, "ten reports")
        yield found


def shown(admin: Api) -> set[int]:
    """Return the lent CPU that the nodes show, milli-CPU."""
    nodes = [admin.get(f"/api/v1/nodes/{name}") for name in NAMES]
    return {quantity.whole_bytes(each["status"]["allocatable"].get(DEFAULT.cpu, "0")) for each in nodes}


def lists(server: ApiServer, resource: str) -> int:
    """Return the number of lists of all nodes' objects since the API server started."""
    pattern = rf'^apiserver_request_total\{{.*resource="{resource}",scope="cluster",.*verb="LIST".*\}} (\d+)$'
    return sum(map(int, re.findall(pattern, server.kubectl("get", "--raw=/metrics"), re.MULTILINE)))


def test_ten_companions_outlast_a_restart(server: ApiServer, admin: Api, rigs: list[CompanionRig]):
    server.stop_server()
    for each in rigs:
        each.state = OFFER._replace(offer=Amounts(RENEWED_MILLI, 4 * GIB))
    server.start_server()
    wait_until(lambda: shown(admin) == {RENEWED_MILLI}, 60, "ten renewed reports")
    assert len(NAMES) <= lists(server, "pods") <= 2 * len(NAMES)
