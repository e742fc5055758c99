"""Amounts of memory are read as Kubernetes reads them."""

import pytest

from nri_coloc.pods import quantity
from nri_coloc.pods.quantity import Amount


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("1", 1),
        ("+7", 7),
        ("512Ki", 512 << 10),
        ("512Mi", 512 << 20),
        ("2Gi", 2 << 30),
        ("1Ti", 1 << 40),
        ("1Pi", 1 << 50),
        ("1Ei", 1 << 60),
        ("1k", 1000),
        ("1M", 10**6),
        ("1G", 10**9),
        ("1T", 10**12),
        ("1P", 10**15),
        ("1E", 10**18),
        ("1e3", 1000),
        ("1E3", 1000),
        ("1e+3", 1000),
        ("1500e-2", 15),
        ("1.5Gi", 3 << 29),
        (".5Ki", 512),
        ("5.", 5),
        ("0.1e1", 1),
        ("128974848000m", 128974848),
    ],
)
def test_a_quantity_is_read_as_bytes(text, expected):
    assert quantity.whole_bytes(text) == expected


@pytest.mark.parametrize("text", ["1m", "1u", "1n", "0.0001", "1e-9"])
def test_a_fraction_of_a_byte_is_rounded_up(text):
    assert quantity.whole_bytes(text) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not a quantity"),
        (".", "not a quantity"),
        ("Mi", "not a quantity"),
        ("1 Gi", "not a quantity"),
        ("1GB", "not a quantity"),
        ("1gi", "not a quantity"),
        ("1K", "not a quantity"),
        ("1e", "not a quantity"),
        ("1e999", "not a quantity"),
        ("1_000", "not a quantity"),
        ("٣", "not a quantity"),
        ("1\n", "not a quantity"),
        ("0x10", "not a quantity"),
        ("9" * 41, "not a quantity"),
        ("-1Gi", "negative"),
        ("8Ei", "more than"),
        ("1e99", "more than"),
    ],
)
def test_what_is_no_quantity_is_refused_in_words(text, said):
    with pytest.raises(ValueError, match=said):
        quantity.whole_bytes(text)


def test_the_largest_quantity_is_the_kernels_largest_value():
    assert quantity.whole_bytes(str(2**63 - 1)) == 2**63 - 1


def test_an_amount_is_bytes_whatever_the_base():
    assert quantity.amount("1Ki").of(0) == 1024


@pytest.mark.parametrize(
    ("text", "base", "expected"),
    [("50%", 1001, 500), ("0%", 1000, 0), ("100%", 7, 7), ("080%", 100, 80), ("50%", 0, None)],
    ids=["rounded down", "nothing", "all", "leading zero", "unknown base"],
)
def test_a_percentage_is_of_its_base(text, base, expected):
    assert quantity.amount(text).of(base) == expected


@pytest.mark.parametrize("text", ["101%", "-1%", "1.5%", "%", "1000%", "5 %"])
def test_what_is_no_percentage_is_refused_in_words(text):
    with pytest.raises(ValueError, match="percentage from 0% to 100%"):
        quantity.amount(text)


def test_an_amount_says_which_of_the_two_it_is():
    assert (quantity.amount("3"), quantity.amount("3%")) == (Amount(bytes=3), Amount(percent=3))


@pytest.mark.parametrize("text", ["0", "0%", "0Gi", "4096", "4095Ki"])
def test_a_limit_with_which_nothing_starts_is_refused(text):
    with pytest.raises(ValueError, match="lets no container start"):
        quantity.limit(text)


def test_any_other_limit_is_the_amount():
    assert quantity.limit("4Mi").bytes == 4 << 20
    assert (quantity.limit("8Mi"), quantity.limit("1%")) == (quantity.amount("8Mi"), quantity.amount("1%"))
