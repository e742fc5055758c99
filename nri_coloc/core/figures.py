"""Write the figures of a decision for people: `request_milli: 1500` becomes `request=1.5 cores`.

The end of a figure's name is its unit. An audit sentence ends with the figures that an operator asks for first; the
record has all of them in `inputs`.
"""

from collections.abc import Iterable, Mapping
from typing import Final

LONGEST: Final = 160
"""Characters of an audit sentence: readable in a terminal."""

_BYTES: Final = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def sentence(text: str, inputs: Mapping[str, object], names: Iterable[str]) -> str:
    """Return `<text> (name=value unit, …)` with the named figures, as many as fit into `LONGEST` characters.

    Figures that are missing or None (unknown, unlimited) are left out.
    """
    found: list[str] = []
    room = LONGEST - len(text) - len(" ()")
    for name in names:
        value = inputs.get(name)
        if value is None:
            continue
        words = shown(name, value)
        if len(words) <= room:
            found.append(words)
            room -= len(words) + len(", ")
    return f"{text} ({', '.join(found)})" if found else text


def shown(name: str, value: object) -> str:
    """Return one figure with its unit, such as `dwell=30 s`."""
    label, _, unit = name.rpartition("_")
    if isinstance(value, int | float) and not isinstance(value, bool):
        if unit == "milli":
            return f"{label}={_number(value / 1000)} {'core' if value == 1000 else 'cores'}"
        if unit == "bytes":
            return f"{label}={size(int(value))}"
        if unit == "s":
            return f"{label}={_number(value)} s" if value >= 1 else f"{label}={value * 1000:.0f} ms"
        return f"{label if label and unit == 'cpus' else name}={_number(value)}"
    return f"{name}={value if value != '' else 'none'}"


def size(amount: int) -> str:
    """Return an amount of bytes with the unit that people read."""
    for scale, unit in _BYTES:
        if amount >= scale:
            return f"{_number(amount / scale)} {unit}"
    return f"{amount} bytes"


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{round(value, 2):g}"
