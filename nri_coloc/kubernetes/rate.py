"""Limit the rate of evictions, for the cluster and for each node, by token buckets. The time is an argument.

The limit of a node keeps one stolen companion from using up the rate of the cluster.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple


class Limit(NamedTuple):
    """A rate.

    burst: evictions at once.
    every_s: seconds after which one more is allowed.
    """

    burst: int
    every_s: float


CLUSTER: Final = Limit(burst=20, every_s=3.0)
NODE: Final = Limit(burst=4, every_s=15.0)


class Bucket(NamedTuple):
    """The state of one rate.

    used: evictions that count at `at_s`; between 0 and the burst.
    at_s: seconds of a monotonic clock.
    """

    used: float = 0.0
    at_s: float = 0.0


class Rates(NamedTuple):
    """The state of all rates.

    nodes: buckets by node, of nodes with an eviction that still counts.
    """

    cluster: Bucket = Bucket()
    nodes: Mapping[str, Bucket] = MappingProxyType({})


class Taken(NamedTuple):
    """The answer to a request for one eviction.

    rates: the new state; unchanged if the eviction is not allowed.
    wait_s: seconds until it is allowed; 0 if it is allowed now.
    whose: the rate that is used up, "cluster" or "node"; empty if the eviction is allowed.
    """

    rates: Rates
    wait_s: float = 0.0
    whose: str = ""


def take(rates: Rates, node: str, now_s: float) -> Taken:
    """Count one eviction on a node, if its rate and the cluster's allow it."""
    cluster = _at(rates.cluster, CLUSTER, now_s)
    own = _at(rates.nodes.get(node, Bucket()), NODE, now_s)
    for bucket, limit, whose in ((own, NODE, "node"), (cluster, CLUSTER, "cluster")):
        if wait_s := _wait_s(bucket, limit):
            return Taken(rates, wait_s, whose)
    counting = {name: bucket for name, each in rates.nodes.items() if (bucket := _at(each, NODE, now_s)).used}
    return Taken(Rates(_more(cluster), {**counting, node: _more(own)}))


def _at(bucket: Bucket, limit: Limit, now_s: float) -> Bucket:
    """Return a bucket at a later time. A clock that went back changes nothing."""
    passed = max(0.0, now_s - bucket.at_s)
    return Bucket(max(0.0, bucket.used - passed / limit.every_s), max(now_s, bucket.at_s))


def _wait_s(bucket: Bucket, limit: Limit) -> float:
    return max(0.0, bucket.used + 1 - limit.burst) * limit.every_s


def _more(bucket: Bucket) -> Bucket:
    return bucket._replace(used=bucket.used + 1)
