"""What the host needs to emulate a machine: installed from the distribution where it is missing, as root."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from tests.rig import RigError

SYSTEMD: Final = Path("/lib/systemd/systemd")
PACKAGES: Final = {
    "qemu-system-x86_64": "qemu-system-x86",
    "depmod": "kmod",
    str(SYSTEMD): "systemd",  # the guest has the host's files; here it is only a file, and not started
}
_TRIES: Final = 3
_SECONDS: Final = 600


def install_missing() -> None:
    """Install what is not there; raises RigError with apt's words, or with the packages to ask for."""
    if not (packages := _missing()):
        return
    if os.geteuid() != 0:
        raise RigError(f"an emulated machine needs the packages {' '.join(packages)}")
    for attempt in range(1, _TRIES + 1):
        said = _installed(packages)
        if not _missing():
            return
        if attempt == _TRIES:
            raise RigError(f"{' '.join(packages)} could not be installed:\n{said}")


def _missing() -> list[str]:
    return [package for program, package in PACKAGES.items() if not shutil.which(program)]


def _installed(packages: list[str]) -> str:
    said = ""
    for command in (["update", "-q"], ["install", "-yq", "--no-install-recommends", *packages]):
        done = subprocess.run(
            ["apt-get", "-o", "Acquire::Retries=3", *command],
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        said += done.stdout[-1000:] + done.stderr[-2000:]
    return said
