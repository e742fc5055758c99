"""Divide a whole number of bytes or milli-CPU by weight, so that no unit is lost or invented."""

from collections.abc import Iterable, Mapping
from typing import TypeVar

Key = TypeVar("Key", bound=int | str)


def apportion(total: int, weights: Mapping[Key, int]) -> dict[Key, int]:
    """Divide `total` (≥ 0) by weights (≥ 0; all zero are equal weights) into integers that sum to it.

    Largest remainders (Hamilton's method), ties by key: the order of the mapping has no effect. Each part differs by
    less than one from the exact part. Without weights the result is empty.
    """
    if not weights:
        return {}
    weight = sum(weights.values())
    if not weight:
        weights, weight = dict.fromkeys(weights, 1), len(weights)
    parts = {key: total * own // weight for key, own in weights.items()}
    left = total - sum(parts.values())
    if left:
        by_remainder = sorted(weights, key=lambda key: (-(total * weights[key] % weight), key))
        for key in by_remainder[:left]:
            parts[key] += 1
    return parts


def level(total: int, claims: Iterable[int]) -> int:
    """Return the greatest amount that one claim may count for, so that all claims together are at most the total.

    Smaller claims count in full: a claim takes nothing from a smaller claim. If all claims fit, the result is the
    total.
    """
    ordered = sorted(claims)
    left = total
    for at, amount in enumerate(ordered):
        part = left // (len(ordered) - at)
        if amount > part:
            return part
        left -= amount
    return total
