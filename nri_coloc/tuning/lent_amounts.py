"""Compute each reclaimed container's shares, quota and memory limit, from its loan and the capacity that lasts.

An annotation states a loan, and each author of pods can write one. The part that the pod's spec requests too is
confirmed: a scheduler counted it. If not all loans fit, confirmed parts go first, and the rest is divided among the
other parts. Without the companion's facts about a pod its whole loans count as confirmed.

`Course` keeps the settled value of a figure until another value has lasted. A figure lasts if it stays on one side of
the settled value, above or below, all the time. Then the dwell's value nearest to the settled one becomes the new
value: no more than the whole dwell has shown. (Koordinator compares the node's resources with those resources it
reported last, at the end of such a time: slo-controller, updateTimeThresholdSeconds and resourceDiffThreshold.)
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from nri_coloc.core import report
from nri_coloc.core.apportionment import apportion
from nri_coloc.core.decisions import Figure, Inputs
from nri_coloc.core.knobs import MIN_SHARES, NO_KNOBS, PAGE, Knobs
from nri_coloc.core.lending import Binding, Capacity
from nri_coloc.core.pod_facts import Lent
from nri_coloc.core.settings import AmountTuning
from nri_coloc.core.workload import QoSClass, Wish


@dataclass(frozen=True, slots=True)
class Course:
    """One figure over time.

    settled: the settled value; None before any value has lasted.
    since_s: start of the time in which another value lasts; None for not now.
    nearest: the value nearest to the settled one since then.
    """

    settled: int | None = None
    since_s: float | None = None
    nearest: int = 0


UNKNOWN: Final = Course()


def follow(course: Course, now: int, now_s: float, dead_band: float, dwell_s: float) -> Course:
    """Return the course with one more value. Differences up to the part `dead_band` of the settled value are ignored.

    The first settled value is the highest of its dwell. A clock that was set back starts the dwell again.
    """
    settled, since_s = course.settled, course.since_s
    if settled is not None and abs(now - settled) <= dead_band * settled:
        return Course(settled)
    is_above = settled is not None and now > settled
    was_above = settled is not None and course.nearest > settled
    if since_s is None or now_s < since_s or is_above is not was_above:
        return Course(settled, now_s, now)
    nearest = min(course.nearest, now) if is_above else max(course.nearest, now)
    return Course(nearest) if now_s - since_s >= dwell_s else Course(settled, since_s, nearest)


_LEAST_QUOTA_US: Final = 1000
_SILENT: Final = frozenset({Binding.DISABLED, Binding.PAUSED, Binding.NOT_MEASURED, Binding.STALE})
"""With these bindings a capacity of 0 means only that it is unknown, or that nothing is lent.

That is no reason to take CPU or memory from running pods.
"""

_LOANS: Final = ("lent-shares", "lent-quota", "memory-limit")
"""Annotation keys by which a vocabulary sets an amount. A memory limit in the project's own keys is no loan."""


class Loan(NamedTuple):
    """One container's loan.

    lent: the promise (shares, quota, period, memory_limit).
    present: the same knobs as the container has them now.
    in_use: its memory, bytes; None if it could not be read.
    priority: loans of lower priority are reduced first.
    pod_id: its pod; all containers of a pod share one part.
    confirmed: the amounts in the pod's spec; None without facts about the pod.
    """

    lent: Knobs
    present: Knobs = NO_KNOBS
    in_use: int | None = None
    priority: int = 0
    pod_id: str = ""
    confirmed: Lent | None = None


class _Claim(NamedTuple):
    """One loan's claim on the CPU (thousandths) or on the memory (bytes).

    amount: the part that is divided first, the confirmed one.
    unconfirmed: the rest of the loan.
    """

    pod_id: str
    priority: int
    amount: int
    unconfirmed: int = 0


@dataclass(frozen=True, slots=True)
class Settled:
    """The capacity that the present amounts were made for, and its course since then.

    Nothing is settled before it has lasted: a daemon that has just started knows too little to reduce a loan.
    """

    cpu_milli: Course = UNKNOWN
    memory_bytes: Course = UNKNOWN

    @property
    def interrupted(self) -> "Settled":
        """Return the settled values after a time of unknown capacity: no other value has lasted through it."""
        return Settled(Course(self.cpu_milli.settled), Course(self.memory_bytes.settled))


class Rebalanced(NamedTuple):
    """The result of one rebalancing.

    settled: the new state.
    changes: changed knobs by container id; empty for no change.
    because: the reason in words.
    inputs: the figures of the decision by name.
    """

    settled: Settled
    changes: Mapping[str, Knobs]
    because: str
    inputs: Inputs


def lent(wish: Wish) -> Knobs | None:
    """Return the loan of a container, by its vocabulary's annotations; None without a loan or for another class."""
    said = {key for key, _, _ in wish.origins}
    if wish.qos is not QoSClass.RECLAIMED or said.isdisjoint(_LOANS):
        return None
    told = wish.annotated
    limit = told.memory_limit if "memory-limit" in said else None
    return Knobs(shares=told.shares, quota=told.quota, period=told.period, memory_limit=limit)


# --- rebalancing -----------------------------------------------------------------------------------------


def rebalance(
    settled: Settled, loans: Mapping[str, Loan], capacity: Capacity, now_s: float, tuning: AmountTuning
) -> Rebalanced:
    """Return the containers whose values must change, for the capacity that has lasted."""
    if capacity.binding in _SILENT:
        inputs = _inputs(loans, capacity, settled, tuning)
        because = report.sentence(f"{_EASED}; the capacity is unknown", inputs, _SHOWN)
        return Rebalanced(settled.interrupted, eased(loans, tuning), because, inputs)
    settled = _settled(settled, capacity, now_s, tuning)
    milli, memory = settled.cpu_milli.settled, settled.memory_bytes.settled
    if milli is None or memory is None:
        inputs = _inputs(loans, capacity, settled, tuning)
        because = report.sentence(f"{_EASED}; no capacity has lasted for the dwell", inputs, _SHOWN)
        return Rebalanced(settled, eased(loans, tuning), because, inputs)
    wanted = amounts(loans, milli, memory)
    changes = {key: _changed(loans[key], wanted[key], tuning) for key in loans}
    inputs = _inputs(loans, capacity, settled, tuning)
    return Rebalanced(
        settled,
        {key: knobs for key, knobs in changes.items() if knobs != NO_KNOBS},
        report.sentence(
            f"loans divided again: the loans or the capacity for them changed{_guessed(capacity)}",
            inputs,
            _SHOWN,
        ),
        inputs,
    )


def _inputs(
    loans: Mapping[str, Loan], capacity: Capacity, settled: Settled, tuning: AmountTuning
) -> dict[str, Figure]:
    """Return by name the figures of all loans, of the capacity that has lasted, and of the present offer."""
    return {
        "loans": len(loans),
        "pods": len({loan.pod_id for loan in loans.values()}),
        "lent_milli": sum(_milli(loan.lent) for loan in loans.values()),
        "lent_bytes": sum(loan.lent.memory_limit or 0 for loan in loans.values()),
        "confirmed_milli": sum(_claim_of_cpu(loan).amount for loan in loans.values()),
        "confirmed_bytes": sum(_claim_of_memory(loan).amount for loan in loans.values()),
        "capacity_milli": settled.cpu_milli.settled,
        "capacity_bytes": settled.memory_bytes.settled,
        "offered_milli": capacity.cpu_milli,
        "offered_bytes": capacity.memory_bytes,
        "binding": capacity.binding.value,
        "memory_room_bytes": tuning.memory_room,
        "dwell_s": tuning.dwell_s,
        "dead_band": tuning.dead_band,
    }


def _guessed(capacity: Capacity) -> str:
    if capacity.borne == (capacity.cpu_milli, capacity.memory_bytes):
        return ""
    if capacity.binding is Binding.SCHEDULE:
        return "; new pods are offered nothing, because lending is about to end"
    return "; guesses about workloads that are being learnt do not count"


_EASED: Final = "lowered memory limit raised: use came near to it"

_SHOWN: Final = (
    *("lent_milli", "capacity_milli", "lent_bytes", "capacity_bytes"),
    *("loans", "memory_room_bytes", "dwell_s"),
)
"""The figures of a rebalancing that its sentence ends with."""


def _settled(before: Settled, capacity: Capacity, now_s: float, tuning: AmountTuning) -> Settled:
    """Return both figures' courses with the present capacity."""
    dwell = (now_s, tuning.dead_band, tuning.dwell_s)
    milli, memory = capacity.borne
    return Settled(follow(before.cpu_milli, milli, *dwell), follow(before.memory_bytes, memory, *dwell))


def amounts(loans: Mapping[str, Loan], milli: int, memory: int) -> dict[str, Knobs]:
    """Return each container's values for this capacity, by container id; only knobs that its loan has."""
    of_cpu = {key: _claim_of_cpu(loan) for key, loan in loans.items()}
    of_memory = {key: _claim_of_memory(loan) for key, loan in loans.items()}
    cpu, bytes_ = _granted(of_cpu, milli), _granted(of_memory, memory)
    return {key: _scaled(loan.lent, cpu[key], bytes_[key]) for key, loan in loans.items()}


def _claim_of_cpu(loan: Loan) -> _Claim:
    return _claim(loan, _milli(loan.lent), None if loan.confirmed is None else loan.confirmed.cpu_milli)


def _claim_of_memory(loan: Loan) -> _Claim:
    most = None if loan.confirmed is None else loan.confirmed.memory_bytes
    return _claim(loan, loan.lent.memory_limit or 0, most)


def _claim(loan: Loan, amount: int, confirmed: int | None) -> _Claim:
    certain = amount if confirmed is None else min(amount, confirmed)
    return _Claim(loan.pod_id, loan.priority, certain, amount - certain)


def _granted(claims: Mapping[str, _Claim], total: int) -> dict[str, int]:
    """Return a total divided among claims, and the rest of it among their unconfirmed parts."""
    confirmed = _divided(claims, total)
    rest = {key: claim._replace(amount=claim.unconfirmed) for key, claim in claims.items()}
    more = _divided(rest, total - sum(confirmed.values()))
    return {key: confirmed[key] + more[key] for key in claims}


def _divided(claims: Mapping[str, _Claim], total: int) -> dict[str, int]:
    """Return a total divided among claims.

    Each pod gets an equal part, up to its claim, and the rest goes by priority.
    """
    certain = _equal_parts(claims, total)
    rest = {key: claim._replace(amount=claim.amount - certain[key]) for key, claim in claims.items()}
    more = _by_priority(rest, total - sum(certain.values()))
    return {key: certain[key] + more[key] for key in claims}


def _equal_parts(claims: Mapping[str, _Claim], total: int) -> dict[str, int]:
    """Return the first grants: each pod with a claim gets an equal part, or its claims if they are less."""
    pods: dict[str, dict[str, _Claim]] = {}
    for key, claim in claims.items():
        if claim.amount:
            pods.setdefault(claim.pod_id, {})[key] = claim
    found = dict.fromkeys(claims, 0)
    for members in pods.values():
        found |= _by_priority(members, total // len(pods))
    return found


def _by_priority(claims: Mapping[str, _Claim], total: int) -> dict[str, int]:
    """Return a total divided among claims, the highest priority first, never above a claim."""
    granted: dict[str, int] = {}
    for priority in sorted({claim.priority for claim in claims.values()}, reverse=True):
        equals = {key: claim.amount for key, claim in claims.items() if claim.priority == priority}
        owed = sum(equals.values())
        granted |= equals if owed <= total else apportion(total, equals)
        total = max(0, total - owed)
    return granted


def _milli(loan: Knobs) -> int:
    """Return the CPU that was lent, thousandths, by the shares.

    A limit is no amount: a loan of little CPU with a large limit would take from all other loans.
    """
    return -(-(loan.shares or 0) * 1000 // 1024)


def _scaled(loan: Knobs, milli: int, memory: int) -> Knobs:
    """Return the knobs of a loan, reduced to the granted amount, each knob in proportion."""
    whole = _milli(loan)
    quota = None if loan.quota is None else _part(loan.quota, milli, whole, _LEAST_QUOTA_US)
    shares = None if loan.shares is None else _part(loan.shares, milli, whole, MIN_SHARES)
    limit = None
    if loan.memory_limit is not None:
        limit = loan.memory_limit if memory == loan.memory_limit else memory // PAGE * PAGE
    return Knobs(shares=shares, quota=quota, period=loan.period, memory_limit=limit)


def _part(amount: int, granted: int, whole: int, least: int) -> int:
    reduced = amount if granted >= whole else amount * granted // whole
    return min(amount, max(least, reduced))


# --- one container ---------------------------------------------------------------------------------------


def _changed(loan: Loan, wanted: Knobs, tuning: AmountTuning) -> Knobs:
    """Return the values that are worth an update; a quota also sets its period."""
    now = loan.present
    quota = _worth(wanted.quota, now.quota, loan.lent.quota, tuning)
    return Knobs(
        shares=_worth(wanted.shares, now.shares, loan.lent.shares, tuning),
        quota=quota,
        period=None if quota is None or now.period == wanted.period else wanted.period,
        memory_limit=_limit(loan, wanted.memory_limit, tuning),
    )


def _limit(loan: Loan, wanted: int | None, tuning: AmountTuning) -> int | None:
    """Return the memory limit if it is worth an update; a raise that prevents a kill always is."""
    whole = loan.lent.memory_limit
    if wanted is not None and wanted != whole:
        wanted = _bearable(loan, wanted, tuning)
    return wanted if _is_short(loan, tuning) else _worth(wanted, loan.present.memory_limit, whole, tuning)


def eased(loans: Mapping[str, Loan], tuning: AmountTuning) -> dict[str, Knobs]:
    """Return raised memory limits, by container id, for lowered limits that use has come near to; no other change."""
    return {
        key: Knobs(memory_limit=_bearable(loan, 0, tuning))
        for key, loan in loans.items()
        if _is_short(loan, tuning)
    }


def _is_short(loan: Loan, tuning: AmountTuning) -> bool:
    """Return whether less than half of the room is left below a lowered limit.

    Each raise is an update, so that not every page in use is worth one.
    """
    limit, whole = loan.present.memory_limit, loan.lent.memory_limit
    if loan.in_use is None or limit is None or whole is None or limit >= whole:
        return False
    return limit - loan.in_use < tuning.memory_room // 2


def _bearable(loan: Loan, limit: int, tuning: AmountTuning) -> int | None:
    """Return a lowered memory limit raised above the memory in use: below that it would kill.

    None if use is unknown: the limit stays.
    """
    if loan.in_use is None:
        return None
    most = loan.lent.memory_limit or limit
    return min(most, max(limit, -(-(loan.in_use + tuning.memory_room) // PAGE) * PAGE))


def _worth(wanted: int | None, present: int | None, whole: int | None, tuning: AmountTuning) -> int | None:
    """Return the wanted value if it differs by more than the dead band of the loan, or is the whole loan."""
    if wanted is None or wanted == present:
        return None
    if present is None or wanted == whole or abs(wanted - present) > tuning.dead_band * (whole or wanted):
        return wanted
    return None
