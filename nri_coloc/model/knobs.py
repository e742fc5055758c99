"""The values that we set, by the names that the audit uses for them (DESIGN 4.6).

`Knobs` is a record of wishes or of facts: `None` means "not ours" or "not known", never "zero". Translating
to NRI messages and to kernel files is the business of the `knobs` package one floor up.
"""

from dataclasses import dataclass, fields
from typing import Final

KnobValue = int | str


@dataclass(frozen=True, slots=True)
class Knobs:
    """Units: shares as cgroup v1 counts them (1024 = one CPU), quota/period/burst in µs, memory in bytes,
    cpus and mems as cpulists, io_weight 1–10000 (100 is the kernel's default)."""

    cpus: str | None = None
    mems: str | None = None
    shares: int | None = None
    quota: int | None = None
    period: int | None = None
    burst: int | None = None
    memory_limit: int | None = None
    memory_high: int | None = None
    memory_low: int | None = None
    memory_min: int | None = None
    oom_score_adj: int | None = None
    io_weight: int | None = None
    blockio_class: str | None = None
    rdt_class: str | None = None

    def named(self) -> dict[str, KnobValue]:
        """Return the set knobs by their audit names, in the order of the contract."""
        return {
            name: value for attribute, name in AUDIT_NAMES if (value := getattr(self, attribute)) is not None
        }

    def differing(self, other: "Knobs") -> "Knobs":
        """Keep the set knobs whose value the other does not have already."""
        return Knobs(
            **{
                name: value
                for name in ATTRIBUTES
                if (value := getattr(self, name)) is not None and value != getattr(other, name)
            }
        )

    def where_set(self, other: "Knobs") -> "Knobs":
        """Keep the knobs that are set in the other too."""
        return Knobs(**{name: getattr(self, name) for name in ATTRIBUTES if getattr(other, name) is not None})

    def overlaid(self, other: "Knobs") -> "Knobs":
        """Return this record with the other's set knobs on top."""
        return Knobs(
            **{
                name: getattr(self, name) if (value := getattr(other, name)) is None else value
                for name in ATTRIBUTES
            }
        )


def _audit_name(attribute: str) -> str:
    for prefix in ("memory_", "io_"):
        if attribute.startswith(prefix):
            return attribute.replace("_", ".", 1)
    return attribute


ATTRIBUTES: Final = tuple(f.name for f in fields(Knobs))
AUDIT_NAMES: Final = tuple((name, _audit_name(name)) for name in ATTRIBUTES)
"""(attribute, name in the audit) of every knob: `memory_limit` is called `memory.limit`, and so on."""

NO_KNOBS: Final = Knobs()
