"""A watch whose API server comes back with an etcd that was restored from a backup."""

from collections.abc import Iterator
from itertools import count
from threading import Event, Thread

import pytest

from nri_coloc.core.backoff import Backoff
from nri_coloc.kubernetes.api import Api, Object
from nri_coloc.kubernetes.watching import Collection, Problems, Unreadable, Watch, version_of
from tests.cluster.api import kit
from tests.cluster.api_server import ApiServer, node, pod
from tests.rig.waiting import wait_until

ONLY_NEWEST = True
SOON_S = 30.0


@pytest.fixture
def admin(server: ApiServer) -> Iterator[Api]:
    found = server.admin()
    found.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
    found.create("/api/v1/nodes", node("a"))
    yield found
    found.close()


class Pods:
    """The pods that a watch knows, and the version of the newest change."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.version = 0

    def replace(self, listed: Iterator[Object]) -> None:
        """Take a list."""
        self.names = {each["metadata"]["name"] for each in listed}

    def take(self, kind: str, found: Object) -> None:
        """Take one change."""
        name = found["metadata"]["name"]
        (self.names.discard if kind == "DELETED" else self.names.add)(name)
        self.version = int(version_of(found))


class Away(Backoff):
    """Short pauses, except that the retry after the second failed try waits for `returns`."""

    def __init__(self) -> None:
        super().__init__(lambda: 0.0)
        self.failures = 0
        self.returns = Event()

    def failed(self, at_least_s: float = 0.0) -> float:
        """Return the seconds until the next try."""
        del at_least_s
        self.failures += 1
        if self.failures >= 2:
            self.returns.wait()
        return 0.1


def test_a_restored_etcd_leaves_no_former_object(server: ApiServer, admin: Api):
    admin.create(kit.PODS, pod("old", on="a"))
    server.back_up()
    known, stop, away, problems = Pods(), Event(), Away(), list[str]()
    told = Problems(problems.append, Unreadable("pod", problems.append))
    watch = Watch(admin, Collection("/api/v1/pods"), known, told, backoff=away)
    thread = Thread(target=watch.run, args=(stop,))
    thread.start()
    try:
        wait_until(lambda: known.names == {"old"}, SOON_S, "the pod of the backup")
        admin.create(kit.PODS, pod("lost", on="a"))
        wait_until(lambda: "lost" in known.names, SOON_S, "the pod that the backup lacks")
        server.restore(lambda: wait_until(lambda: away.failures >= 2, SOON_S, "two failures"))
        pass_version(admin, known.version)
        away.returns.set()
        wait_until(lambda: known.names == {"old"}, SOON_S, "the pods of the backup alone")
    finally:
        stop.set()
        away.returns.set()
        admin.close()
        thread.join(SOON_S)


def pass_version(admin: Api, version: int) -> None:
    """Change the node until the API server's version is above this one."""
    for turn in count():
        changed = admin.merge("/api/v1/nodes/a", {"metadata": {"labels": {"turn": str(turn)}}})
        if int(version_of(changed)) > version + 1:
            return
