"""Compute the advertised capacity: the part that remains if all online pods reach their expected use.

    CPU:    lendable · watermark − reserve − Σ expected(online pods) − expected(system)
    memory: min(machine − margin − kernel watermarks − reserve − expected(system), kubepods' own limit − its margin)
            − Σ expected(online pods)

If there are host groups, which lie outside of kubepods, kubepods' limit bounds only the pods' part, and not the
offer. If pools are sized by load, a pool has more CPUs than its members use: the offer is then at most the reclaim
pool's own CPUs. It is never more than the operator's maximum (`pools.reclaim.maxCPUs`).

Both amounts are multiplied by `tuning.offer`, the part that the schedule offers to new pods; for pods that run
already (`Capacity.borne`), by `tuning.lend`.

Memory that an online pod requested counts as used (`memory_request_claim`), so that the offer is never more than
`reclaim.memory` would lend. The form is Koordinator's batch resource (capacity − margin − system − Σ used of high
priority), with the expected peak instead of the present use, so that the number lasts. It is never negative and has
no minimum: a full node offers 0. If a resource cannot be read, its offer does not rise, and after `blind_s` it is 0.
The other resource continues.
"""

from collections.abc import Mapping
from dataclasses import replace
from math import isinf
from typing import Final, NamedTuple

from nri_coloc.core import memory_margin
from nri_coloc.core.lending import Binding, Capacity
from nri_coloc.core.settings import ReclaimTuning
from nri_coloc.forecast.expectations import NEVER, Blind, Expectation, Forecast, blind_for, expect, shown
from nri_coloc.forecast.use import SYSTEM
from nri_coloc.pods.replicas import OnlinePod


class Supply(NamedTuple):
    """The resources to divide.

    cpu_milli: lendable milli-CPU.
    memory_bytes: memory of the machine.
    watermark_bytes: low watermarks of its zones.
    kubepods_limit: kubepods' own limit, bytes; None for none.
    box_milli: CPUs of the reclaim pool itself, milli-CPU; None if it has the CPUs that online pods leave.
    most_milli: the operator's maximum, milli-CPU; None for none.
    host_groups: number of reclaim cgroups outside of kubepods.
    """

    cpu_milli: int
    memory_bytes: int
    watermark_bytes: int = 0
    kubepods_limit: int | None = None
    box_milli: int | None = None
    most_milli: int | None = None
    host_groups: int = 0


DAY_S: Final = 86_400.0
HOUR_S: Final = 3_600.0


class Ahead(NamedTuple):
    """The offer that is expected for an hour."""

    cpu_milli: int
    memory_bytes: int


class _Part(NamedTuple):
    """One resource.

    amount: the offer.
    because: its terms as a sentence.
    known_by: source of the figures.
    """

    amount: int
    because: str
    known_by: Binding = Binding.FORECAST


class _Given(NamedTuple):
    """The terms of an offer; `part` (0 to 1) of both resources is offered."""

    expected: Expectation
    supply: Supply
    online: Mapping[str, OnlinePod]
    tuning: ReclaimTuning
    part: float


class _Past(NamedTuple):
    """One resource's past.

    blind_s: seconds for which its readings have failed.
    offered: the last offer.
    """

    name: str
    unit: str
    blind_s: float
    offered: int


_GRAVEST: Final = (Binding.STALE, Binding.NOT_MEASURED, Binding.YESTERDAY, Binding.FORECAST)
"""Sources, the least certain first. An offer of two resources has the less certain source of both."""


def capacity(
    forecast: Forecast,
    online: Mapping[str, OnlinePod],
    supply: Supply,
    now_s: float,
    tuning: ReclaimTuning,
    *,
    previous: Capacity,
) -> Capacity:
    """Return the offer after the `previous` one; nothing before the first reading."""
    if not tuning.enabled:
        return Capacity(binding=Binding.DISABLED, because="lending is switched off")
    if tuning.paused:
        return paused(tuning)
    if forecast.observed == NEVER:
        return Capacity(binding=Binding.NOT_MEASURED, because="nothing was measured yet")
    blind = blind_for(forecast, now_s, tuning)
    if min(blind) > tuning.forecast.blind_s:
        return Capacity(binding=Binding.STALE, because=f"nothing could be read for {min(blind):.0f} s")
    expected = expect(forecast, online, now_s, tuning)
    before = _pasts(blind, (previous.cpu_milli, previous.memory_bytes))
    given = _Given(expected, supply, online, tuning, tuning.offer)
    cpu, memory = _parts(given, before)
    binding = min(cpu.known_by, memory.known_by, key=_GRAVEST.index)
    if binding is Binding.FORECAST and expected.learning:
        binding = Binding.LEARNING
    if not tuning.offer:
        binding = Binding.SCHEDULE
    because = f"{cpu.because}; {memory.because}{_caveat(expected)}"
    offer = Capacity(cpu.amount, memory.amount, binding, because)
    if not expected.learning and tuning.offer == tuning.lend:
        return offer
    measured = shown(forecast, online, expected, now_s, tuning)
    cpu, memory = _parts(given._replace(expected=measured, part=tuning.lend), _pasts(blind, previous.borne))
    return offer._replace(borne_milli=cpu.amount, borne_bytes=memory.amount)


def ahead(
    forecast: Forecast,
    online: Mapping[str, OnlinePod],
    supply: Supply,
    now_s: float,
    tuning: ReclaimTuning,
) -> tuple[Ahead, ...]:
    """Return the offer for each of the next 24 hours, without a schedule; empty until the node was watched for a day.

    The online pods of now use what their workloads used in the same hour yesterday.
    """
    system = forecast.histories.get(SYSTEM)
    if system is None or system.seen_s < DAY_S:
        return ()
    blank = replace(forecast, observed=NEVER, latest={}, peaks={})
    apart = supply._replace(box_milli=None)
    found: list[Ahead] = []
    for hour in range(24):
        expected = expect(blank, online, now_s + hour * HOUR_S, tuning)
        given = _Given(expected, apart, online, tuning, 1.0)
        found.append(Ahead(_cpu(given).amount, _memory(given).amount))
    return tuple(found)


def _pasts(blind: Blind, before: tuple[int, int]) -> tuple[_Past, _Past]:
    milli, memory = before
    return _Past("CPU", "m", blind.cpu_s, milli), _Past("memory", " bytes", blind.memory_s, memory)


def _parts(given: _Given, pasts: tuple[_Past, _Past]) -> tuple[_Part, _Part]:
    """Return the offer of both resources, each as far as it can be read."""
    of_cpu, of_memory = pasts
    return (
        _as_read(_cpu(given), of_cpu, given.tuning),
        _as_read(_memory(given), of_memory, given.tuning),
    )


def _as_read(found: _Part, past: _Past, tuning: ReclaimTuning) -> _Part:
    """Return the offer of a resource. Without readings it does not rise, and after `blind_s` it is 0."""
    name, unit, blind_s, offered = past
    if not blind_s:
        return found
    if isinf(blind_s):
        return _Part(0, f"{name} was not measured yet", Binding.NOT_MEASURED)
    failed = f"{name} could not be read for {blind_s:.0f} s"
    if blind_s > tuning.forecast.blind_s:
        return _Part(0, failed, Binding.STALE)
    because = f"{failed}, so the same hour yesterday counts, at most the previous {offered}{unit}"
    return _Part(min(found.amount, offered), f"{because}; {found.because}", Binding.YESTERDAY)


def paused(tuning: ReclaimTuning) -> Capacity:
    """Return the offer while lending is paused: nothing, and the reason."""
    return Capacity(binding=Binding.PAUSED, because=tuning.paused)


def untold() -> Capacity:
    """Return the offer before the runtime's list of pods is known: use of unknown pods would look free."""
    return Capacity(because="the runtime has not listed its containers yet")


def _cpu(given: _Given) -> _Part:
    expected, supply, online, tuning, part = given
    system = expected.cpu_milli[SYSTEM]
    pods = sum(expected.cpu_milli.values()) - system
    usable = int(supply.cpu_milli * tuning.watermark)
    amount = max(0, usable - tuning.reserve_milli - pods - system)
    # as for use: if without the schedule more than twice as much could be offered, it is the binding term
    binding = Binding.SCHEDULE if part < 0.5 else _bound_of_use(amount, pods, system)
    amount, binding, bound = _bounded(int(amount * part), binding, supply)
    terms = (
        f"{supply.cpu_milli}m lendable * {tuning.watermark:g} - {tuning.reserve_milli}m reserve"
        f" - {pods}m of {len(expected.cpu_milli) - 1} online pods{_largest(expected.cpu_milli, online, 'm')}"
        f" - {system}m of the system"
    )
    return _Part(amount, f"{binding}: CPU {amount}m = {_times(part, terms)}{bound}")


def _bound_of_use(amount: int, pods: int, system: int) -> Binding:
    """Return the larger use as the binding term, if without use more than twice as much could be offered."""
    if pods + system <= amount:
        return Binding.LENDABLE
    return Binding.ONLINE_USE if pods >= system else Binding.SYSTEM_USE


def _bounded(milli: int, binding: Binding, supply: Supply) -> tuple[int, Binding, str]:
    """Return the offer within the bounds of the reclaim pool, the binding term, and its words if a bound decided."""
    bounds = (
        (supply.box_milli, Binding.BOX, "of the reclaim pool"),
        (supply.most_milli, Binding.POOL_MAXIMUM, "of pools.reclaim.maxCPUs"),
    )
    known = [(bound, which, words) for bound, which, words in bounds if bound is not None and bound < milli]
    if not known:
        return milli, binding, ""
    least, binding, words = min(known)
    return least, binding, f", and no more than the {least}m {words}"


def _times(part: float, terms: str) -> str:
    return terms if part == 1.0 else f"{part:.0%} of ({terms})"


def _memory(given: _Given) -> _Part:
    expected, supply, online, tuning, part = given
    system = expected.memory_bytes[SYSTEM]
    pods = sum(expected.memory_bytes.values()) - system
    margin = memory_margin.left_on_node(supply.memory_bytes, tuning)
    room = supply.memory_bytes - margin - supply.watermark_bytes - tuning.memory_reserve - system
    terms = (
        f"{supply.memory_bytes} bytes - {margin} margin - {supply.watermark_bytes} of the kernel's"
        f" - {tuning.memory_reserve} reserve - {system} of the system"
    )
    of_pods = ""
    below_limit = _below(supply.kubepods_limit, tuning)
    if below_limit is not None and below_limit < room:
        limit = f"{below_limit} bytes below kubepods' own limit"
        if supply.host_groups:
            of_pods = f", to pods at most {int(max(0, below_limit - pods) * part)} for the {limit}"
        else:
            room, terms = below_limit, limit
    amount = int(max(0, room - pods) * part)
    largest = _largest(expected.memory_bytes, online, " bytes")
    terms += f" - {pods} of {len(online)} online pods{largest}"
    return _Part(amount, f"memory {amount} = {_times(part, terms)}{of_pods}")


def _below(limit: int | None, tuning: ReclaimTuning) -> int | None:
    """Return the bytes that pods may use below kubepods' limit without its margin; None without a limit."""
    return None if limit is None else limit - memory_margin.left_below(limit, tuning)


def _largest(amounts: Mapping[str, int], online: Mapping[str, OnlinePod], unit: str) -> str:
    pods = [pod_id for pod_id in amounts if pod_id != SYSTEM]
    if not pods:
        return ""
    first = max(pods, key=lambda pod_id: (amounts[pod_id], pod_id))
    return f" (most: {online[first].workload} {amounts[first]}{unit})"


def _caveat(expected: Expectation) -> str:
    learning = len(expected.learning)
    return f"; {learning} of them still being learnt, at request or peak so far" if learning else ""
