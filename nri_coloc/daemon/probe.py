"""What this machine and this runtime can take, looked at instead of assumed.

A control file counts as there if some pod's or slice's cgroup has it: roots lack most files. Looked at when the
runtime connects and again whenever a pod starts while nothing was found yet.
"""

import re
from pathlib import Path
from typing import Final

from nri_coloc.errors import ColocError
from nri_coloc.knobs.capability import Capability
from nri_coloc.nri import version as nri_version
from nri_coloc.nri.version import NriVersion
from nri_coloc.sampling import cgroup_layout
from nri_coloc.sampling.cgroup_layout import CgroupLayout

PLACES = ("kubepods", "kubepods.slice", "system.slice", "init.scope", "")
"""Where to look, the most telling first; the root itself only for what even it has."""


CAP_SYS_RESOURCE: Final = 24


def capability(layout: CgroupLayout, version: NriVersion, host_root: str, runtime_pid: int = 0) -> Capability:
    """Return what may be used; a place that cannot be read tells nothing."""
    return Capability(
        cgroup=layout.version,
        files=_files(layout),
        oom_at_create=nri_version.takes_oom_score_adj(version),
        oom_may_fall=_has_capability(host_root, runtime_pid, CAP_SYS_RESOURCE),
        resctrl=Path(f"{host_root.rstrip('/')}/sys/fs/resctrl/schemata").exists(),
    )


def _has_capability(host_root: str, pid: int, number: int) -> bool:
    """Whether a process has a capability; one that we cannot see is taken not to (a foreign PID namespace)."""
    try:
        status = Path(f"{host_root.rstrip('/')}/proc/{pid}/status").read_text() if pid > 0 else ""
    except OSError:
        return False
    effective = re.search(r"^CapEff:\s*([0-9a-f]{1,16})$", status, re.ASCII | re.MULTILINE)
    return bool(effective and int(effective[1], 16) >> number & 1)


def _files(layout: CgroupLayout) -> frozenset[str]:
    for place in PLACES:
        try:
            found = cgroup_layout.capabilities(layout, place)
        except ColocError:
            continue
        if found:
            return found
    return frozenset()
