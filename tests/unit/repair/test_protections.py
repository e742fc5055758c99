"""Memory protections are summed along every path, repaired, and restored when no pod needs them."""

import pytest

from nri_coloc.core.decisions import ContainerCreating, ContainerGone
from nri_coloc.core.knobs import Knobs
from nri_coloc.core.workload import QoSClass, Wish
from nri_coloc.repair.protections import Protections
from tests.unit.parts import Cgroups, a_node, a_report, create
from tests.unit.placing import kit


class Rig:
    def __init__(self) -> None:
        self.node = a_node()
        self.cgroups = Cgroups()
        report, self.heard = a_report(self.node)
        self._protections = Protections(self.node, self.cgroups.as_writer(), report)
        self.take_over = self._protections.take_over

    def keep(self) -> None:
        self._protections.keep(kit.EVERYTHING)


@pytest.fixture
def protecting() -> Rig:
    rig = Rig()
    create(rig.node, "app", Wish(QoSClass.SHARED, knobs=Knobs(memory_min=4096)), limited=True)
    rig.keep()
    return rig


def test_protections_are_raised_from_the_top_and_given_back(protecting):
    assert [p for p in protecting.cgroups.protections if p[1] == "memory.min"] == [
        ("kubepods", "memory.min", 4096),
        ("kubepods/podweb", "memory.min", 4096),
    ]
    protecting.node.decide(ContainerGone("app"))
    protecting.cgroups.protections.clear()
    protecting.keep()
    assert {(path, amount) for path, _, amount in protecting.cgroups.protections} == {
        ("kubepods", 0),
        ("kubepods/podweb", 0),
    }
    protecting.cgroups.protections.clear()
    protecting.keep()
    assert protecting.cgroups.protections == []


def test_earlier_protections_are_restored_after_the_whole_list():
    rig = Rig()
    create(rig.node, "app")
    rig.cgroups.former = {"kubepods", "kubepods/podold", "kubepods/podweb/app"}
    rig.keep()
    assert rig.cgroups.protections == []
    rig.take_over()
    rig.keep()
    assert {path for path, _, _ in rig.cgroups.protections} == {"kubepods", "kubepods/podold"}, (
        "what stands on a live container is its own value"
    )


def test_what_somebody_lowered_is_raised_again_and_told(protecting):
    protecting.cgroups.texts = {("kubepods", "memory.min"): "0"}
    protecting.keep()
    protecting.keep()
    (record,) = protecting.heard.records
    assert (record.before, record.after) == ({"memory.min": 0}, {"memory.min": 4096})
    assert record.because == "repaired in kubepods: memory.min 0 instead of 4096"


def test_a_sum_that_grows_is_no_drift(protecting):
    protecting.cgroups.texts = {("kubepods", "memory.min"): "4096"}
    create(protecting.node, "second", Wish(QoSClass.SHARED, knobs=Knobs(memory_min=8192)), limited=True)
    protecting.keep()
    assert protecting.cgroups.texts == {("kubepods", "memory.min"): "12288"}
    assert protecting.heard.said() == [("path.limit", "protected")]


class TestCgroupsAbovePods:
    """Records of these cgroups are written here alone; a pod's own cgroup is recorded with its containers."""

    @pytest.fixture
    def rig(self) -> Rig:
        """Return a rig whose files show the values that are written to them."""
        rig = Rig()
        rig.cgroups.texts = dict.fromkeys(
            (("kubepods", "memory.min"), ("kubepods/podweb", "memory.min")), "0"
        )
        return rig

    def said(self, rig: Rig) -> list[tuple[str, dict[str, object], dict[str, object]]]:
        return [(one.value, dict(one.before), dict(one.after)) for one in rig.heard.records]

    def test_a_sum_that_rises_is_told_with_what_it_was(self, rig: Rig):
        for name in ("first", "second"):
            create(rig.node, name, Wish(QoSClass.SHARED, knobs=Knobs(memory_min=4096)), limited=True)
            rig.keep()
        assert self.said(rig) == [
            ("kubepods", {"memory.min": 0}, {"memory.min": 4096}),
            ("kubepods", {"memory.min": 4096}, {"memory.min": 8192}),
        ]
        asked = {"asked_low_bytes": 0, "asked_min_bytes": 8192}
        assert rig.heard.records[-1].extra["inputs"] == {"cgroup": "kubepods", **asked}

    def test_what_is_given_back_is_told(self, rig: Rig):
        create(rig.node, "app", Wish(QoSClass.SHARED, knobs=Knobs(memory_min=4096)), limited=True)
        rig.keep()
        rig.node.decide(ContainerGone("app"))
        rig.keep()
        assert self.said(rig)[1:] == [("kubepods", {"memory.min": 4096}, {"memory.min": 0})]

    def test_a_sum_that_is_in_place_is_not_told(self, rig: Rig):
        create(rig.node, "app", Wish(QoSClass.SHARED, knobs=Knobs(memory_min=4096)), limited=True)
        rig.keep()
        rig.keep()
        assert len(rig.heard.records) == 1

    def test_what_changed_at_once_has_one_cause(self, rig: Rig):
        rig.cgroups.texts["kubepods", "memory.low"] = "0"
        create(
            rig.node,
            "app",
            Wish(QoSClass.SHARED, knobs=Knobs(memory_low=8192, memory_min=4096)),
            limited=True,
        )
        rig.keep()
        assert self.said(rig) == [
            ("kubepods", {"memory.low": 0, "memory.min": 0}, {"memory.low": 8192, "memory.min": 4096})
        ]


def test_a_pod_that_gets_less_is_reported():
    rig = Rig()
    whole = rig.node.state.topology.memory_bytes
    for on in ("old", "new"):
        asked = kit.asking(1000, memory_limit=whole)
        held = Wish(QoSClass.SHARED, knobs=Knobs(memory_min=whole // 4 * 3))
        rig.node.decide(ContainerCreating(kit.pod(on), kit.container(on, on, resources=asked), held))
    rig.keep()
    rig.keep()
    (record,) = rig.heard.records
    assert (record.value, record.after["memory.min"]) == ("kubepods/podnew", whole // 4)
    assert {path: amount for path, name, amount in rig.cgroups.protections if name == "memory.min"} == {
        "kubepods": whole,
        "kubepods/podold": whole // 4 * 3,
        "kubepods/podnew": whole // 4,
    }
