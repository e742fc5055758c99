"""Describe the node in sentences, for the page and for `nri-coloc top`.

The input is the answers of `/v1/state`, `/v1/capacity` and `/readyz`. An unknown value is "unknown", never 0. A CPU's
owner has a sign beside its colour, so that no reader needs colours. In mode `observe` no value is written, and the
sentences say so.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import chain, repeat
from string import ascii_lowercase, ascii_uppercase
from typing import Any, Final, NamedTuple

from nri_coloc.core import cpuset
from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.texts import counted

State = Mapping[str, Any]
Capacity = Mapping[str, Any]
Readiness = Mapping[str, Any]

MANY: Final = "+"
"""The sign of owners beyond the 26 letters."""

NAMED: Final = 3
"""Containers that a warning names; the others are counted."""

_GIB: Final = 1 << 30
_MIB: Final = 1 << 20
_WITHOUT_FIGURES: Final = ("lending_not_measured", "lending_disabled")
_WORDS: Final = {
    "lending_paused": "lending is paused",
    "learning": "use is still being learnt",
    "schedule": "by the clock",
}


class Owner(NamedTuple):
    """The owner of CPUs: `sign` is one character, `kind` a name for its colour, `id` a container's, else ""."""

    sign: str
    kind: str
    name: str
    id: str = ""


class Row(NamedTuple):
    """A container in the table.

    cpus: the decided CPUs.
    read_back: the CPUs that were read back.
    sign: the sign of its owned CPUs, "" for none.
    warns: whether to mark the row.
    """

    name: str
    qos: str
    pool: str
    cpus: str
    read_back: str
    sign: str = ""
    warns: bool = False


class Layout(NamedTuple):
    """Every online CPU's owner, the owners in the order of the legend, and the containers."""

    nodes: tuple[tuple[int, tuple[int, ...]], ...]
    owner_of: Mapping[int, Owner]
    rows: tuple[Row, ...]

    @property
    def legend(self) -> dict[Owner, str]:
        """Return each owner with its CPUs as a list."""
        cpus: dict[Owner, list[int]] = {}
        for cpu, owner in sorted(self.owner_of.items()):
            cpus.setdefault(owner, []).append(cpu)
        return {owner: cpuset.render(cpuset.of(found)) for owner, found in cpus.items()}


class Head(NamedTuple):
    """The lines above the picture: `status` with its problems, facts, and warnings about containers."""

    is_ready: bool
    status: str
    problems: tuple[str, ...]
    facts: tuple[str, ...]
    warnings: tuple[str, ...]


def layout(state: State) -> Layout:
    """Return the owner of each CPU, and each container's CPUs in words."""
    owned = tuple(_owned(state))
    owner_of = dict.fromkeys(cpuset.members(cpuset.parse(state["node"]["cpus"])), _NO_OWNER)
    for mask, owner in owned:
        owner_of.update(dict.fromkeys(cpuset.members(mask & cpuset.of(owner_of)), owner))
    sign_of = {owner.id: owner.sign for _, owner in owned if owner.id}
    nodes = state["node"]["numa"] or [{"id": 0, "cpus": state["node"]["cpus"]}]
    here = (
        (node["id"], tuple(cpu for cpu in cpuset.members(cpuset.parse(node["cpus"])) if cpu in owner_of))
        for node in nodes
    )
    observes = state["mode"] == "observe"
    rows = (_row(each, sign_of.get(each["id"], ""), observes=observes) for each in state["containers"])
    return Layout(tuple(here), owner_of, tuple(rows))


def head(state: State, capacity: Capacity, readiness: Readiness, now: datetime) -> Head:
    """Return status, facts and warnings; `now` is the time at which the answers were given."""
    checks = readiness["checks"]
    problems = tuple(
        f"{name}: {check['detail'] or 'no detail'}" for name, check in checks.items() if not check["ok"]
    )
    is_ready = readiness["ready"] is True
    return Head(
        is_ready,
        f"{_mode(state, checks)}, {'ready' if is_ready else 'not ready'}",
        problems,
        tuple(_facts(state, capacity, checks, now)),
        tuple(_warnings(state)),
    )


def as_json(state: State, capacity: Capacity, readiness: Readiness, now: datetime) -> dict[str, Any]:
    """Return head and layout for the page, which only draws them; it is no contract."""
    drawn, above = layout(state), head(state, capacity, readiness, now)
    number = {owner: at for at, owner in enumerate(drawn.legend)}
    return {
        **above._asdict(),
        "nodes": [
            {"id": node, "cells": [[cpu, number[drawn.owner_of[cpu]]] for cpu in cpus]}
            for node, cpus in drawn.nodes
        ],
        "legend": [owner._asdict() | {"cpus": cpus} for owner, cpus in drawn.legend.items()],
        "pools": [[name, pool["cpus"] or "none", pool["members"]] for name, pool in state["pools"].items()],
        "containers": [row._asdict() for row in drawn.rows],
    }


def cores(milli: int) -> str:
    """Return an amount of CPU for people: "1.9 cores"."""
    return "under 0.1 cores" if 0 < milli < 50 else f"{milli / 1000:.1f} cores"


def amount(size: int) -> str:
    """Return bytes for people: "30.8 GiB", below one GiB "512 MiB"."""
    return f"{size / _GIB:.1f} GiB" if size >= _GIB or not size else f"{size / _MIB:.0f} MiB"


def name_of(container: State) -> str:
    """Return namespace/pod/container, as far as they are known."""
    parts = (container["namespace"], container["pod"], container["container"])
    return "/".join(filter(None, parts))


# ---- owners of CPUs ----

_NO_OWNER: Final = Owner("-", "none", "no pool")


def _owned(state: State) -> Iterator[tuple[CPUMask, Owner]]:
    """Yield CPUs with their owner; a later owner replaces an earlier one."""
    pools = {name: cpuset.parse(pool["cpus"]) for name, pool in state["pools"].items()}
    share, reclaim = pools["share"], pools["reclaim"]
    observes = state["mode"] == "observe"
    yield share, Owner(".", "share", "online pods (pool share)")
    letters = chain(ascii_uppercase, repeat(MANY))
    for name, cpus in pools.items():
        if name not in _BUILT_IN and cpus and not cpus & share and cpus != pools["system"]:
            yield cpus, Owner(next(letters), "pool", f"pool {name}")
    if _has_reclaimed(state):
        would = "would be lent" if observes else "lent"
        yield reclaim & share, Owner("~", "lent", f"online pods, {would} to reclaimed pods")
        yield reclaim & ~share, Owner("=", "reclaim", "reclaimed pods only")
    else:
        yield reclaim & ~share, Owner("=", "reclaim", "pool reclaim, no reclaimed pod")
    yield pools["reserved"], Owner("#", "reserved", "reserved")
    yield cpuset.parse(state["node"].get("kept_by_kubelet", "")), Owner("%", "kubelet", "the kubelet's own")
    letters = chain(ascii_lowercase, repeat(MANY))
    for each in state["containers"]:
        if each["exclusive"]:
            yield cpuset.parse(each["cpus"]), Owner(next(letters), "dedicated", name_of(each), each["id"])


_BUILT_IN: Final = frozenset({"reserved", "dedicated", "system", "share", "reclaim"})


def _has_reclaimed(state: State) -> bool:
    return bool(state["pools"]["reclaim"]["members"] or state.get("host_groups"))


# ---- containers ----


def lacks_own_cpus(container: State) -> bool:
    """Return whether a dedicated container runs in a pool that other pods use."""
    return bool(container["class"] == "dedicated" and container["pool"] != "dedicated")


def _row(container: State, sign: str, *, observes: bool) -> Row:
    cpus, actual = container["cpus"], container["actual_cpus"]
    differs = bool(actual and cpus and actual != cpus) and not observes
    read_back = actual or f"unknown: {container.get('actual_cpus_unknown') or 'not read back yet'}"
    return Row(
        name=name_of(container),
        qos=container["class"],
        pool=container["pool"],
        cpus=_cpus(container),
        read_back=f"{actual}, differs" if differs else read_back,
        sign=sign,
        warns=differs or not actual or bool(container.get("waits_for")),
    )


def _cpus(container: State) -> str:
    cpus, waits_for = _place(container), container.get("waits_for")
    return f"{cpus}; waits for {waits_for}" if waits_for else cpus


def _place(container: State) -> str:
    cpus = str(container["cpus"])
    if not cpus:
        return "left to the runtime"
    if container["exclusive"]:
        return f"{cpus}, its own"
    if lacks_own_cpus(container):
        return f"{cpus}, none of its own"
    return f"{cpus}, its main container's" if container["pool"] == "dedicated" else cpus


def _warnings(state: State) -> Iterator[str]:
    switch = state["lending"]["switch"]
    if switch != "on":
        yield f"an operator's switch is at {switch}: `nri-coloc admin lending on` lends again"
    waiting = [
        f"{name_of(each)} for {each['waits_for']}" for each in state["containers"] if each.get("waits_for")
    ]
    if waiting:
        yield f"waiting: {_some(waiting)}"
    if limited := [*_limited(state)]:
        yield f"limited because online pods wait: {_some(limited)}"
    if state["mode"] == "observe":
        return
    both = [each for each in state["containers"] if each["cpus"] and each["actual_cpus"]]
    differing = [name_of(each) for each in both if each["cpus"] != each["actual_cpus"]]
    if differing:
        yield f"CPUs read back differ from those decided: {_some(differing)}"


def _limited(state: State) -> Iterator[str]:
    """Yield the throttled and degraded containers with their limits."""
    for each in state["containers"]:
        limits = {**each.get("throttled", {}), **each.get("degraded", {})}
        if limits:
            yield f"{name_of(each)} ({', '.join(f'{knob}={words}' for knob, words in limits.items())})"


def _some(names: list[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


# ---- facts ----


def _mode(state: State, checks: Mapping[str, Any]) -> str:
    if state["mode"] == "observe":
        mode = "mode observe: nothing is changed"
    else:
        mode = "mode enforce"
    if checks.get("config", {}).get("ok", True):
        return mode
    return f"{mode} (by the last valid configuration)"


def _facts(state: State, capacity: Capacity, checks: Mapping[str, Any], now: datetime) -> Iterator[str]:
    if not checks.get("connected", {}).get("ok", True):
        known = "known from the last connection" if state["containers"] else "unknown"
        yield f"not connected to the runtime: containers are {known}"
    yield from _by_the_clock(state["lending"])
    reason = capacity["reason"]
    if reason == "lending_disabled":
        yield "lending is off: online use is not measured, and reclaimed pods may use every CPU of pool share"
        return
    headroom, online = capacity["headroom_cpu_milli"], capacity["online_cpu_milli"]
    is_measured = reason not in _WITHOUT_FIGURES or bool(headroom or online)
    memory = "unknown" if reason in _WITHOUT_FIGURES else amount(capacity["headroom_memory_bytes"])
    if reason == "lending_paused":
        yield f"online pods use {cores(online)}; lending is paused: CPUs at the floor, no more memory is lent"
    elif is_measured:
        yield f"online pods use {cores(online)}; headroom (may be lent now): {cores(headroom)}, memory {memory}"
    else:
        yield "online use and headroom: unknown, nothing was measured yet"
    yield _lent(state, headroom if is_measured else None)
    if reason in _WITHOUT_FIGURES:
        yield "advertised capacity: nothing yet"
        return
    offer = f"{cores(capacity['cpu_milli'])}, {amount(capacity['memory_bytes'])}"
    why = _WORDS.get(reason, reason.replace("_", " "))
    yield f"advertised capacity: {offer} ({why}; measured {_age(capacity['at'], now)})"


def _by_the_clock(lending: Mapping[str, Any]) -> Iterator[str]:
    """Yield the state by schedule and switch, unless all is lent for good."""
    if lending["factor"] == 1 and lending["until"] is None:
        return
    until = f" until {lending['until']}" if lending["until"] else ""
    yield f"lending by the clock: {lending['factor']:.0%} of the headroom{until}: {lending['because']}"


def _lent(state: State, headroom: int | None) -> str:
    pool = state["pools"]["reclaim"]
    if not _has_reclaimed(state):
        return "lent: nothing, there is no reclaimed pod"
    cpus = cpuset.parse(pool["cpus"])
    groups = len(state.get("host_groups", ()))
    users = counted(pool["members"], "reclaimed container")
    users += f" and {counted(groups, 'cgroup')} outside Kubernetes" if groups else ""
    count = cpus.bit_count()
    said = "would be lent" if state["mode"] == "observe" else "lent"
    words = f"{said}: CPUs {pool['cpus'] or 'none'} ({counted(count, 'CPU')}) to {users}"
    overlaps = cpus & cpuset.parse(state["pools"]["share"]["cpus"])
    if headroom is not None and overlaps and count * 1000 > headroom + 999:
        words += "; beyond the headroom: one core always stays, and an extra core may, at minimum weight"
    return words


def _age(at: str, now: datetime) -> str:
    seconds = max(0.0, (now - datetime.fromisoformat(at)).total_seconds())
    return f"{seconds:.0f} s ago" if seconds < 120 else f"{seconds / 60:.0f} min ago"
