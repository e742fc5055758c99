"""Read amounts of memory or CPU: Kubernetes quantities, and percentages of a base.

The grammar is apimachinery's resource.Quantity (decimal and binary suffixes, exponents). All values are integers:
a float loses bytes above 2^53, and importing `fractions` slows the start. Like Kubernetes' `Value()`, a fraction of
a byte is rounded up.
"""

import re
from dataclasses import dataclass
from typing import Final

from nri_coloc.core.knobs import LEAST_MEMORY

QUANTITY_ALLOWED: Final = (
    "a Kubernetes quantity such as 512Mi, 1.5Gi or 2e9 (suffixes n u m k M G T P E, Ki Mi Gi Ti Pi Ei)"
)
AMOUNT_ALLOWED: Final = f"{QUANTITY_ALLOWED}, or a percentage from 0% to 100%"

LARGEST: Final = 2**63 - 1
"""A quantity is an int64 in Kubernetes, and so is every memory value of the kernel."""


class TooLargeError(ValueError):
    """A quantity is above `LARGEST`."""


_LONGEST: Final = 40
"""Characters: 19 digits before the point, 9 after it, sign and suffix, and some zeros."""

_QUANTITY: Final = re.compile(
    r"(?P<sign>[-+]?)(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?"
    r"(?:(?P<suffix>[KMGTPE]i|[numkMGTPE])|[eE](?P<exponent>[-+]?[0-9]{1,2}))?"
)
_PERCENT: Final = re.compile(r"(?P<number>[0-9]{1,3})%")

_TENS: Final = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_TWOS: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


@dataclass(frozen=True, slots=True)
class Amount:
    """Bytes, or a percentage of a base that is not known when the text is read.

    bytes: 0 if `percent` is set.
    percent: 0 to 100; None for an amount in bytes.
    """

    bytes: int = 0
    percent: int | None = None

    def of(self, base: int) -> int | None:
        """Return bytes; None for a percentage of an unknown base (0)."""
        if self.percent is None:
            return self.bytes
        return base * self.percent // 100 if base > 0 else None


def limit(text: str) -> Amount:
    """Return the amount of a memory limit; raise ValueError if it is unreadable or below `LEAST_MEMORY`.

    No container starts with less than `LEAST_MEMORY`. A percentage is checked when its base is known.
    """
    found = amount(text)
    if found.bytes < LEAST_MEMORY and not found.percent:
        raise ValueError(f"{text!r} lets no container start")
    return found


def whole_bytes(text: str) -> int:
    """Return a quantity in bytes; raise ValueError if it is unreadable, negative or too large."""
    return _rounded_up(text, 0)


def thousandths(text: str) -> int:
    """Return a quantity in thousandths, such as milli-CPUs; raise ValueError as `whole_bytes` does."""
    return _rounded_up(text, 3)


def _rounded_up(text: str, tens: int) -> int:
    """Return a quantity times 10^tens, rounded up."""
    found = _QUANTITY.fullmatch(text) if len(text) <= _LONGEST else None
    if found is None or not (found["whole"] or found["part"]):
        raise ValueError(f"{text[:_LONGEST]!r} is not a quantity")
    if found["sign"] == "-":
        raise ValueError(f"{text} is negative")
    part = found["part"] or ""
    number = int(found["whole"] + part) << _TWOS.get(found["suffix"] or "", 0)
    tens += int(found["exponent"] or 0) + _TENS.get(found["suffix"] or "", 0) - len(part)
    value: int = number * 10**tens if tens >= 0 else -(-number // 10**-tens)
    if value > LARGEST:
        raise TooLargeError(f"{text} is more than {LARGEST}")
    return value


def amount(text: str) -> Amount:
    """Return the amount of a quantity or a percentage; raise ValueError if it is neither."""
    if not text.endswith("%"):
        return Amount(bytes=whole_bytes(text))
    found = _PERCENT.fullmatch(text)
    if found is None or int(found["number"]) > 100:
        raise ValueError(f"{text[:_LONGEST]!r} is not a percentage from 0% to 100%, without a fraction")
    return Amount(percent=int(found["number"]))
