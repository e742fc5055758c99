"""core.memory_margin: the memory that stays available, and the bounds of a shortage."""

import pytest

from nri_coloc.core import memory_margin
from nri_coloc.core.memory_margin import Bounds

GIB, MIB = 1 << 30, 1 << 20
STEP = 256 * MIB


@pytest.mark.parametrize(
    ("total", "watermark", "known"),
    [
        (32 * GIB, 0.95, Bounds(858993460, 1717986920)),
        (4 * GIB, 0.95, Bounds(200 * MIB, 400 * MIB)),
        (32 * GIB, 1.0, Bounds(200 * MIB, 400 * MIB)),
        (0, 0.95, Bounds(200 * MIB, 400 * MIB)),
    ],
    ids=["a part of a large node", "no less than 200 MiB", "no margin", "an unknown size"],
)
def test_bounds_of_a_node(total: int, watermark: float, known: Bounds):
    found = memory_margin.of_node(total, watermark)
    assert (found.least, found.enough) == pytest.approx(known, abs=1)


@pytest.mark.parametrize(
    ("limit", "known"),
    [(4 * GIB, Bounds(200 * MIB, 400 * MIB)), (50 * GIB, Bounds(GIB // 2, GIB))],
    ids=["a small limit", "a part of a large limit"],
)
def test_bounds_of_a_limit(limit: int, known: Bounds):
    assert memory_margin.of_limit(limit) == known


@pytest.mark.parametrize(
    ("known", "margin"),
    [(Bounds(200 * MIB, 400 * MIB), 456 * MIB), (Bounds(GIB, 2 * GIB), 2 * GIB)],
    ids=["hard limits leave the least", "memory.high leaves enough"],
)
def test_lending_leaves_a_margin(known: Bounds, margin: int):
    assert known.margin(STEP) == margin
