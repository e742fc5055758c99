"""The box's members outside Kubernetes: placed, kept, told, and let go."""

from nri_coloc.daemon.drift import REPAIRS_PER_MINUTE
from nri_coloc.daemon.host_groups import HostGroups
from nri_coloc.model.tuning import ReclaimTuning, Tuning
from tests.unit.daemon.kit import Cgroups, a_node, a_report, create, start_pod
from tests.unit.policy import kit

APP = "kubepods/podweb/app"


class Rig:
    def __init__(self, tuning: Tuning) -> None:
        self.node = a_node(tuning)
        self.cgroups = Cgroups()
        report, self.heard = a_report(self.node)
        self.groups = HostGroups(self.node, self.cgroups.as_writer(), report)

    def place(self) -> None:
        self.groups.place(kit.EVERYTHING)

    def guard(self) -> None:
        self.groups.guard("yarn", kit.EVERYTHING)


def lending_to(*paths: str, observe: bool = False) -> Tuning:
    return Tuning(reclaim=ReclaimTuning(host_groups=paths), observe=observe)


def test_a_host_group_is_placed_and_said_once_and_gets_its_own_back_when_it_leaves():
    rig = Rig(lending_to("yarn"))
    for _ in range(2):
        rig.place()
    assert [target.path for target in rig.cgroups.targets] == ["yarn", "yarn"]
    assert rig.heard.said() == [("pod.limit", "box_member")]
    rig.node.tuning = lending_to()
    rig.place()
    rig.place()
    assert rig.cgroups.put == [("yarn", frozenset())]


def test_a_host_group_of_former_settings_gets_its_own_back_once_everybody_is_known():
    rig = Rig(lending_to("yarn"))
    start_pod(rig.node, "batch")
    create(rig.node, "app")
    rig.cgroups.former_places = {"yarn", "old", "kubepods/podbatch", APP}
    rig.place()
    assert rig.cgroups.put == []
    rig.groups.take_over()
    rig.place()
    assert rig.cgroups.put == [("old", frozenset())]


def test_an_observer_places_no_host_group():
    rig = Rig(lending_to("yarn", observe=True))
    rig.place()
    assert rig.cgroups.targets == []


def test_what_somebody_reset_on_a_host_group_is_put_back_and_told_with_its_path():
    rig = Rig(lending_to("yarn"))
    rig.cgroups.cpus_of = {"yarn": kit.mask("0-7")}
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
    assert record.because == "yarn: found CPUs 0-1 instead of 0-7; put right"


def test_a_rival_on_a_host_group_is_let_be_until_something_else_is_wanted():
    rig = Rig(lending_to("yarn"))
    rig.cgroups.cpus_of = {"yarn": kit.mask("0-7")}
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
