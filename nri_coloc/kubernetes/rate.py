"""Limit the rate of evictions, for the cluster and for each node. The time is an argument.

The limit of a node keeps one stolen companion from using up the rate of the cluster.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from nri_coloc.core.token_bucket import Bucket, Rate

CLUSTER: Final = Rate(burst=20, every_s=3.0)
NODE: Final = Rate(burst=4, every_s=15.0)


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
    cluster = rates.cluster.at(now_s, CLUSTER)
    own = rates.nodes.get(node, Bucket()).at(now_s, NODE)
    for bucket, rate, whose in ((own, NODE, "node"), (cluster, CLUSTER, "cluster")):
        if wait_s := bucket.wait_s(rate):
            return Taken(rates, wait_s, whose)
    counting = {name: bucket for name, each in rates.nodes.items() if (bucket := each.at(now_s, NODE)).used}
    return Taken(Rates(cluster.with_one_more(), {**counting, node: own.with_one_more()}))
