"""The section `pressure` of the configuration file: one rung for each resource."""

from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field, PlainValidator

from nri_coloc.core.settings import DiskTuning, PressureTuning, RungTuning
from nri_coloc.service.configuration.sections import Section, section

_DEFAULTS: Final = PressureTuning()


class Rung(Section):
    """Verdicts on stalls for one resource."""

    up: Annotated[
        int,
        Field(
            ge=1,
            le=60,
            description="hurt readings in a row before a verdict, 1 to 60; the second after 0.25 s, then one a second",
        ),
    ] = _DEFAULTS.io.up


class Reporting(Rung):
    """A resource for which verdicts are recorded."""

    action: Annotated[
        Literal["report", "off"], Field(description="report (verdicts are recorded) or off")
    ] = "report"


class Throttling(Rung):
    """A resource for which culprits are throttled."""

    action: Annotated[
        Literal["throttle", "report", "off"],
        Field(description="throttle (reclaimed pods are limited), report (verdicts are recorded) or off"),
    ] = "report"
    down: Annotated[
        int, Field(ge=1, le=600, description="calm readings before a limit is doubled, 1 to 600")
    ] = _DEFAULTS.io.down
    hold: Annotated[
        int,
        Field(ge=30, le=3600, description="seconds before a limit is first raised, 30 to 3600"),
    ] = int(_DEFAULTS.io.hold_s)


def _distance(found: object) -> Literal["off"] | int:
    """Return `off`, or a whole number of percent in its bounds."""
    if found == "off":
        return "off"
    if isinstance(found, int) and not isinstance(found, bool) and -4 <= found <= 50:
        return found
    raise ValueError("neither off nor such a number")


class Pressure(Section):
    """Verdicts on online pods that other pods hurt, and actions that follow."""

    cpu: Annotated[Reporting, BeforeValidator(section)] = Reporting()
    memory: Annotated[Reporting, BeforeValidator(section)] = Reporting()
    io: Annotated[Throttling, BeforeValidator(section)] = Throttling()
    disk: Annotated[
        Literal["off"] | int,
        PlainValidator(_distance),
        Field(
            description="off, or percent above the kubelet's eviction thresholds, -4 to 50: below, a disk is short",
        ),
    ] = "off"
    degrade: Annotated[
        bool,
        Field(
            description="true or false (online containers above their request get less while a pool is short)"
        ),
    ] = _DEFAULTS.degrade
    evict: Annotated[
        bool,
        Field(description="true or false (reclaimed pods are evicted if nothing milder helps)"),
    ] = _DEFAULTS.evict


def tuning(found: Pressure) -> PressureTuning:
    """Return the section as the daemon's settings."""
    return PressureTuning(
        cpu=_rung(found.cpu),
        memory=_rung(found.memory),
        io=RungTuning(
            judges=found.io.action != "off",
            throttles=found.io.action == "throttle",
            up=found.io.up,
            down=found.io.down,
            hold_s=float(found.io.hold),
        ),
        disk=DiskTuning(closes=False)
        if found.disk == "off"
        else DiskTuning(closes=True, above=found.disk / 100),
        degrade=found.degrade,
        evict=found.evict,
    )


def _rung(found: Reporting) -> RungTuning:
    return RungTuning(judges=found.action != "off", up=found.up)
