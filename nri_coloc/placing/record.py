"""The memory that survives without a state file: an annotation on the container itself.

At creation we add `coloc.nri.io/record`; the runtime stores it and hands it back in Synchronize, after our
restart and after its own (DESIGN invariant 3). It holds what cannot be derived again: the class at that time,
the pool, the exclusive CPUs, and what the runtime's spec held before us: `original` names every value that is
ours, with null where the spec had none. `lent` names what a reclaimed container's spec got of us, so that it is known
whether that still holds. What there is of a loan is told only by a record that is written for ourselves, when a
container is placed again: at creation there is all of it.
"""

import json
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, Final

from nri_coloc.core import cpuset
from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.knobs import AUDIT_NAMES, NO_KNOBS, Knobs, KnobValue
from nri_coloc.core.state import RECLAIM, Assignment
from nri_coloc.core.workload import RECORD_LENGTH, Container, QoSClass, Resources, Wish

_VERSION: Final = 1
_ENCODE: Final = json.JSONEncoder(separators=(",", ":")).encode
_TEXTS: Final = frozenset({"cpus", "mems", "blockio_class", "rdt_class"})
_SPEC: Final = tuple(each.name for each in fields(Resources))
_FIGURES: Final = Knobs(shares=0, quota=0, period=0, memory_limit=0)
"""The lent values in a container's spec; only which of them are set counts."""

_ATTRIBUTE: Final = {name: attribute for attribute, name in AUDIT_NAMES}


@dataclass(frozen=True, slots=True)
class Record:
    """A record that was read back."""

    qos: QoSClass
    pool: str
    exclusive: CPUMask
    mems: CPUMask
    original: Knobs
    ours: tuple[str, ...] = ()
    granted: Knobs = NO_KNOBS
    lent: Knobs = NO_KNOBS


def write(assignment: Assignment) -> str:
    """Render an assignment as the annotation's value."""
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
    """Render a record, `bound` being CPUs and memory nodes of its own; most containers of a pool have the same one."""
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
    """Read a record; None for none, for another version's, and for anything we would not have written."""
    if not text or len(text) > RECORD_LENGTH:
        return None
    try:
        entry = json.loads(text)
        if entry["v"] != _VERSION:
            return None
        original, granted, lent = (_values(entry, part) for part in ("original", "granted", "lent"))
        return Record(
            QoSClass(entry["class"]),
            str(entry["pool"]),
            cpuset.parse(str(entry.get("exclusive", ""))),
            cpuset.parse(str(entry.get("mems", ""))),
            Knobs(**original),
            tuple(original),
            Knobs(**granted),
            Knobs(**lent),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _values(entry: dict[str, Any], part: str) -> dict[str, Any]:
    return {_ATTRIBUTE[name]: _checked(name, value) for name, value in entry.get(part, {}).items()}


def _checked(name: str, value: object) -> KnobValue | None:
    """Return a knob's value if it is of its kind; ValueError for what would not survive arithmetic or the wire."""
    if value is None or (name in _TEXTS and isinstance(value, str)):
        return value
    if name not in _TEXTS and type(value) is int and value.bit_length() < 64:
        return value
    raise ValueError(f"{name} cannot be {value!r}")


def before_us(container: Container) -> Container:
    """Return the container with the kubelet's own values where its spec now holds ours.

    After a restart the runtime reports what we had set: half of a limit must not be halved again.
    """
    known = read(container.record)
    if known is None or not known.ours:
        return container
    spec = container.resources
    ours = _ours_in(known, spec)
    kubelet = {name: getattr(known.original, name) for name in ours if hasattr(spec, name)}
    for text in ("cpus", "mems"):
        if text in kubelet:
            kubelet[text] = kubelet[text] or ""
    oom = known.original.oom_score_adj if "oom_score_adj" in known.ours else container.oom_score_adj
    return replace(container, resources=replace(spec, **kubelet), oom_score_adj=oom)


def _ours_in(memory: Record, spec: Resources) -> tuple[str, ...]:
    """Return which values of ours a spec may still hold.

    Of a reclaimed container it holds none of the figures where one is not what was lent, nor a part of that: they were
    given back since, and the kubelet may have told others.
    """
    lent = [
        (value, getattr(spec, name)) for name, value in memory.lent._asdict().items() if value is not None
    ]
    if all(0 < (shown or 0) <= value for value, shown in lent):
        return memory.ours
    return tuple(name for name in memory.ours if getattr(memory.lent, name) is None)


def former(container: Container) -> Assignment | None:
    """Return what a record tells of a container's first life; of our values then, those that its spec still shows.

    What no spec shows is 0 or "": that it was ours counts. `hands_off`: its CPUs were not.
    """
    memory = read(container.record)
    if memory is None:
        return _journalled(container)
    names = _ours_in(memory, container.resources)
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
    """Return what the journal tells of who carries no record: of class and pool nothing, and nobody asks for those."""
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
    """Return the memory limit of the kubelet's that a spec's makes likely; None for no other than there was.

    `wish` is read with the one that there was. If the limit that it asks for is a part of that one, the spec's is the
    same part of the present one. What a loan was cut to is no part of any other.
    """
    then = wish.annotated.memory_limit
    if not was or not then or not now or min(was, now) < 0 or now == then:
        return None
    if now < then and wish.qos is QoSClass.RECLAIMED:
        return None
    percent = -(-100 * then // was)
    return -(-100 * now // percent)


def resized_since(container: Container, wish: Wish) -> Container | None:
    """Return the container with a record as of the memory limit that its spec's makes likely; None for no other."""
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
    """Return the runtime's newest facts about a container that we placed, without our own values in them.

    Where its spec now holds ours, the kubelet's value is the one that we remember.
    """
    ours = known.knobs.oom_score_adj is not None
    return replace(
        container,
        record="",
        resources=kubelets_of(container.resources, known),
        oom_score_adj=known.container.oom_score_adj if ours else container.oom_score_adj,
    )


def kubelets_of(spec: Resources, known: Assignment) -> Resources:
    """Return the kubelet's own values of a spec that may hold ours, or hold them yet: what is given back is pushed."""
    had, ours = known.container.resources, known.returned.overlaid(known.knobs)
    remembered = {name: getattr(had, name) for name in _SPEC if getattr(ours, name) is not None}
    return replace(spec, **remembered) if remembered else spec


def as_listed(assignment: Assignment) -> Container:
    """Return a container as the runtime hands it back: our CPUs in its spec, and its record beside."""
    spec = assignment.container.resources
    cpus = spec.cpus if assignment.hands_off else cpuset.render(assignment.exclusive) or spec.cpus
    return replace(assignment.container, resources=replace(spec, cpus=cpus), record=write(assignment))
