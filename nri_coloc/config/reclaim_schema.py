"""Section `reclaim` of the configuration file: what is lent to reclaimed pods, and how boldly."""

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from nri_coloc.config.section import Section, listed
from nri_coloc.model.tuning import ReclaimTuning

_DEFAULTS: Final = ReclaimTuning()

_NOT_YOURS: Final = ("kubepods", "system.slice", "user.slice", "init.scope")
"""What others live in as well: the kubelet's pods, the machine's own services."""


def _group(path: str) -> str:
    """Return a cgroup's path below the hierarchy's root."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if not parts or ".." in parts or "\0" in path:
        raise ValueError(f"{path[:80]!r} is not the path of a cgroup below the root")
    if any("kubepods" in part for part in parts) or "/".join(parts) in _NOT_YOURS:
        raise ValueError(f"{path[:80]!r} holds others too")
    return "/".join(parts)


def _apart(paths: tuple[str, ...]) -> tuple[str, ...]:
    """Refuse a group that lies in another: its use would be counted twice, and the outer one brings it in anyway."""
    for path in paths:
        outer = next((one for one in paths if path.startswith(f"{one}/")), None)
        if outer is not None:
            raise ValueError(
                f"{path[:80]!r} lies in {outer[:80]!r}, which brings it in: name only one of them"
            )
    return paths


class Reclaim(Section):
    """Lending; the many figures behind these keys are in `model.tuning` with their reasons."""

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
            description="percent of the lendable CPUs, 1 to 200, that online use and what is lent may come to; over "
            "100 trusts the weight alone with the rest",
        ),
    ] = round(_DEFAULTS.watermark * 100)
    stall: Annotated[
        int,
        Field(
            ge=1,
            le=100,
            description="percent of the time, 1 to 100, that an online pod may wait for a CPU before the box is cut",
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
