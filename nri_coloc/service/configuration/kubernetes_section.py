"""The section `kubernetes` of the configuration file: the companion, and the resources that it reports."""

from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, model_validator

from nri_coloc.core.settings import KubernetesSettings
from nri_coloc.kubernetes import presets
from nri_coloc.service.configuration.sections import Section

_DEFAULTS: Final = KubernetesSettings()
_LARGEST_ID: Final = 2**31 - 1

_RESOURCES: Final = (
    f"{', '.join(presets.PRESETS)}, or a section {{cpu, memory}} with two resource names of your own domain "
    "such as example.com/lent-cpu"
)


class Names(Section):
    """Two resource names of the operator."""

    cpu: Annotated[str, Field(max_length=317, description="a name such as example.com/lent-cpu")] = (
        _DEFAULTS.cpu_resource
    )
    memory: Annotated[str, Field(max_length=317, description="a name such as example.com/lent-memory")] = (
        _DEFAULTS.memory_resource
    )

    @model_validator(mode="after")
    def _can_be_reported(self) -> "Names":
        if (self.cpu, self.memory) not in presets.PRESETS.values():  # check-config prints a preset's names
            presets.custom(self.cpu, self.memory)
        return self


def _named(value: Any) -> Any:
    """Return the names of a preset, or a section to be checked."""
    if not isinstance(value, str):
        return value
    if value not in presets.PRESETS:
        raise ValueError(f"{value[:80]!r} is no preset")
    preset = presets.PRESETS[value]
    return Names.model_construct(cpu=preset.cpu, memory=preset.memory)


Id = Annotated[int, Field(ge=0, le=_LARGEST_ID, description=f"an integer from 0 to {_LARGEST_ID}")]


class Kubernetes(Section):
    """The companion's socket, and the controller."""

    report: Annotated[
        Literal["off", "status"],
        Field(
            description="off, or status (the companion reports lent CPU and memory in the status of the node)"
        ),
    ] = "off"
    resources: Annotated[Names, BeforeValidator(_named), Field(description=_RESOURCES)] = (
        Names.model_construct(cpu=_DEFAULTS.cpu_resource, memory=_DEFAULTS.memory_resource)
    )
    companion_uid: Annotated[Id, Field(alias="companionUid")] = _DEFAULTS.companion_uid
    companion_gid: Annotated[Id, Field(alias="companionGid")] = _DEFAULTS.companion_gid

    evict: Annotated[
        bool, Field(description="true or false (the controller refuses evictions that no operator ordered)")
    ] = _DEFAULTS.evict

    events: Annotated[
        bool, Field(description="true or false (the companion writes no Events on pods and the node)")
    ] = _DEFAULTS.events

    def settings(self) -> KubernetesSettings:
        return KubernetesSettings(
            report=self.report == "status",
            cpu_resource=self.resources.cpu,
            memory_resource=self.resources.memory,
            companion_uid=self.companion_uid,
            companion_gid=self.companion_gid,
            evict=self.evict,
            events=self.events,
        )
