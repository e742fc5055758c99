"""Section `pools` of the configuration file: the operator's own pools, and bounds for two that are always there."""

import re
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from nri_coloc.config.section import MisplacedError, Section, Selector, listed, section
from nri_coloc.model import cpuset
from nri_coloc.model.state import DEDICATED, RECLAIM, RESERVED, SHARE, SYSTEM
from nri_coloc.model.workload import ISOLATED

MOST_POOLS: Final = 32

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_TAKEN: Final = (RESERVED, DEDICATED, SYSTEM, ISOLATED)
_OF_BUILT_IN: Final = {
    SHARE: {"min_cpus": "minCPUs", "priority": "priority", "band": "band"},
    RECLAIM: {"min_cpus": "minCPUs", "max_cpus": "maxCPUs"},
}
"""What may be said of the pools that are always there, by field and as it is written."""

_GROUPS: Final = r"^(namespace|pod|(label|annotation):[^\s/][^\s]*)$"

Count = Annotated[int, Field(ge=0, le=cpuset.MAX_CPU_ID)]
Percent = Annotated[int, Field(ge=1, le=100)]


class Pool(Section):
    """One pool. Without CPUs of its own it is a name over `share`, or over all that the system has."""

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
