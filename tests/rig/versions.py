"""Versions that tests run against: a mark for tests of one version, and the record of a run, `build/versions.json`."""

import json
import platform
from pathlib import Path
from typing import Final

import pytest

from tests.rig import cgroups, packages
from tests.rig.configuration import NEWEST
from tests.rig.containerd import Containerd

RECORD: Final = Path("build/versions.json")

ON_THE_NEWEST: Final = pytest.mark.parametrize(
    "version", [NEWEST], indirect=True, ids=[f"containerd-{NEWEST}"]
)
"""For a test whose outcome does not depend on containerd's version: the daemon alone, or the kernel, decides it."""


def record(containerd: Containerd) -> dict[str, str]:
    """Return the version of this containerd and of its surroundings, and add them to the record."""
    with containerd.cri() as cri:
        reported = cri.version()
    versions = {
        f"containerd-{containerd.version}": containerd.package.version,
        f"containerd-{containerd.version} says": reported,
        "runc": packages.unpacked("runc").version,
        "busybox": packages.unpacked("busybox").version,
        "kernel": platform.release(),
        "cgroup": "v2" if cgroups.is_v2() else "v1",
        "python": platform.python_version(),
    }
    newer = {
        f"warning: {name}": text for name in packages.WANTED if (text := packages.newer_than_known(name))
    }
    earlier = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    RECORD.parent.mkdir(parents=True, exist_ok=True)
    RECORD.write_text(json.dumps({**earlier, **versions, **newer}, indent=2, sort_keys=True) + "\n")
    return {**versions, **newer}
