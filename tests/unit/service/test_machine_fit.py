"""service/machine_fit.py: settings that name more than the machine has are logged once, as long as they do."""

from typing import Any

import pytest

from nri_coloc.core.settings import ReclaimTuning, Settings, Tuning
from nri_coloc.service.machine_fit import MachineFit
from nri_coloc.service.retuning import InForce
from tests.unit.parts import a_node, a_report


class Rig:
    """A node, settings and host groups."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        node = a_node(Tuning())
        report, _ = a_report(node)
        self.in_force = InForce(Settings())
        self.missing: tuple[str, ...] = ()
        self.fit = MachineFit(self.in_force, node, self, report)
        self.logged: list[str] = []
        monkeypatch.setattr(report.log, "warning", self._warning)

    def _warning(self, _event: str, **more: Any) -> None:
        self.logged.append(more["because"])

    def looks(self, tuning: Tuning) -> tuple[str, ...]:
        self.in_force.put(Settings(tuning=tuning))
        for _ in range(2):
            self.fit.look()
        return self.fit.unfit


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    return Rig(monkeypatch)


def test_settings_beyond_the_machine_are_logged_once(rig):
    assert rig.looks(Tuning(reserved=1 << 99))[0].startswith("node.reservedCPUs reserves no CPU")
    assert rig.logged == list(rig.fit.unfit)
    assert rig.looks(Tuning()) == ()


def test_a_missing_host_group_is_named_until_it_comes(rig):
    tuning = Tuning(reclaim=ReclaimTuning(host_groups=("hadoop-yarn",)))
    rig.missing = ("hadoop-yarn",)
    (because,) = rig.looks(tuning)
    assert because.startswith("reclaim.members names hadoop-yarn: there is no such cgroup")
    assert rig.logged == [because]
    rig.missing = ()
    assert rig.looks(tuning) == ()
