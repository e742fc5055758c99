"""Nodes with the operator's pools, and containers in them."""

from dataclasses import replace
from typing import Any

from nri_coloc.core.decisions import Outcome
from nri_coloc.core.settings import PoolTuning, Tuning
from tests.unit.placing.kit import SHARED, Node

GOLD = PoolTuning("gold", minimum=2, maximum=4)
ETL = PoolTuning("etl", group_by="namespace", maximum=4)
IN_GOLD = replace(SHARED, pool="gold", pool_because="namespace shop")


def having(*plan: PoolTuning, name: str = "8cpu", **tuning: Any) -> Node:
    return Node(name, Tuning(pools=plan, **tuning))


def join(node: Node, name: str, milli: int, pool: str = "gold", on: str = "web") -> Outcome:
    return node.create(name, milli, replace(SHARED, pool=pool), on)
