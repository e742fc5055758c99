"""Decide which of the controller's replicas leads, by a Lease. Pure: times are arguments.

The rules come from client-go (tools/leaderelection): a Lease belongs to its holder until its text has not changed
for its duration on the observer's own monotonic clock. Times in the Lease come from other clocks, and are only written
for people. The API server refuses the second of two writers by `resourceVersion`.

A leader that could not renew for `RENEW_WITHIN_S` stops to act. This is less than the duration, so that it stops before
another replica begins.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from nri_coloc.kubernetes import objects

DURATION_S: Final = 15
RENEW_WITHIN_S: Final = 10.0
RETRY_S: Final = 2.0

_LONGEST: Final = 253
_MOST_CHANGES: Final = 2**31 - 2


class Seen(NamedTuple):
    """A Lease object as this replica saw it.

    version: its resourceVersion; empty if there is no Lease.
    holder: identity of the replica that holds it; empty for none.
    duration_s: seconds that it promises to hold it.
    changes: number of holders so far.
    since_s: monotonic time at which this replica first saw this version.
    """

    version: str = ""
    holder: str = ""
    duration_s: int = DURATION_S
    changes: int = 0
    since_s: float = 0.0


def seen(before: Seen | None, found: Mapping[str, Any], now_s: float) -> Seen:
    """Return a Lease as it is seen now. `found`: the object; empty if there is none."""
    version = objects.text(objects.child(found, "metadata"), "resourceVersion", _LONGEST)
    if before is not None and before.version == version:
        return before
    spec = objects.child(found, "spec")
    return Seen(
        version=version,
        holder=objects.text(spec, "holderIdentity", _LONGEST),
        duration_s=objects.integer(spec, "leaseDurationSeconds", 0, 3600),
        changes=objects.integer(spec, "leaseTransitions", 0, _MOST_CHANGES),
        since_s=now_s,
    )


def may_take(found: Seen, identity: str, now_s: float) -> bool:
    """Return whether this replica may write itself into the Lease."""
    return found.holder in ("", identity) or now_s - found.since_s > found.duration_s


def spec(found: Seen, identity: str, now: str) -> dict[str, Any]:
    """Return the spec with which this replica takes or renews a Lease. `now`: RFC 3339 with microseconds."""
    written: dict[str, Any] = {
        "holderIdentity": identity,
        "leaseDurationSeconds": DURATION_S,
        "renewTime": now,
        "leaseTransitions": found.changes,
    }
    if found.holder != identity:
        written |= {"acquireTime": now, "leaseTransitions": found.changes + 1}
    return written


def leads(renewed_s: float | None, now_s: float) -> bool:
    """Return whether a replica may act. `renewed_s`: monotonic time before its last successful write; None for none."""
    return renewed_s is not None and now_s - renewed_s < RENEW_WITHIN_S
