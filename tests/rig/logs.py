"""The logs of programs that a rig starts."""

from pathlib import Path
from typing import Final

LONGEST_LINE: Final = 300
"""Characters: containerd prints its whole configuration on one line."""


def tail(path: Path, lines: int) -> str:
    """Return the last lines of a log, long ones cut off; "" if there is none."""
    text = path.read_text(errors="replace") if path.exists() else ""
    return "\n".join(line[:LONGEST_LINE] for line in text.splitlines()[-lines:])
