"""More pods than a turn reads: a culprit is found whichever turns read it and its victim."""

from collections.abc import Iterable

import pytest

from nri_coloc.core.readings import StallReading
from nri_coloc.core.settings import PressureTuning
from nri_coloc.core.state import Crowd
from nri_coloc.core.workload import QoSClass, Tolerance
from nri_coloc.pressure.judging import Judged, Watch, turn
from nri_coloc.pressure.population import Online, Population, Reclaimed
from nri_coloc.pressure.rounds import Rounds
from tests.unit.pressure.kit import Doing, Pod
from tests.unit.pressure.test_judging import DISK_HOG, IDLE, READER, SLOWED

CALM_S = 250


class Node:
    """Online pods, of which `web` reads a disk, and reclaimed pods with the hog at one place of their order."""

    def __init__(self, online: int, reclaimed: int, place: int) -> None:
        names = [f"batch-{number}" for number in range(reclaimed - 1)]
        names.insert(place, "hog")
        self._pods = Population(
            pods={},
            containers=Crowd.of([]),
            online={name: _online(name) for name in ("web", *(f"other-{n}" for n in range(1, online)))},
            reclaimed={name: Reclaimed(name, None) for name in names},
            cpus=8,
        )
        self._counters = {name: Pod() for name in (*self._pods.online, *names)}
        self._readings: dict[str, StallReading] = {}
        self._rounds = Rounds(self)
        self._watch: Watch = {}
        self._at = 0.0

    def stalls(
        self, path: str, at: float, held_back: Iterable[str], limited: Iterable[str]
    ) -> StallReading | None:
        return self._readings[path]

    def uses(self, path: str, at: float) -> StallReading | None:
        return self._readings[path]

    def stolen_us(self) -> int | None:
        return 0

    def second(self, alarmed: Iterable[str] = (), **doing: Doing) -> Judged:
        self._at += 1.0
        self._readings = {
            name: pod.after(doing.get(name, IDLE), self._at) for name, pod in self._counters.items()
        }
        seen = self._rounds.read(self._pods, self._watch, self._at, throttled=(), alarmed=alarmed)
        judged = turn(self._watch, seen, PressureTuning())
        self._watch = judged.watch
        return judged


def _online(name: str) -> Online:
    return Online(name, (), (), Tolerance.NORMAL, QoSClass.SHARED, may_be_degraded=False)


@pytest.mark.parametrize(("online", "reclaimed"), [(20, 20), (40, 60), (55, 55), (250, 250)])
@pytest.mark.parametrize("part", [0.0, 0.3, 0.5, 0.9])
def test_a_culprit_is_found_among_many(online: int, reclaimed: int, part: float):
    node = Node(online, reclaimed, int(part * reclaimed))
    for _ in range(CALM_S):
        assert not node.second(web=READER).verdicts
    found = [node.second(["web"], web=SLOWED, hog=DISK_HOG).verdicts for _ in range(8)]
    named = {one.pod_id for verdicts in found for each in verdicts for one in each.evidence.culprits}
    assert named == {"hog"}
