"""core/cpuset.py: CPU sets are integers, and have the kernel's text form."""

import pytest

from nri_coloc.core import cpuset


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("", []),
        ("\n", []),
        ("0", [0]),
        ("0-3,8\n", [0, 1, 2, 3, 8]),
        ("  ", []),
        (" 1 , 3-4 ", [1, 3, 4]),
        ("5-5,5", [5]),
        ("8191", [8191]),
    ],
    ids=["empty", "newline", "one", "range-and-id", "blank", "blanks", "twice", "largest-id"],
)
def test_a_cpulist_is_read(text, ids):
    assert list(cpuset.members(cpuset.parse(text))) == ids


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "-1",
        "1-",
        "1-2-3",
        "3-1",
        "8192",
        "0-8192",
        "0x1",
        "\N{ARABIC-INDIC DIGIT ONE}",
        "1-\N{SUPERSCRIPT TWO}",
        "9" * 21,
        "1-" + "9" * 21,
    ],
    ids=[
        "word",
        "no-start",
        "no-end",
        "two-dashes",
        "falling",
        "id",
        "range-end",
        "hex",
        "digit",
        "end-digit",
        "long",
        "long-end",
    ],
)  # fmt: skip - one line each would hide the table
def test_a_part_that_is_no_cpu_is_named(text):
    with pytest.raises(ValueError, match="is not a") as raised:
        cpuset.parse(f"0,{text}")
    assert repr(text) in str(raised.value)


def test_an_id_without_end_is_no_more_than_named():
    with pytest.raises(ValueError, match=r"^'9{80}' is not a CPU id"):
        cpuset.parse("9" * 5000)


@pytest.mark.parametrize("text", ["0,,1", "0-1,", ",0", ",", "0, ,1", "0,\n"])
def test_a_part_that_is_empty_is_refused(text):
    with pytest.raises(ValueError, match="a part of the list is empty"):
        cpuset.parse(text)


@pytest.mark.parametrize(
    ("ids", "text"),
    [
        ([], ""),
        ([0], "0"),
        ([0, 1], "0-1"),
        ([3, 1, 2, 8], "1-3,8"),
        ([0, 2, 4], "0,2,4"),
        ([4094, 4095], "4094-4095"),
    ],
    ids=["empty", "one", "pair", "run-and-id", "gaps", "high"],
)
def test_the_shortest_cpulist_is_written(ids, text):
    assert cpuset.render(cpuset.of(ids)) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(-1, ""), (0, ""), (1, "2"), (3, "2,4-5"), (9, "2,4-6")],
    ids=["negative", "none", "one", "some", "more-than-there-are"],
)
def test_the_lowest_members_are_chosen(count, text):
    assert cpuset.render(cpuset.lowest(cpuset.parse("2,4-6"), count)) == text
