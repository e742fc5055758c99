"""Limit a rate by a token bucket, a value. The time is an argument."""

from typing import NamedTuple


class Rate(NamedTuple):
    """A rate.

    burst: uses at once.
    every_s: seconds after which one more use is allowed.
    """

    burst: int
    every_s: float


class Bucket(NamedTuple):
    """The uses of one rate.

    used: uses that count at `at_s`; between 0 and the burst.
    at_s: seconds of a monotonic clock.
    """

    used: float = 0.0
    at_s: float = 0.0

    def at(self, now_s: float, rate: Rate) -> "Bucket":
        """Return the bucket at a later time. A clock that went back changes nothing."""
        passed_s = max(0.0, now_s - self.at_s)
        return Bucket(max(0.0, self.used - passed_s / rate.every_s), max(now_s, self.at_s))

    def wait_s(self, rate: Rate) -> float:
        """Return the seconds until one more use is allowed; 0 if it is allowed now."""
        return max(0.0, self.used + 1 - rate.burst) * rate.every_s

    def with_one_more(self) -> "Bucket":
        """Return the bucket after one more use."""
        return self._replace(used=self.used + 1)


def take(bucket: Bucket, rate: Rate, now_s: float) -> Bucket | None:
    """Return the bucket after one more use; None if the rate does not allow it now."""
    aged = bucket.at(now_s, rate)
    return None if aged.wait_s(rate) else aged.with_one_more()
