"""Sections of the configuration file: their common base, `pools` and `reclaim`."""

import re
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from nri_coloc.core import cpuset
from nri_coloc.core.settings import ReclaimTuning
from nri_coloc.core.state import DEDICATED, RECLAIM, RESERVED, SHARE, SYSTEM
from nri_coloc.core.workload import ISOLATED

_LIKE_OCTAL: Final = re.compile(r"0[0-9]+")


class MisplacedError(ValueError):
    """A problem at a path below the section that found it."""

    def __init__(self, at: tuple[str | int, ...], text: str) -> None:
        super().__init__(text)
        self.at = at


def section(value: Any) -> Any:
    """Return a section; null (all its lines are commented out) is an empty section."""
    return {} if value is None else value


def listed(value: Any) -> Any:
    """Return a list; null (all its lines are commented out) is an empty list."""
    return () if value is None else value


def written(value: Any) -> Any:
    """Return an integer as text, because bytes are often written as a bare number; a bool stays a bool."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def decimal(text: str) -> str:
    """Return the text; refuse a leading zero, which some YAML readers take for octal (010 is 10 or 8)."""
    if _LIKE_OCTAL.fullmatch(text):
        raise ValueError(f"{text[:80]!r} begins with a zero, which many readers of YAML take for octal")
    return text


class Section(BaseModel):
    """A mapping of known keys only; values are never converted silently."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


Pair = Annotated[str | None, Field(pattern=r"^[^=]+=", description='"key=value", which the pod must carry')]
Glob = Annotated[str, Field(min_length=1, max_length=253)]


class Selector(Section):
    """A selection of pods: every field that is set must match."""

    annotation: Pair = None
    label: Pair = None
    namespace: Annotated[Glob | None, Field(description="a namespace or a glob such as batch-*")] = None

    @model_validator(mode="after")
    def _selects(self) -> "Selector":
        if not (self.annotation or self.label or self.namespace):
            raise ValueError("selects nothing")
        return self


_DEFAULTS: Final = ReclaimTuning()

_NOT_YOURS: Final = ("kubepods", "system.slice", "user.slice", "init.scope")
"""Cgroups with other users: the kubelet's pods, the machine's own services."""


def _group(path: str) -> str:
    """Return a cgroup's path below the hierarchy's root."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if not parts or ".." in parts or "\0" in path:
        raise ValueError(f"{path[:80]!r} is not the path of a cgroup below the root")
    if any("kubepods" in part for part in parts) or "/".join(parts) in _NOT_YOURS:
        raise ValueError(f"{path[:80]!r} holds other pods, or processes of the system, too")
    return "/".join(parts)


def _apart(paths: tuple[str, ...]) -> tuple[str, ...]:
    """Return the groups; refuse a group inside another, because its use would be counted twice."""
    for path in paths:
        outer = next((one for one in paths if path.startswith(f"{one}/")), None)
        if outer is not None:
            raise ValueError(
                f"{path[:80]!r} lies in {outer[:80]!r}, which brings it in: name only one of them"
            )
    return paths


class Reclaim(Section):
    """Lending. Further constants, with their reasons, are in `core.settings`."""

    enabled: Annotated[
        bool, Field(description="true or false; false leaves reclaimed pods all CPUs of share")
    ] = _DEFAULTS.enabled
    sharing: Annotated[
        Literal["overlap", "partition"],
        Field(
            description="overlap (online pods see every CPU of their pool) or partition (pools sized by their load)"
        ),
    ] = "overlap"
    cpu_watermark: Annotated[
        int,
        Field(
            alias="cpuWatermark",
            ge=1,
            le=200,
            description="percent of the lendable CPUs, 1 to 200, for online use and lent CPUs together; above 100 "
            "the rest depends on the weights alone",
        ),
    ] = round(_DEFAULTS.watermark * 100)
    stall: Annotated[
        int,
        Field(
            ge=1,
            le=100,
            description="percent of the time, 1 to 100, that an online pod may stall before the lent CPUs are halved",
        ),
    ] = round(_DEFAULTS.stall * 100)
    memory_watermark: Annotated[
        int,
        Field(
            alias="memoryWatermark",
            ge=1,
            le=100,
            description="percent of the machine's memory, 1 to 100, that may be in use",
        ),
    ] = round(_DEFAULTS.memory_watermark * 100)
    members: Annotated[
        tuple[Annotated[str, Field(max_length=1024), AfterValidator(_group)], ...],
        BeforeValidator(listed),
        AfterValidator(_apart),
        Field(
            max_length=16,
            description="a list of at most 16 cgroups outside Kubernetes, as paths below the hierarchy's root such as "
            "[hadoop-yarn, batch.slice/jobs.slice]; not kubepods, nor what the machine's own services live in",
        ),
    ] = _DEFAULTS.host_groups
    features: Annotated[
        tuple[Literal["scheduler-hints", "scheduler-idle", "quota-burst", "restore-on-exit"], ...],
        BeforeValidator(listed),
        Field(
            max_length=4,
            description="a list of scheduler-hints (a short slice for online tasks, SCHED_BATCH for reclaimed ones), "
            "scheduler-idle (with the former, SCHED_IDLE in its place), "
            "quota-burst (throttled online containers get more while the node is idle) and restore-on-exit",
        ),
    ] = ("scheduler-hints", "scheduler-idle")


MOST_POOLS: Final = 32

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_TAKEN: Final = (RESERVED, DEDICATED, SYSTEM, ISOLATED)
_OF_BUILT_IN: Final = {
    SHARE: {"min_cpus": "minCPUs", "priority": "priority", "band": "band"},
    RECLAIM: {"min_cpus": "minCPUs", "max_cpus": "maxCPUs"},
}
"""The keys of the built-in pools, by field and as written in the file."""

_GROUPS: Final = r"^(namespace|pod|(label|annotation):[^\s/][^\s]*)$"

Count = Annotated[int, Field(ge=0, le=cpuset.MAX_CPU_ID)]
Percent = Annotated[int, Field(ge=1, le=100)]


class Pool(Section):
    """One pool. Without CPUs of its own it is a name for pool `share`, or for pool `system`."""

    members: Annotated[
        tuple[Selector, ...],
        BeforeValidator(listed),
        Field(
            max_length=100,
            description='a list such as [{namespace: "etl-*"}, {label: "tier=etl"}]; each needs at least one of '
            "annotation, label, namespace",
        ),
    ] = ()
    kind: Annotated[Literal["online", "system"], Field(description="online or system")] = "online"
    min_cpus: Annotated[
        Count, Field(alias="minCPUs", description="CPUs that it keeps at least; 0 for none of its own")
    ] = 0
    max_cpus: Annotated[
        Count,
        Field(
            alias="maxCPUs", description="CPUs that it has at most, not less than minCPUs; 0 for any number"
        ),
    ] = 0
    group_by: Annotated[
        str,
        Field(
            alias="groupBy",
            pattern=_GROUPS,
            description="namespace, pod, label:KEY or annotation:KEY: a pool of these bounds for each",
        ),
    ] = ""
    priority: Annotated[
        int, Field(ge=-1000, le=1000, description="an integer from -1000 to 1000; higher has CPUs first")
    ] = 0
    band: Annotated[
        tuple[Percent, Percent] | None,
        Field(
            description="two percentages such as [30, 50], low and high: the utilisation to keep to (partition)"
        ),
    ] = None

    @model_validator(mode="after")
    def _in_order(self) -> "Pool":
        if self.max_cpus and self.min_cpus > self.max_cpus:
            raise MisplacedError(("minCPUs",), f"{self.min_cpus} is more than maxCPUs, {self.max_cpus}")
        if self.band is not None and self.band[0] >= self.band[1]:
            raise MisplacedError(("band",), f"{self.band[0]} is not below {self.band[1]}")
        return self


def _named(pools: dict[str, Pool]) -> dict[str, Pool]:
    for name, pool in pools.items():
        if name in _TAKEN or not _NAME.fullmatch(name):
            raise MisplacedError((name,), f"{name[:80]!r} cannot be the name of a pool of yours")
        allowed = _OF_BUILT_IN.get(name)
        more = pool.model_fields_set - allowed.keys() if allowed is not None else set[str]()
        if more and allowed is not None:
            words = ", ".join(allowed.values())
            raise MisplacedError((name,), f"{name} is always there, and of it can be said only: {words}")
    return pools


Pools = Annotated[
    dict[str, Pool],
    BeforeValidator(section),
    AfterValidator(_named),
    Field(
        max_length=MOST_POOLS,
        description=f"at most {MOST_POOLS} names, of 1 to 63 letters, digits, '.', '_' and '-', none of "
        f"{', '.join(_TAKEN)}; of each: members, kind, minCPUs, maxCPUs, groupBy, priority, band",
    ),
]
