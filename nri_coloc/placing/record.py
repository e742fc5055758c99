"""The record annotation: each container keeps the facts about its placement, so that no state file is needed.

At creation we add `coloc.nri.io/record`. The runtime stores it and returns it in Synchronize, after our restart and
after its own (docs/testing.md, invariant 3). It holds facts that cannot be derived again: the class at that time, the
pool, the exclusive CPUs, and the values of the runtime's spec before us. `original` names every value that is ours,
with null if the spec had none. `lent` has our values in a reclaimed container's spec, so that a reader can see whether
they still hold. `granted`, the present part of a loan, is only in a record that we write for ourselves when a
container is placed again: at creation the whole loan is granted.
"""

import json
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, Final

from nri_coloc.core import cpuset
from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.knobs import AUDIT_NAMES, NO_KNOBS, Knobs, KnobValue
from nri_coloc.core.state import RECLAIM, Assignment
from nri_coloc.core.value import replace
from nri_coloc.core.workload import (
    RECORD_LENGTH,
    Container,
    QoSClass,
    Resources,
    Wish,
    lowest_memory_limit,
)

_VERSION: Final = 1
_ENCODE: Final = json.JSONEncoder(separators=(",", ":")).encode
_TEXTS: Final = frozenset({"cpus", "mems", "blockio_class", "rdt_class"})
_SPEC: Final = tuple(each.name for each in fields(Resources))
_FIGURES: Final = Knobs(shares=0, quota=0, period=0, memory_limit=0)
"""The lent values in a container's spec; only which of them are set counts."""

_ATTRIBUTE: Final = {name: attribute for attribute, name in AUDIT_NAMES}


@dataclass(frozen=True, slots=True)
class Record:
    """A record that was read.

    qos, pool: at creation.
    exclusive: CPUs of its own, 0 for none.
    mems: memory nodes of its own, 0 for no binding.
    original: values of the spec before us.
    ours: names of the values that are ours.
    granted: the present part of a loan.
    lent: values that a loan set in the spec.
    """

    qos: QoSClass
    pool: str
    exclusive: CPUMask
    mems: CPUMask
    original: Knobs
    ours: tuple[str, ...] = ()
    granted: Knobs = NO_KNOBS
    lent: Knobs = NO_KNOBS


def write(assignment: Assignment) -> str:
    """Return an assignment as the annotation's text."""
    return _text(
        assignment.qos,
        assignment.pool,
        (assignment.exclusive, assignment.mems),
        assignment.knobs,
        assignment.original,
        assignment.granted,
    )


@lru_cache(maxsize=512)
def _text(
    qos: QoSClass, pool: str, bound: tuple[CPUMask, CPUMask], knobs: Knobs, original: Knobs, granted: Knobs
) -> str:
    """Return the text of a record; `bound`: CPUs and memory nodes of its own.

    The result is cached: most containers of a pool have the same text.
    """
    entry: dict[str, Any] = {"v": _VERSION, "class": qos.value, "pool": pool}
    exclusive, mems = bound
    if exclusive:
        entry["exclusive"] = cpuset.render(exclusive)
    if mems:
        entry["mems"] = cpuset.render(mems)
    ours = knobs.named()
    if ours:
        was = original.named()
        entry["original"] = {name: was.get(name) for name in ours}
    lent = knobs.where_set(_FIGURES) if qos is QoSClass.RECLAIMED else NO_KNOBS
    if lent != NO_KNOBS:
        entry["lent"] = lent.named()
    if granted != NO_KNOBS:
        entry["granted"] = granted.named()
    return _ENCODE(entry)


def read(text: str) -> Record | None:
    """Return a record; None for no text, for another version's, and for text that we would not have written."""
    if not text or len(text) > RECORD_LENGTH:
        return None
    try:
        entry = json.loads(text)
        if entry["v"] != _VERSION:
            return None
        original, granted, lent = (_values(entry, part) for part in ("original", "granted", "lent"))
        return Record(
            qos=QoSClass(entry["class"]),
            pool=str(entry["pool"]),
            exclusive=cpuset.parse(str(entry.get("exclusive", ""))),
            mems=cpuset.parse(str(entry.get("mems", ""))),
            original=Knobs(**original),
            ours=tuple(original),
            granted=Knobs(**granted),
            lent=Knobs(**lent),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _values(entry: dict[str, Any], part: str) -> dict[str, Any]:
    return {_ATTRIBUTE[name]: _checked(name, value) for name, value in entry.get(part, {}).items()}


def _checked(name: str, value: object) -> KnobValue | None:
    """Return a knob's value; raise ValueError for another type, or a number too large for arithmetic or the wire."""
    if value is None or (name in _TEXTS and isinstance(value, str)):
        return value
    if name not in _TEXTS and type(value) is int and value.bit_length() < 64:
        return value
    raise ValueError(f"{name} cannot be {value!r}")


def before_us(container: Container) -> Container:
    """Return the container with the kubelet's own values in place of ours in its spec.

    After a restart the runtime reports the values that we set: half of a limit must not be halved again.
    """
    known = read(container.record) if container.record else None
    if known is None or not known.ours:
        return container
    spec = container.resources
    ours = ours_in(known, spec)
    kubelet = {name: getattr(known.original, name) for name in ours if hasattr(spec, name)}
    for text in ("cpus", "mems"):
        if text in kubelet:
            kubelet[text] = kubelet[text] or ""
    oom = known.original.oom_score_adj if "oom_score_adj" in known.ours else container.oom_score_adj
    return replace(container, resources=replace(spec, **kubelet), oom_score_adj=oom)


def ours_in(memory: Record, spec: Resources) -> tuple[str, ...]:
    """Return the names of our values that a spec may still hold.

    If one figure of a reclaimed container's spec is neither the lent value nor a part of it, no figure is ours: they
    were restored since, and the kubelet may have set others.
    """
    lent = [
        (value, getattr(spec, name)) for name, value in memory.lent._asdict().items() if value is not None
    ]
    if all(0 < (shown or 0) <= value for value, shown in lent):
        return memory.ours
    return tuple(name for name in memory.ours if getattr(memory.lent, name) is None)


def former(container: Container) -> Assignment | None:
    """Return a container's assignment at its creation, with our values of that time if its spec still shows them.

    A value that no spec shows is 0: only that it was ours counts. `hands_off`: its CPUs were not ours.
    """
    memory = read(container.record)
    if memory is None:
        return _journalled(container)
    names = ours_in(memory, container.resources)
    shown = container.resources.knobs(container.oom_score_adj)
    ours = Knobs._make(
        [(value or 0) if name in names else None for name, value in zip(Knobs._fields, shown, strict=True)]
    )
    return Assignment(
        container,
        memory.qos,
        memory.pool,
        memory.exclusive,
        mems=memory.mems,
        hands_off=ours.cpus is None,
        knobs=ours,
        original=memory.original,
    )


def _journalled(container: Container) -> Assignment | None:
    """Return an assignment from the journal for a container without the record annotation; None without an entry.

    The journal has no class and no pool: the values here are not used by any caller.
    """
    found = container.journalled
    if found is None:
        return None
    ours = Knobs._make([0 if name in found.ours else None for name in Knobs._fields])
    return Assignment(
        container,
        QoSClass.RECLAIMED,
        RECLAIM,
        hands_off=ours.cpus is None,
        knobs=ours,
        original=found.values,
    )


def limit_since(was: int | None, wish: Wish, now: int | None) -> int | None:
    """Return the kubelet's memory limit that a spec's limit `now` makes likely, bytes; None if it did not change.

    `was` is the kubelet's earlier limit, and `wish` was read with it. If the ordered limit is a percentage of `was`,
    the spec's limit is the same percentage of the present one. A reclaimed container's lower limit is a reduced loan,
    and no percentage of another limit.
    """
    then = wish.annotated.memory_limit
    if not was or not then or not now or min(was, now) < 0 or now == then:
        return None
    if now < then and wish.qos is QoSClass.RECLAIMED:
        return None
    percent = -(-100 * then // was)
    return -(-100 * now // percent)


def resized_since(container: Container, wish: Wish) -> Container | None:
    """Return the container with a record for the memory limit that its spec makes likely; None if it did not change."""
    memory = read(container.record)
    if memory is None:
        return None
    limit = limit_since(memory.original.memory_limit, wish, container.resources.memory_limit)
    if limit is None:
        return None
    original = memory.original._replace(memory_limit=limit)
    ours = Knobs._make([0 if name in memory.ours else None for name in Knobs._fields])
    text = _text(memory.qos, memory.pool, (memory.exclusive, memory.mems), ours, original, NO_KNOBS)
    return replace(container, record=text)


def facts_of(container: Container, known: Assignment) -> Container:
    """Return the runtime's newest facts about a container that we placed, without our own values.

    The kubelet gives an OOM score once, and no update takes one of ours out of a spec, also when other settings hold.
    A spec shows another memory limit than the known one if its update did not reach us.
    """
    had, certain = known.container, container.certain_limit
    spec = kubelets_of(container.resources, known)
    is_same = spec.memory_limit == had.resources.memory_limit
    return replace(
        container,
        record="",
        resources=spec,
        oom_score_adj=had.oom_score_adj,
        lowest_limit=had.lowest_limit if is_same else lowest_memory_limit(had),
        certain_limit=had.certain_limit if certain is None else certain,
    )


def kubelets_of(spec: Resources, known: Assignment) -> Resources:
    """Return a spec with the kubelet's own values in place of ours; restored values are ours until they are pushed."""
    had, ours = known.container.resources, known.returned.overlaid(known.knobs)
    remembered = {name: getattr(had, name) for name in _SPEC if getattr(ours, name) is not None}
    return replace(spec, **remembered) if remembered else spec


def as_listed(assignment: Assignment) -> Container:
    """Return a container as the runtime lists it: with our CPUs in its spec, and with its record."""
    spec = assignment.container.resources
    cpus = spec.cpus if assignment.hands_off else cpuset.render(assignment.exclusive) or spec.cpus
    return replace(assignment.container, resources=replace(spec, cpus=cpus), record=write(assignment))
