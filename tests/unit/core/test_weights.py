"""core/knobs.py: one scale of weights is converted into the value of each kernel file."""

import pytest

from nri_coloc.core import knobs

MAX_BFQ_WEIGHT = 1000


@pytest.mark.parametrize(
    ("ours", "bfq"),
    [
        (1, 1),
        (10, 10),
        (100, 100),
        (101, 100),
        (111, 101),
        (200, 109),
        (5050, 550),
        (9999, 999),
        (10000, 1000),
    ],
)
def test_bfqs_weight_is_ours_up_to_its_default_and_compressed_above(ours, bfq):
    # DESIGN 4.1: w up to 100 is w, above it 100 + (w - 100) * 900 / 9900 rounded down
    assert knobs.bfq_weight(ours) == bfq


@pytest.mark.parametrize(("ours", "blkio"), [(1, 10), (10, 10), (100, 100), (5050, 550), (10000, 1000)])
def test_the_old_blkio_controller_takes_the_same_within_its_range(ours, blkio):
    assert knobs.blkio_weight(ours) == blkio


@pytest.mark.parametrize(
    ("shares", "weight"),
    [(2, 1), (1024, 39), (102, 4), (512, 20), (2048, 79), (262144, 10000), (0, 1), (1 << 40, 10000)],
    ids=["least", "one-cpu", "tenth", "half", "two", "most", "below", "above"],
)
def test_shares_become_a_weight_as_runc_does_it(shares, weight):
    assert knobs.cpu_weight(shares) == weight


def test_larger_weights_stay_larger():
    ours = range(knobs.MIN_WEIGHT, knobs.MAX_IO_WEIGHT + 1)
    bfq = [knobs.bfq_weight(w) for w in ours]
    assert bfq == sorted(bfq)
    assert (bfq[0], bfq[-1]) == (knobs.MIN_WEIGHT, MAX_BFQ_WEIGHT)


def test_a_weight_is_shown_by_its_least_number():
    for bfq in range(1, MAX_BFQ_WEIGHT + 1):
        least = knobs.io_weight(bfq)
        assert knobs.bfq_weight(least) == bfq
        assert bfq == 1 or knobs.bfq_weight(least - 1) == bfq - 1


@pytest.mark.parametrize("weight", [1, 2, 39, 100, 9999, 10_000])
def test_shares_of_a_weight_make_that_weight_again(weight):
    least = knobs.shares_of(weight)
    assert knobs.cpu_weight(least) == weight
    assert weight == 1 or knobs.cpu_weight(least - 1) == weight - 1


def test_the_least_weight_is_the_kubelets_word_for_no_request():
    assert knobs.shares_of(1) == 2


@pytest.mark.parametrize(
    ("shares", "weight"),
    [
        (2, 1),
        (102, 17),
        (512, 59),
        (1024, 100),
        (2048, 174),
        (262143, 10000),
        (262144, 10000),
        (0, 1),
        (1 << 40, 10000),
    ],
)
def test_newer_versions_bend_the_curve(shares, weight):
    assert knobs.bent_cpu_weight(shares) == weight


@pytest.mark.parametrize(
    ("weight", "behind"),
    [(1, (2, 28)), (39, (999, 1024)), (79, (2047, 2073)), (100, (2598, 2623)), (10_000, (262144, 262144))],
)
def test_a_weight_stands_for_a_range_of_shares(weight, behind):
    assert knobs.shares_behind(weight) == behind


@pytest.mark.parametrize("mapping", [knobs.cpu_weight, knobs.bent_cpu_weight])
def test_no_mapping_makes_a_weight_of_more_shares_than_its_range(mapping):
    for shares in range(2, 262145, 101):
        assert knobs.shares_behind(mapping(shares))[1] >= shares


@pytest.mark.parametrize("weight", [0, -1, 10_001, 10**9], ids=str)
def test_a_weight_that_no_kernel_writes_is_the_nearest(weight):
    assert knobs.shares_behind(weight) == knobs.shares_behind(min(max(weight, 1), 10_000))
