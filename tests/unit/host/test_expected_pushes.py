"""host/expected_pushes.py: original values stay journalled until the runtime has answered a push."""

from pathlib import Path

import pytest

from nri_coloc.core.knobs import Knobs
from nri_coloc.host.bandwidth_files import PodBandwidth, Share
from tests.rig.journals import restored
from tests.unit.host.host import SHARES, Host

OWN = 50_000
APP = "pod/app"


class Pushed(Host):
    """A host with a pod of one container, both with a quota of the kubelet's."""

    def __init__(self, root: Path, version: int) -> None:
        super().__init__(root, version)
        for path in ("pod", APP):
            self.write_quota(OWN, path)

    def write_quota(self, quota: int, path: str = APP) -> None:
        limit = "max" if quota < 0 else quota
        if self.version == 1:
            self.cgroup(path, cpu_cfs_quota_us=str(quota))
        else:
            self.cgroup(path, cpu_max=f"{limit} 100000")

    def quota(self) -> str:
        name = "cpu.cfs_quota_us" if self.version == 1 else "cpu.max"
        return self.text(name, APP).partition(" ")[0]

    def bandwidth(self, share: Share, now: float = 0.0) -> None:
        self.writer.bandwidth(PodBandwidth("pod", {APP: share}), now)

    def restore(self) -> None:
        restored(self.journal_path, self.root, self.version)


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def host(tmp_path, request):
    return Pushed(tmp_path, request.param)


def test_a_look_at_an_own_quota_before_its_push_drops_none(host):
    host.writer.remember(APP, Knobs(quota=20_000))
    host.bandwidth(Share(OWN))
    host.write_quota(20_000)
    host.restore()
    assert host.quota() == str(OWN)


@pytest.mark.parametrize("answered", [True, False], ids=["after the answer", "before it"])
def test_a_push_over_a_raised_quota_is_no_other_writers(host, answered):
    for now in (0.0, 2.0):
        host.bandwidth(Share(OWN, 60_000, is_changed=True), now)
    host.writer.remember(APP, Knobs(quota=-1))
    host.write_quota(-1)
    if answered:
        host.writer.arrived()
    host.writer.held_back()
    host.restore()
    assert host.quota() == str(OWN)


def test_a_pushed_value_is_ours_also_after_a_write_in_between(tmp_path):
    host = Host(tmp_path, 1)
    host.cgroup(cpu_shares="1024")
    host.writer.remember("pod", Knobs(shares=512))
    host.apply("", SHARES, journalled=True)
    host.cgroup(cpu_shares="512")
    restored(host.journal_path, host.root, 1)
    assert host.text("cpu.shares") == "1024"


def test_a_push_that_never_came_leaves_nothing(host):
    host.writer.remember(APP, Knobs(quota=20_000))
    host.bandwidth(Share(OWN))
    host.writer.arrived()
    assert host.noted() == {}
