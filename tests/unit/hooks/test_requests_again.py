"""A lower CPU request that no hook reported counts within ten seconds."""

import pytest

from nri_coloc.core.reasons import Reason
from nri_coloc.core.seams import Change
from nri_coloc.core.settings import PressureTuning, Tuning
from nri_coloc.hooks.requests_again import EVERY_S, RequestsAgain
from nri_coloc.placing import protection
from tests.rig.told import entry
from tests.unit.hooks.asking import Asking
from tests.unit.parts import Requests

GIB = 1 << 30


class Looking:
    """A pod that requests four CPUs; its container has no request, so it owns what the pod requests."""

    def __init__(self, asking: Asking | None = None) -> None:
        self.asking = asking or Asking(Requests({"p": 4000}))
        self.asking.started().create(shares=2)
        self.changes: list[Change] = []
        self.again = RequestsAgain(self.asking.node, self.asking.translator, (self.changes.append,))

    def look(self, milli: int, now: float = 0.0) -> "Looking":
        self.asking.requests.by_pod["p"] = milli
        self.again.look(now)
        return self


def test_an_owner_returns_the_cpus_of_a_former_request():
    looking = Looking().look(1000)
    assert (looking.asking.owned, looking.asking.request) == (1, 1000)


def test_observers_hear_of_it():
    (change,) = Looking().look(1000).changes
    assert change.decisions[0].reason is Reason.SHRUNK
    assert change.specs == ("c",)


def test_a_higher_request_is_left_to_its_hook():
    looking = Looking().look(6000)
    assert (looking.asking.owned, looking.changes) == (4, [])


def test_an_unchanged_request_changes_nothing():
    state = (looking := Looking()).asking.node.state
    assert looking.look(4000).asking.node.state is state


def test_it_looks_every_ten_seconds():
    looking = Looking().look(4000)
    assert looking.look(1000, EVERY_S - 1).asking.owned == 4
    assert looking.look(1000, EVERY_S).asking.owned == 1


def test_own_weight_of_a_reclaimed_pod_is_ignored():
    every = Tuning(pressure=PressureTuning(degrade=True))
    looking = Looking(Asking(Requests({"p": 4000}), qos="reclaimed", tuning=every)).look(0)
    assert (looking.asking.request, looking.changes) == (4000, [])


@pytest.mark.parametrize(("degrades", "reads"), [(True, 1), (False, 0)])
def test_it_reads_only_requests_that_count(degrades, reads):
    tuning = Tuning(pressure=PressureTuning(degrade=degrades))
    looking = Looking(Asking(Requests({"p": 4000}), qos="shared", tuning=tuning))
    before = looking.asking.requests.reads
    assert looking.look(4000).asking.requests.reads - before == reads


def test_a_hook_that_was_faster_counts(monkeypatch: pytest.MonkeyPatch):
    looking, read = Looking(), Requests.read

    def overtaken(requests: Requests, pod: object) -> int | None:
        monkeypatch.undo()
        requests.by_pod["p"] = 6000
        looking.asking.resize_pod()
        return 1000

    monkeypatch.setattr(Requests, "read", overtaken)
    assert looking.look(1000).asking.owned == 6
    assert (looking.changes, Requests.read) == ([], read)


class TestMemory:
    def looking(self, annotation: str) -> Looking:
        asking = Asking(Requests({"p": 4000}), qos="shared")
        asking.requests.memory_by_pod["p"] = 2 * GIB
        asking.run.pod.linux.cgroup_parent = "/kubepods/podu"
        asking.run.pod.annotations.append(entry(f"coloc.nri.io/{annotation}", "100%"))
        looking = Looking(asking)
        asking.update("c", 2, memory_limit=2 * GIB)
        return looking

    @pytest.mark.parametrize("amount", [1, 3], ids=["lower", "higher"])
    def test_another_request_of_the_pod_counts(self, amount: int):
        looking = self.looking("memory-min")
        looking.asking.requests.memory_by_pod["p"] = amount * GIB
        (change,) = looking.look(4000).changes
        assert protection.of_pod(looking.asking.node.state, "p").min == min(amount, 2) * GIB
        assert change.moves.pods == (("p",) if amount < 2 else ())

    def test_a_pod_without_protected_memory_is_not_read(self):
        looking = self.looking("memory-high")
        looking.asking.requests.memory_by_pod["p"] = GIB
        assert looking.look(4000).changes == []
