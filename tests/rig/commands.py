"""A command of the rig to its end; an error shows everything that it printed, for a program may explain on either."""

import shlex
import subprocess
from collections.abc import Sequence
from typing import Final

from tests.rig import RigError

MOST: Final = 8000
"""Characters of each stream in an error: its end."""


def output(command: Sequence[str], *, stdin: str = "", seconds: float, title: str = "") -> str:
    """Return the output of a command; RigError if it fails or takes longer than `seconds`.

    title: how an error names the command; the command itself by default.
    """
    title = title or shlex.join(map(str, command))
    try:
        done = subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired as late:
        raise RigError(f"{title} took more than {seconds:g} s{_printed(late.stdout, late.stderr)}") from None
    if done.returncode:
        raise RigError(f"{title} failed ({done.returncode}){_printed(done.stdout, done.stderr)}")
    return done.stdout


def _printed(stdout: str | bytes | None, stderr: str | bytes | None) -> str:
    """Return both streams with their names, without an empty one; after a timeout they are bytes."""
    found = {"stderr": _text(stderr), "stdout": _text(stdout)}
    parts = [f"\n{name}: {text[-MOST:]}" for name, text in found.items() if text]
    return "".join(parts) or ", and printed nothing"


def _text(stream: str | bytes | None) -> str:
    text = stream.decode(errors="replace") if isinstance(stream, bytes) else stream or ""
    return text.strip()
