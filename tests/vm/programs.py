"""The host's programs for emulating a machine: installed from the distribution if they are missing, as root."""

import os
from pathlib import Path
from typing import Final

from tests.rig import RigError, installed

SYSTEMD: Final = Path("/lib/systemd/systemd")
PACKAGES: Final = {
    "qemu-system-x86_64": "qemu-system-x86",
    "depmod": "kmod",
    str(SYSTEMD): "systemd",  # the guest has the host's files; here it is only a file, and not started
}


def install_missing() -> None:
    """Install the missing programs; RigError carries apt's words, or the packages to install."""
    names = installed.missing(PACKAGES)
    if names and os.geteuid() != 0:
        raise RigError(f"an emulated machine needs the packages {' '.join(names)}")
    installed.have(PACKAGES)
