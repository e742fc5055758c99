"""`nri-coloc explain NAMESPACE/POD[/CONTAINER]`: each container's present CPUs, and the decisions that led to them.

Only `run` does I/O; the other functions turn the daemon's state and audit records into lines. If no record explains the
present CPUs, a line says so.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from nri_coloc.cli import asking
from nri_coloc.core import cpuset
from nri_coloc.core.texts import plain
from nri_coloc.errors import ColocError, SettingsError
from nri_coloc.service import overview

Record = Mapping[str, Any]

_MOVING: Final = frozenset({"reconfigured", "main_came", "main_gone", "cpus_freed"})
"""Reasons of a container.update that places a container again, as an admission does."""

_ADMITTED: Final = "container.admit"

_CPUS_OF_A_PLACE: Final = ("pool_cpus", "main_cpus", "claim_cpus")
"""Inputs of a placement that name CPUs (docs/audit.md)."""

_LATER: Final = 10
"""Later records that are shown at most: the newest."""

_HEADS: Final = ("node", "free", "whole cores", "verdict")


@dataclass(frozen=True, slots=True)
class Whom:
    """The subject to explain; an empty container means all containers of the pod."""

    namespace: str
    pod: str
    container: str = ""

    @property
    def name(self) -> str:
        return "/".join(filter(None, (self.namespace, self.pod, self.container)))

    def matches(self, thing: Record) -> bool:
        """Return whether a container of the state, or a record, belongs to it."""
        if (thing.get("namespace"), thing.get("pod")) != (self.namespace, self.pod):
            return False
        return self.container in ("", thing.get("container"))


def run(address: str, text: str) -> int:
    """Print the explanation and return 0; raise ColocError if the daemon has no record of the subject."""
    whom = read(text)
    state = asking.ask(address, "/v1/state")
    found = asking.records_of_pod(address, f"{whom.namespace}/{whom.pod}")
    with asking.understood(address):
        told = lines(whom, state, merged(found.kept, found.records))
    print(*told, sep="\n")
    return 0


def read(text: str) -> Whom:
    """Return the parts of NAMESPACE/POD[/CONTAINER]; raise SettingsError for another text."""
    parts = text.split("/")
    if len(parts) not in (2, 3) or not all(parts):
        raise SettingsError(f"{text!r} is not NAMESPACE/POD or NAMESPACE/POD/CONTAINER")
    return Whom(*parts)


def merged(kept: Sequence[Record], found: Sequence[Record]) -> list[Record]:
    """Return both lists as one, oldest first, each record once.

    Records are sorted by time, because `seq` begins again with each process. If the previous process admitted
    a container, this process's admission is left out: it decided nothing new.
    """
    known = {asking.identity(record) for record in kept}
    admitted = {record["container_id"] for record in kept if record["event"] == _ADMITTED}
    news = (r for r in found if r["event"] != _ADMITTED or r["container_id"] not in admitted)
    return sorted(
        [*kept, *(r for r in news if asking.identity(r) not in known)], key=lambda record: str(record["ts"])
    )


def lines(whom: Whom, state: Record, records: Sequence[Record]) -> list[str]:
    """Return the whole explanation; raise ColocError if the daemon has no record of the pod.

    records: the records of the pod, and the last record of each pool.
    """
    alive = {c["id"]: c for c in state.get("containers", ()) if whom.matches(c)}
    mine = [r for r in records if whom.matches(r)]
    ended = {r["container_id"]: r for r in mine if r["container_id"] and r["container_id"] not in alive}
    if not alive and not mine:
        raise ColocError(
            f"the daemon has no record of {plain(whom.name)}: it is not on this node, or was removed long ago"
        )
    told: list[str] = []
    for container in alive.values():
        own = _of(mine, container["id"])
        told += [
            *_place(container),
            *_now(container, records),
            *_story(own),
            *_elsewhere(container, state),
            "",
        ]
    for container_id, record in ended.items():
        told += [f"{_full(record)}  no longer exists", *_story(_of(mine, container_id)), ""]
    told += [f"the pod: {_sentence(r)}" for r in mine if not r["container_id"]]
    return [*map(plain, told[:-1] if told and not told[-1] else told)]


def _of(records: Iterable[Record], container_id: str) -> list[Record]:
    return [r for r in records if r["container_id"] == container_id]


def _place(container: Record) -> Iterator[str]:
    own = " (its own)" if container["exclusive"] else ""
    cpus = f"CPUs {container['cpus'] or 'set by the runtime'}{own}"
    where = f"class {container['class']}, pool {container['pool']}, {cpus}, memory nodes {container['mems']}"
    yield f"{_full(container)}  {where}"
    if container.get("waits_for"):
        yield f"  waits for {container['waits_for']}; it is placed again when they are free"
    if not container["actual_cpus"]:
        why = container.get("actual_cpus_unknown") or "not read back yet"
        yield f"  its actual CPUs are unknown: {why}"
    elif container["cpus"] and container["actual_cpus"] != container["cpus"]:
        yield f"  but its cgroup has CPUs {container['actual_cpus']}"


def _elsewhere(container: Record, state: Record) -> Iterator[str]:
    """Yield the owners of the CPUs that the pool `share` lacks: no record names those that it never had."""
    node = state["node"]
    if container["pool"] != "share" or not container["cpus"]:
        return
    lacks = cpuset.parse(node["cpus"]) & ~cpuset.parse(state["pools"]["share"]["cpus"])
    closed = lacks & ~cpuset.parse(node.get("kubepods", node["cpus"]))
    if closed:
        yield f"  CPUs {cpuset.render(closed)}: not in the cgroup of all pods (kubepods)"
    for owner, cpus in overview.layout(state).legend.items():
        if others := cpuset.parse(cpus) & lacks & ~closed:
            yield f"  CPUs {cpuset.render(others)}: {_OWNERS.get(owner.kind, owner.name)}"


_OWNERS: Final = {
    "none": "in no pool (isolated by the kernel)",
    "reserved": "reserved (node.reservedCPUs)",
    "kubelet": "pinned by the kubelet's CPU manager",
}
"""What owns CPUs that pods of pool `share` may not have, by kind; other owners have a name."""


def _now(container: Record, records: Sequence[Record]) -> Iterator[str]:
    """Yield the newest record that led to the present CPUs, unless it is the decision that placed the container.

    It is a record of the container, of its pool, or of another container of the pod that this container follows.
    """
    cpus = container["cpus"]
    if not cpus:
        return
    leading = [r for r in records if _leads(r, container)]
    own = [r for r in records if r["container_id"] == container["id"]]
    if not leading:
        yield f"  no record explains CPUs {cpus} yet{_why_not(container['pool'])}"
    elif leading[-1] is not next((r for r in reversed(own) if _places(r)), None):
        yield f"  CPUs {cpus} since {_sentence(leading[-1])}"


def _leads(record: Record, container: Record) -> bool:
    """Return whether a record led to the present CPUs; a placement on CPUs of the specification writes none."""
    cpus, inputs = container["cpus"], record.get("inputs", {})
    if record["container_id"] == container["id"] and _places(record):
        return cpus in (record.get("after", {}).get("cpus"), *map(inputs.get, _CPUS_OF_A_PLACE))
    return _may_lead(record, container) and record.get("after", {}).get("cpus") == cpus


def _may_lead(record: Record, container: Record) -> bool:
    if record["pod"]:
        return (record["namespace"], record["pod"]) == (container["namespace"], container["pod"])
    return bool(record.get("pool") == container["pool"])


def _why_not(pool: str) -> str:
    if pool != "reclaim":
        return ""
    return ": a swinging pool has one record a minute; `nri-coloc audit` shows the earlier ones, reclaim.*"


def _full(thing: Record) -> str:
    return "/".join(filter(None, (thing["namespace"], thing["pod"], thing["container"])))


def _story(records: Sequence[Record]) -> Iterator[str]:
    """Yield the decision that placed a container, later decisions, and annotations that did not count."""
    placing = [at for at, record in enumerate(records) if _places(record)]
    if not placing:
        yield "  the record of its admission is lost"
    else:
        decision = records[placing[-1]]
        yield f"  {_sentence(decision)}"
        yield from (f"    {line}" for line in table(decision.get("candidates", ())))
    later = [r for r in records[placing[-1] + 1 if placing else 0 :] if not _is_annotation(r)]
    if later:
        yield "  since then"
        yield from (f"    {_sentence(record)}" for record in later[-_LATER:])
    refused = {(r["key"], r["value"]): r for r in records if _is_annotation(r)}
    if refused:
        yield "  annotations that do not count"
        yield from (f"    {_annotation(record)}" for record in refused.values())


def _places(record: Record) -> bool:
    return record["event"] == _ADMITTED or (
        record["event"] == "container.update" and record["reason"] in _MOVING
    )


def _is_annotation(record: Record) -> bool:
    return str(record["event"]).startswith("annotation.")


def _sentence(record: Record) -> str:
    because = record.get("inputs", {}).get("details") or record["because"]
    return f"{record['ts']} {record['event']} {record['reason']}: {because}"


def _annotation(record: Record) -> str:
    why = "is not allowed for this pod" if record["event"] == "annotation.denied" else "cannot be read"
    return f"{record['key']}={record['value']!r} {why}; allowed: {record['allowed']}; used: {record['used']}"


def table(candidates: Sequence[Record]) -> list[str]:
    """Return the NUMA nodes that the decision considered, in columns."""
    if not candidates:
        return []
    keys = [head.replace(" ", "_") for head in _HEADS]
    rows = [_HEADS, *(tuple(plain(c.get(key, "")) for key in keys) for c in candidates)]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return [
        "  ".join([*(cell.rjust(width) for cell, width in zip(row, widths, strict=False)), row[3]])
        for row in rows
    ]
