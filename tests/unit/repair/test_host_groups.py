"""Host groups are placed, repaired, recorded, and restored when they leave the reclaim cgroups."""

import pytest

from nri_coloc.core.reasons import Reason
from nri_coloc.core.settings import ReclaimTuning, Tuning
from nri_coloc.repair.drift import REPAIRS_PER_MINUTE
from nri_coloc.repair.host_groups import HostGroups
from tests.unit.parts import Cgroups, a_node, a_report, create, start_pod
from tests.unit.placing import kit

APP = "kubepods/podweb/app"


class Rig:
    """A node with the cgroup of a YARN NodeManager."""

    def __init__(self, tuning: Tuning) -> None:
        self.node = a_node(tuning)
        self.node.learn(kit.EVERYTHING)
        self.cgroups = Cgroups({"yarn": kit.mask("0-7")})
        report, self.heard = a_report(self.node)
        self.groups = HostGroups(self.node, self.cgroups.as_writer(), report)

    def place(self) -> None:
        self.groups.place()

    def guard(self) -> None:
        self.groups.guard("yarn")


def lending_to(*paths: str, observe: bool = False) -> Tuning:
    return Tuning(reclaim=ReclaimTuning(host_groups=paths), observe=observe)


def test_a_leaving_host_group_is_restored():
    rig = Rig(lending_to("yarn"))
    for _ in range(2):
        rig.place()
    assert [target.path for target in rig.cgroups.targets] == ["yarn", "yarn"]
    assert rig.heard.said() == [("pod.limit", "box_member")]
    rig.node.tuning = lending_to()
    rig.place()
    rig.place()
    assert rig.cgroups.put == [("yarn", frozenset())]


def test_former_host_groups_are_restored_once_all_is_known():
    rig = Rig(lending_to("yarn"))
    start_pod(rig.node, "batch")
    create(rig.node, "app")
    rig.cgroups.former_places = {"yarn", "old", "kubepods/podbatch", APP, "kubepods/podbatch/untold"}
    rig.place()
    assert rig.cgroups.put == []
    rig.groups.take_over()
    rig.place()
    assert rig.cgroups.put == [("old", frozenset())]


def test_an_observer_places_no_host_group():
    rig = Rig(lending_to("yarn", "later", observe=True))
    rig.place()
    assert rig.cgroups.targets == []
    assert rig.groups.members == ("yarn",)


def test_one_that_is_not_there_yet_is_nobody_until_it_comes():
    rig = Rig(lending_to("later"))
    rig.place()
    before = rig.groups.members
    rig.place()
    assert (before, rig.groups.missing, rig.heard.said()) == ((), ("later",), [])
    assert rig.groups.members is before, "a comparison of paths is enough"
    rig.cgroups.cpus_of["later"] = kit.mask("0-7")
    rig.place()
    assert (rig.groups.members, rig.groups.missing) == (("later",), ())
    assert rig.heard.said() == [("pod.limit", "box_member")]


def test_one_that_goes_is_nobody_again():
    rig = Rig(lending_to("yarn"))
    rig.place()
    del rig.cgroups.cpus_of["yarn"]
    rig.place()
    assert rig.groups.members == ()
    assert rig.cgroups.put == [("yarn", frozenset())], "the journal has nothing of it left"


@pytest.mark.parametrize(
    ("version", "where", "mend"),
    [
        (1, "is not in the cpuset hierarchy", "make /batch/yarn there and put its processes into it too"),
        (2, "has no cpuset.cpus", "write +cpuset to cgroup.subtree_control of /batch,"),
    ],
    ids=["v1", "v2"],
)
def test_a_group_without_cpuset_is_recorded_once(version, where, mend):
    rig = Rig(lending_to("batch/yarn"))
    rig.cgroups.version, rig.cgroups.without_cpuset = version, {"batch/yarn"}
    for _ in range(3):
        rig.place()
    assert (rig.groups.members, rig.cgroups.targets) == ((), [])
    (record,) = rig.heard.records
    assert (record.reason, record.key, record.value) == (
        Reason.NO_CPUSET,
        "reclaim.members",
        "batch/yarn",
    )
    assert where in record.because
    assert mend in record.because


def test_a_host_group_may_lose_its_cpuset():
    rig = Rig(lending_to("yarn"))
    rig.cgroups.without_cpuset = {"yarn"}
    rig.place()
    del rig.cgroups.cpus_of["yarn"]
    rig.place()
    assert rig.cgroups.put == [("yarn", frozenset())]
    rig.cgroups.cpus_of["yarn"] = kit.mask("0-7")
    rig.place()
    assert rig.groups.members == ("yarn",)
    assert [reason for _, reason in rig.heard.said()] == ["box_member", "no_cpuset", "box_member"]


def test_of_one_without_a_cpuset_the_end_is_told_too():
    rig = Rig(lending_to("yarn"))
    rig.cgroups.cpus_of, rig.cgroups.without_cpuset = {}, {"yarn"}
    rig.place()
    rig.node.tuning = lending_to()
    rig.place()
    rig.place()
    assert [reason for _, reason in rig.heard.said()] == ["no_cpuset", "reconfigured"]


def test_a_reset_on_a_host_group_is_repaired_and_recorded():
    rig = Rig(lending_to("yarn"))
    rig.place()
    rig.cgroups.cpus_of["yarn"] = kit.mask("0-1")
    rig.guard()
    assert rig.cgroups.cpus_of["yarn"] == kit.mask("0-7")
    record = rig.heard.records[-1]
    assert (record.event.value, record.before, record.after) == (
        "drift.repair",
        {"cpus": "0-1"},
        {"cpus": "0-7"},
    )
    assert record.because == "repaired in yarn: CPUs 0-1 instead of 0-7"


def test_a_rival_on_a_host_group_pauses_repairs():
    rig = Rig(lending_to("yarn"))
    rig.place()
    for _ in range(REPAIRS_PER_MINUTE + 3):
        rig.cgroups.cpus_of["yarn"] = kit.mask("0-1")
        rig.guard()
    assert rig.heard.said().count(("drift.repair", "found_different")) == REPAIRS_PER_MINUTE
    assert rig.cgroups.cpus_of["yarn"] == kit.mask("0-1")
    create(rig.node, "owner", kit.DEDICATED, 2000, on="db")
    rig.guard()
    assert rig.cgroups.cpus_of["yarn"] == kit.mask("2-7")


def test_what_is_no_host_group_yet_is_not_guarded():
    rig = Rig(lending_to("yarn"))
    rig.guard()
    assert rig.cgroups.targets == []
