"""Limit the log lines about one node, so that a stolen companion cannot fill the controller's log."""

from typing import Final, NamedTuple

BURST: Final = 16
"""Lines at once: one for each open order of a node (`eviction.MOST_ORDERS`)."""

EVERY_S: Final = 1.0
"""Seconds after which one more line is logged."""


class _Bucket(NamedTuple):
    """The state of one node.

    used: lines that count at `at_s`, 0 to the burst.
    left_out: lines left out since the last one that was logged.
    """

    used: float = 0.0
    at_s: float = 0.0
    left_out: int = 0


class LogLimit:
    """A token bucket for each node. One thread calls it."""

    def __init__(self) -> None:
        self._buckets: dict[str, _Bucket] = {}

    @property
    def nodes(self) -> int:
        """Return the number of nodes that are remembered."""
        return len(self._buckets)

    def left_out(self, node: str, now_s: float) -> int | None:
        """Return the lines left out since the last one; None if the new line must be left out too."""
        aged = {name: _at(each, now_s) for name, each in self._buckets.items()}
        self._buckets = {name: each for name, each in aged.items() if each.used or each.left_out}
        own = self._buckets.get(node, _Bucket(at_s=now_s))
        if own.used + 1 > BURST:
            self._buckets[node] = own._replace(left_out=own.left_out + 1)
            return None
        self._buckets[node] = _Bucket(own.used + 1, now_s)
        return own.left_out


def _at(bucket: _Bucket, now_s: float) -> _Bucket:
    return bucket._replace(used=max(0.0, bucket.used - (now_s - bucket.at_s) / EVERY_S), at_s=now_s)
