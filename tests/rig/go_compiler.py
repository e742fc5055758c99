"""Where a Go compiler comes from: the machine's own if it is new enough, else Debian 13's, unpacked in the cache.

Debian 12's own and its backports' are too old for NRI 0.10 and later. The packages are fetched as the rig's
containerd is (see packages.py); nothing is installed. If a module asks for a compiler that is newer still,
the `go` command fetches it as it fetches modules. Everything it keeps lies in the project's cache.
"""

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.rig import packages
from tests.rig.packages import Wanted

AT_LEAST: Final = (1, 24)
DEBIAN: Final = "go-1.24"
PARTS: Final = ("golang-1.24-go", "golang-1.24-src")
USUAL_PLACE: Final = "/usr/local/go/bin"


@dataclass(frozen=True, slots=True)
class Compiler:
    """A `go` command and the environment that it runs in."""

    command: str
    environment: Mapping[str, str]

    @property
    def gofmt(self) -> str:
        """Return the formatter of this compiler."""
        root = self.run("env", "GOROOT")
        return str(Path(root, "bin", "gofmt"))

    def run(self, *arguments: str) -> str:
        """Run a `go` command that needs no network, and return what it prints."""
        command = [self.command, *arguments]
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, check=True, timeout=60
        )
        return done.stdout.strip()


@functools.cache
def found() -> Compiler:
    """Return the compiler to use; RigError if none can be had."""
    for place in (None, USUAL_PLACE):
        path = shutil.which("go", path=place)
        if path is not None and _version(path) >= AT_LEAST:
            return Compiler(path, _environment())
    root = _debians()
    return Compiler(f"{root}/bin/go", _environment())


def _environment() -> dict[str, str]:
    kept = packages.cache().parent / "go"
    return {
        **os.environ,
        "GOCACHE": f"{kept}/build",
        "GOMODCACHE": f"{kept}/modules",
        "GOTOOLCHAIN": "auto",
        "GOTELEMETRY": "off",
        "GOWORK": "off",
    }


def _version(path: str) -> tuple[int, ...]:
    """Return a compiler's own version, read before a module makes it fetch another one."""
    local = {**os.environ, "GOTOOLCHAIN": "local"}
    said = subprocess.run(
        [path, "version"], capture_output=True, text=True, check=False, env=local, timeout=60
    )
    numbers = re.search(r"\bgo(\d+)\.(\d+)", said.stdout)
    return (int(numbers[1]), int(numbers[2])) if numbers else ()


def _debians() -> Path:
    """Return one tree of both packages: the compiler finds its library by links from one part into the other."""
    tree = packages.cache() / DEBIAN
    with packages.locked(packages.cache() / f".{DEBIAN}.lock"):
        if not tree.is_dir():
            scratch = tree.with_suffix(".scratch")
            shutil.rmtree(scratch, ignore_errors=True)
            for name in PARTS:
                part = packages.unpacked_as(name, Wanted(name, ("trixie",), known="1.24.4")).folder
                # names of the same files: no second copy of 280 MB
                shutil.copytree(
                    part / "usr", scratch, symlinks=True, copy_function=os.link, dirs_exist_ok=True
                )
            scratch.rename(tree)
    return tree / "lib" / DEBIAN
