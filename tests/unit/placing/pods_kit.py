"""Nodes with one pod whose CPU request is known."""

from tests.unit.placing.kit import Node


def pod_of(milli: int, name: str = "8cpu") -> Node:
    node = Node(name)
    node.requests["web"] = milli
    return node


def with_containers(milli: int, *shares_of: int) -> Node:
    """Return a node with one pod of this request, and containers a, b, c, … with these requests, milli-CPU."""
    node = pod_of(milli)
    for name, own in zip("abcd", shares_of, strict=False):
        node.create(name, own)
    return node
