"""Where a Go compiler comes from: the machine's own."""

import functools
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass

from tests.rig import RigError


@dataclass(frozen=True, slots=True)
class Compiler:
    """A `go` command and the environment that it runs in."""

    command: tuple[str, ...]
    environment: Mapping[str, str]


@functools.cache
def found() -> Compiler:
    """Return the compiler to use."""
    path = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if path is None:
        raise RigError("there is no Go compiler")
    return Compiler((path,), dict(os.environ))
