"""Read durations such as "10m" or "1h30m"."""

import re
from typing import Final

LONGEST_S: Final = 86400

_DURATION: Final = re.compile(r"(?:([0-9]{1,5})h)?(?:([0-9]{1,5})m)?(?:([0-9]{1,5})s)?")


def seconds(text: str) -> int:
    """Return the seconds of a duration; raise ValueError for a text without units and for more than 24h."""
    match = _DURATION.fullmatch(text)
    if text != "0" and (match is None or not any(match.groups())):
        raise ValueError(f"{text[:40]!r} is no duration with units")
    hours, minutes, rest = (int(part or 0) for part in match.groups()) if match else (0, 0, 0)
    found = 3600 * hours + 60 * minutes + rest
    if found > LONGEST_S:
        raise ValueError(f"{text!r} is longer than 24h")
    return found
