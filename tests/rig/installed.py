"""Packages of the distribution that tests need on this machine itself: installed if they are missing, as root."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.rig import RigError, packages

_TRIES: Final = 3
_SECONDS: Final = 600


def have(wanted: Mapping[str, str]) -> None:
    """Install the packages that are missing; RigError if one cannot be had.

    wanted: package by program, or by a file's whole path.
    """
    if not missing(wanted):
        return
    with packages.locked(packages.cache() / ".apt.lock"):  # another thread may install meanwhile
        for _ in range(_TRIES):
            if not (names := missing(wanted)):
                return
            said = _installed(names)
    if missing(wanted):
        raise RigError(f"{' '.join(missing(wanted))} could not be installed:\n{said}")


def missing(wanted: Mapping[str, str]) -> list[str]:
    """Return the packages whose program or file is not there."""
    found = (package for name, package in wanted.items() if not (shutil.which(name) or Path(name).is_file()))
    return list(dict.fromkeys(found))


def _installed(names: list[str]) -> str:
    said = ""
    for command in (["update", "-q"], ["install", "-yq", "--no-install-recommends", *names]):
        done = subprocess.run(
            ["apt-get", "-o", "Acquire::Retries=3", "-o", "DPkg::Lock::Timeout=300", *command],
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        said += done.stdout[-1000:] + done.stderr[-2000:]
    return said
