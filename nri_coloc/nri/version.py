"""Find the NRI version of a runtime, and the defects of each version.

The wire carries the version only from NRI 0.12 on. Before that it follows from the runtime's own version, whose text
carries any suffix that a distribution added ("1.7.24~ds1-6+b4"). Versions are plain tuples, so that they compare. If
the version is unknown, the oldest supported version is assumed, since it promises least.
"""

import re

NriVersion = tuple[int, int, int]

# The version that the plugin reports to the runtime: the messages of api/nri belong to it.
OURS = "v0.12.2"

OLDEST: NriVersion = (0, 6, 1)

# First containerd release that vendors each NRI; between two lines the lower one holds. 2.0 and 2.1
# have what 1.7.26 has.
_CONTAINERD: tuple[tuple[tuple[int, int, int], NriVersion], ...] = (
    ((1, 7, 16), (0, 6, 1)),
    ((1, 7, 26), (0, 8, 0)),
    ((2, 2, 0), (0, 10, 0)),
    ((2, 2, 1), (0, 11, 0)),
    ((2, 3, 0), (0, 12, 0)),
    ((2, 4, 0), (0, 12, 1)),
)

_NUMBERS = re.compile(r"^\s*v?(\d{1,9})\.(\d{1,9})(?:\.(\d{1,9}))?(-)?")


def infer(nri_version: str, runtime_name: str, runtime_version: str) -> NriVersion:
    """Return the stated version if it can be read, else the version that the runtime's release implies."""
    stated = _stated(nri_version)
    if stated is not None:
        return stated
    release = _numbers(runtime_version)
    if runtime_name.lower() != "containerd" or release is None:
        return OLDEST
    known = [version for since, version in _CONTAINERD if since <= release]
    return known[-1] if known else OLDEST


def takes_oom_score_adj(version: NriVersion) -> bool:
    """Older runtimes drop the field of the adjustment without a word."""
    return version >= (0, 7, 0)


def native_updates_are_safe(version: NriVersion) -> bool:
    """Before, UpdateContainers could meet a hook half-way and lock the runtime up for good."""
    return version >= (0, 12, 1)


def late_sync_leaves_zombie(version: NriVersion) -> bool:
    """Before, a late Synchronize answer left a connection that is open and never gets an event."""
    return version < (0, 7, 0)


def has_pod_updates(version: NriVersion) -> bool:
    return version >= (0, 10, 0)


def has_dedicated_calls(version: NriVersion) -> bool:
    """From here on each event has a call of its own; before, most came through StateChange."""
    return version >= (0, 12, 0)


def splits_synchronize(version: NriVersion) -> bool:
    return version >= (0, 7, 0)


def _stated(text: str) -> NriVersion | None:
    match = _NUMBERS.match(text)
    version = _numbers(text)
    if match is None or version is None or version == (0, 0, 0):
        return None
    major, minor, patch = version
    # Go writes a build between two tags as a pre-release of the next one: v0.12.1-0.2026… still
    # lacks what 0.12.1 brings.
    return (major, minor, patch - 1) if match[4] and patch else version


def _numbers(text: str) -> tuple[int, int, int] | None:
    match = _NUMBERS.match(text)
    return (int(match[1]), int(match[2]), int(match[3] or 0)) if match else None
