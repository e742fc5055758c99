"""Judge all online pods of one turn, and find the culprits: readings in, verdicts out; pure.

The memory is bounded: for each pod that the caller names one reading, `culprit.TURNS` rates, and for an online pod a
baseline of at most `verdict.LOADS` loads for each resource.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from nri_coloc.core.readings import StallReading
from nri_coloc.core.settings import PressureTuning, RungTuning
from nri_coloc.core.workload import Tolerance
from nri_coloc.pressure import culprit
from nri_coloc.pressure.culprit import Evidence, Feeling, Uses, evidence
from nri_coloc.pressure.rates import UNUSED, Rates, rates, span_s, strains
from nri_coloc.pressure.verdict import (
    NO_BASELINE,
    UNKNOWN,
    Baseline,
    Judgement,
    Resource,
    Strain,
    judge,
)

LEAST_RISES: Final[Mapping[Resource, float]] = {
    Resource.CPU: 100.0,
    Resource.MEMORY: float(8 << 20),
    Resource.IO: float(2 << 20),
}
"""The rise below which a pod is no culprit: milli-CPU, bytes a second."""


SEARCHES: Final = 2
"""Online pods for which one turn searches culprits, for each resource: a search costs some milliseconds at 110 pods."""


class Felt(NamedTuple):
    """What is known of one online pod and one resource."""

    baseline: Baseline = NO_BASELINE
    feeling: Feeling = Feeling()
    judgement: Judgement = UNKNOWN
    strain: Strain | None = None

    def unread(self, turns: int) -> "Felt":
        """Return the same after so many turns that did not read the pod."""
        return Felt(self.baseline, self.feeling.unread(turns))


class Watched(NamedTuple):
    """One pod, as it was after one turn. Turns that do not read it leave it as it is.

    last: its last reading.
    rates: its use in the turns up to then, the newest first; turns that did not read it have the mean use between two
        readings.
    felt: for an online pod.
    devices: devices that it used last.
    turn: the number of that turn.
    """

    last: StallReading | None = None
    rates: tuple[Rates | None, ...] = ()
    felt: Mapping[Resource, Felt] = {}
    devices: frozenset[str] = frozenset()
    turn: int = 0

    def at(self, turn: int) -> "Watched":
        """Return the pod after a later turn: the turns that did not read it are unknown ones."""
        missed = turn - self.turn
        if not missed:
            return self
        felt = {resource: one.unread(missed) for resource, one in self.felt.items()}
        return Watched(self.last, self.rates_at(turn), felt, self.devices, turn)

    def rates_at(self, turn: int) -> tuple[Rates | None, ...]:
        """Return its use in the turns up to a later one, the newest first."""
        return (*(None,) * (turn - self.turn), *self.rates)[: culprit.TURNS]


Watch = Mapping[str, Watched]
"""All pods by id."""


class Seen(NamedTuple):
    """The input of one turn.

    turn: the number of the turn, one more than that of the turn before.
    online, reclaimed: readings by pod id; None if the pod was not read in this turn.
    tolerances: of online pods that were read.
    stolen: share of the time that the hypervisor took, None if unknown.
    protected: for each resource the online pods for which a reclaimed pod is throttled.
    """

    turn: int
    online: Mapping[str, StallReading | None]
    reclaimed: Mapping[str, StallReading | None]
    tolerances: Mapping[str, Tolerance]
    stolen: float | None
    protected: Mapping[Resource, Collection[str]] = {}


class Verdict(NamedTuple):
    """An online pod is hurt, and by which reclaimed pods.

    victim: pod id.
    readings: hurt readings of the present hurt.
    devices: for I/O.
    """

    victim: str
    resource: Resource
    judgement: Judgement
    strain: Strain
    evidence: Evidence
    readings: int
    tolerance: Tolerance
    devices: frozenset[str] = frozenset()


class Judged(NamedTuple):
    """The result of one turn.

    hurt: pods that are hurt now, with or without a culprit.
    awaited: of these on CPU, the pods whose culprits are searched in a later turn.
    turn: the number of the turn.
    """

    watch: Watch
    verdicts: tuple[Verdict, ...]
    hurt: Mapping[Resource, frozenset[str]]
    awaited: frozenset[str] = frozenset()
    turn: int = 0

    @property
    def read(self) -> Watch:
        """Return the pods that this turn read."""
        return {k: one for k, one in self.watch.items() if one.turn == self.turn}

    def newest(self, pod_id: str) -> Rates | None:
        """Return a pod's use since the turn before, None if it is unknown."""
        one = self.watch.get(pod_id)
        return one.rates[0] if one is not None and one.turn == self.turn else None

    @property
    def short_of_cpu(self) -> dict[str, int]:
        """Return the number of hurt readings in a row, by pod that waits for CPU without a reclaimed culprit.

        A culprit of one pod may hurt all others: few are searched in a turn. So there are none beside a verdict.
        """
        if any(one.resource is Resource.CPU for one in self.verdicts):
            return {}
        hurt = self.hurt[Resource.CPU] - self.awaited
        return {k: self.watch[k].felt[Resource.CPU].feeling.streak for k in hurt}

    @property
    def has_newly_hurt(self) -> bool:
        """Return whether a pod is hurt that was calm in its former reading."""
        hurt = ((k, resource) for resource, pods in self.hurt.items() for k in pods)
        return any(self.watch[k].felt[resource].feeling.streak == 1 for k, resource in hurt)


def suffering(watch: Watch, online: Iterable[str]) -> list[str]:
    """Return the online pods that were hurt in their last reading."""
    known = ((k, watch[k].felt.values()) for k in online if k in watch)
    return [k for k, felt in known if any(one.feeling.hurt and one.feeling.streak for one in felt)]


def turn(before: Watch, seen: Seen, tuning: PressureTuning) -> Judged:
    """Return the pods' state after this turn, and its verdicts. Pods that `seen` does not name are forgotten.

    A reclaimed pod that an earlier turn did not name had no use then.
    """
    after: dict[str, Watched] = {}
    last = seen.turn - 1
    begun = Watched(rates=(UNUSED,) * culprit.TURNS if before else (), turn=last)
    for pod_id, reading in seen.reclaimed.items():
        former = before.get(pod_id, begun)
        if reading is None:
            after[pod_id] = former
        else:
            after[pod_id] = _after(former, reading, rates(former.last, reading), {}, seen.turn)
    for pod_id, reading in seen.online.items():
        former = before.get(pod_id, Watched(turn=last))
        is_read = pod_id in seen.tolerances
        after[pod_id] = _online_after(former, reading, pod_id, seen) if is_read else former
    hurt = {resource: _hurt(after, seen, resource) for resource in Resource}
    cpu = Resource.CPU
    awaited = frozenset(k for k in hurt[cpu] if seen.reclaimed and not after[k].felt[cpu].feeling.is_due(0))
    return Judged(after, tuple(_verdicts(after, seen, hurt, tuning)), hurt, awaited, seen.turn)


def rungs(tuning: PressureTuning) -> Mapping[Resource, RungTuning]:
    """Return the rung of each resource."""
    return {Resource.CPU: tuning.cpu, Resource.MEMORY: tuning.memory, Resource.IO: tuning.io}


def _online_after(former: Watched, reading: StallReading | None, pod_id: str, seen: Seen) -> Watched:
    """Return an online pod after a turn that was to read it; None is a reading that failed."""
    if reading is None:
        return former.at(seen.turn)
    newest = rates(former.last, reading)
    found = strains(former.last, reading, newest, seen.stolen)
    protected = [k for k, pods in seen.protected.items() if pod_id in pods]
    span = span_s(former.last, reading) or 0.0
    known = former.at(seen.turn - 1).felt
    felt = _felt(known, found, seen.tolerances[pod_id], span, protected=protected)
    return _after(former, reading, newest, felt, seen.turn)


def _after(
    former: Watched, reading: StallReading, newest: Rates, felt: Mapping[Resource, Felt], turn: int
) -> Watched:
    """Return a pod after the turn that made this reading, which has the mean use since its former reading."""
    used = frozenset([device for device, count in (newest.operations or {}).items() if count > 0])
    return Watched(
        last=reading,
        rates=(*(newest,) * (turn - former.turn), *former.rates)[: culprit.TURNS],
        felt=felt,
        devices=used or former.devices,
        turn=turn,
    )


def _felt(
    former: Mapping[Resource, Felt],
    found: Mapping[Resource, Strain | None],
    tolerance: Tolerance,
    span: float,
    *,
    protected: Collection[Resource],
) -> dict[Resource, Felt]:
    """Return the judgements of an online pod in this turn."""
    felt: dict[Resource, Felt] = {}
    for resource, strain in found.items():
        known = former.get(resource, Felt())
        baseline, judgement = judge(
            known.baseline, resource, strain, tolerance, protected=resource in protected
        )
        feeling = known.feeling.after(span, hurt=judgement.hurt)
        felt[resource] = Felt(baseline, feeling, judgement, strain)
    return felt


def _hurt(pods: Watch, seen: Seen, resource: Resource) -> frozenset[str]:
    felt = ((k, pods[k].felt.get(resource)) for k in seen.tolerances)
    return frozenset(k for k, one in felt if one is not None and one.judgement.hurt)


def _worst(pods: Watch, hurt: Iterable[str], resource: Resource, up: int) -> list[str]:
    """Return the pods whose culprits are searched in this turn: the worst pods that are hurt long enough.

    A search reads the use of all pods in all turns. A culprit of many pods is found by any of them.
    """
    due = (k for k in hurt if pods[k].felt[resource].feeling.is_due(up))
    return sorted(due, key=lambda k: (-_excess(pods[k].felt[resource].judgement), k))[:SEARCHES]


def _excess(judgement: Judgement) -> float:
    """Return the wait in multiples of the bound."""
    return judgement.wait / judgement.bound if judgement.bound else 0.0


def _verdicts(
    pods: dict[str, Watched], seen: Seen, hurt: Mapping[Resource, frozenset[str]], tuning: PressureTuning
) -> Iterable[Verdict]:
    """Yield the verdicts; note in `pods` the hurts that have a culprit."""
    for resource, rung in rungs(tuning).items():
        due = _worst(pods, hurt[resource], resource, rung.up) if rung.judges and seen.reclaimed else ()
        found = [one for victim in due if (one := _verdict(pods, seen, victim, resource)) is not None]
        for victim in hurt[resource] if found else ():  # it may hurt them all, and few are searched
            pods[victim] = _with_culprit(pods[victim], resource)
        yield from found


def _verdict(pods: Watch, seen: Seen, victim: str, resource: Resource) -> Verdict | None:
    """Return the verdict on a hurt pod, None without a culprit."""
    felt, devices = pods[victim].felt[resource], pods[victim].devices
    if felt.strain is None:
        return None
    feeling = felt.feeling
    if resource is Resource.IO:
        feeling = feeling.among(culprit.active(_uses(pods[victim], seen.turn, resource, devices)))
    found = evidence(
        feeling,
        {k: _uses(pods[k], seen.turn, resource, devices) for k in seen.reclaimed},
        (_uses(pods[k], seen.turn, resource, devices) for k in seen.online if k != victim),
        LEAST_RISES[resource],
    )
    if found.confidence < culprit.LEAST_CONFIDENCE:
        return None
    return Verdict(
        victim=victim,
        resource=resource,
        judgement=felt.judgement,
        strain=felt.strain,
        evidence=found,
        readings=felt.feeling.readings,
        tolerance=seen.tolerances[victim],
        devices=devices if resource is Resource.IO else frozenset(),
    )


def _with_culprit(pod: Watched, resource: Resource) -> Watched:
    felt = pod.felt[resource]
    feeling = felt.feeling._replace(has_culprit=True)
    return pod._replace(felt={**pod.felt, resource: felt._replace(feeling=feeling)})


def _uses(pod: Watched, turn: int, resource: Resource, devices: frozenset[str]) -> Uses:
    return tuple(None if one is None else one.use(resource, devices) for one in pod.rates_at(turn))
