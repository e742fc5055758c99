"""`nri-coloc restore`: what it did, in lines; refuses while a daemon holds the state folder."""

import sys
from pathlib import Path

from nri_coloc.actuation import restoration
from nri_coloc.daemon.instance_lock import InstanceLock
from nri_coloc.daemon.runner import JOURNAL
from nri_coloc.errors import SettingsError
from nri_coloc.sampling import cgroup_layout


def run(state_dir: str, host_root: str) -> int:
    """Restore everything; 1 if the kernel refused something."""
    if not Path(state_dir).is_dir():
        raise SettingsError(f"there is no state folder {state_dir}; name the daemon's with --state-dir")
    lock = InstanceLock(state_dir)
    try:
        if not lock.take():
            raise SettingsError(
                f"a daemon is using {state_dir}; stop it first, or it would undo the restoration"
            )
        return _restore(state_dir, host_root)
    finally:
        lock.release()


def _restore(state_dir: str, host_root: str) -> int:
    version = cgroup_layout.detect(host_root).version
    result = restoration.restore(str(Path(state_dir) / JOURNAL), host_root, version)
    for file in result.done:
        print(f"restored {file}")
    for error in result.refused:
        print(f"nri-coloc: {error}", file=sys.stderr)
    print(f"{len(result.done)} restored, {len(result.gone)} gone, {len(result.refused)} refused")
    return 1 if result.refused else 0
