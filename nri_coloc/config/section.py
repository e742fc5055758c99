"""What every section of the configuration file has in common, and the selectors that several of them use."""

import re
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, model_validator

_LIKE_OCTAL: Final = re.compile(r"0[0-9]+")


class MisplacedError(ValueError):
    """Something is wrong at a place below the section that noticed it."""

    def __init__(self, at: tuple[str | int, ...], text: str) -> None:
        super().__init__(text)
        self.at = at


def section(value: Any) -> Any:
    """Read a section; one whose every line is commented out is null."""
    return {} if value is None else value


def listed(value: Any) -> Any:
    """Read a list; one whose every line is commented out is null."""
    return () if value is None else value


def written(value: Any) -> Any:
    """Read a text; a bare number is how people write bytes. A bool is an int to Python, but to nobody else."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def decimal(text: str) -> str:
    """Refuse a number that is 10 to one reader of YAML and 8 to another."""
    if _LIKE_OCTAL.fullmatch(text):
        raise ValueError(f"{text[:80]!r} begins with a zero, which many readers of YAML take for octal")
    return text


class Section(BaseModel):
    """A mapping of known keys only; nothing is converted behind the operator's back."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


Pair = Annotated[str | None, Field(pattern=r"^[^=]+=", description='"key=value", which the pod must carry')]
Glob = Annotated[str, Field(min_length=1, max_length=253)]


class Selector(Section):
    """Some pods; all that it names must hold."""

    annotation: Pair = None
    label: Pair = None
    namespace: Annotated[Glob | None, Field(description="a namespace or a glob such as batch-*")] = None

    @model_validator(mode="after")
    def _selects(self) -> "Selector":
        if not (self.annotation or self.label or self.namespace):
            raise ValueError("selects nothing")
        return self
