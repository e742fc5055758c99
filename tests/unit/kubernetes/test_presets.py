"""Names and quantities of the lent amounts on a node."""

import pytest

from nri_coloc.kubernetes import presets
from nri_coloc.kubernetes.presets import OPEN, PRESETS, Amounts, Shown
from tests.unit.kubernetes.kit import BATCH_CPU, BATCH_MEMORY, GIB, KOORDINATOR


def node(capacity, allocatable):
    return {"status": {"capacity": capacity, "allocatable": allocatable}}


@pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS)
def test_amounts_are_whole_milli_cpus_and_bytes(preset):
    quantities = presets.written(preset, Amounts(7500, 3 * GIB), None)
    assert (quantities[preset.cpu], quantities[preset.memory]) == ("7500", "3221225472")


def test_an_open_node_has_the_gate():
    assert presets.written(KOORDINATOR, Amounts(), 110)[OPEN] == "110"


def test_a_closed_gate_is_removed_never_zero():
    assert presets.written(KOORDINATOR, Amounts(1, 1), None)[OPEN] is None


def test_an_amount_beyond_int64_is_cut():
    assert presets.written(KOORDINATOR, Amounts(1 << 70, -1), None) == {
        BATCH_CPU: "9223372036854775807",
        BATCH_MEMORY: "0",
        OPEN: None,
    }


def test_shown_amounts_are_read_in_canonical_form():
    both = {BATCH_CPU: "8k", BATCH_MEMORY: "3Gi", OPEN: "110"}
    assert presets.shown(node(both, both), KOORDINATOR) == Shown(Amounts(8000, 3 * GIB), 110)


def test_the_smaller_of_capacity_and_allocatable_counts():
    more, less = {BATCH_CPU: "8k", BATCH_MEMORY: "1"}, {BATCH_CPU: "7k", BATCH_MEMORY: "2"}
    assert presets.shown(node(more, less), KOORDINATOR).amounts == Amounts(7000, 1)


def test_an_amount_missing_in_allocatable_is_missing():
    both = {BATCH_CPU: "8k", BATCH_MEMORY: "1"}
    assert presets.shown(node(both, {BATCH_CPU: "8k"}), KOORDINATOR).amounts is None


def test_the_smaller_gate_counts():
    assert presets.shown(node({OPEN: "110"}, {OPEN: "0"}), KOORDINATOR).gate == 0


def test_a_gate_in_capacity_alone_is_shown():
    assert presets.shown(node({OPEN: "0"}, {}), KOORDINATOR).gate == 0


def test_a_node_without_status_shows_nothing():
    assert presets.shown({"metadata": {}}, KOORDINATOR) == Shown()


@pytest.mark.parametrize("status", [[], "x", {"capacity": 3}], ids=repr)
def test_another_shape_of_node_is_refused(status):
    with pytest.raises(ValueError):
        presets.shown({"status": status}, KOORDINATOR)


@pytest.mark.parametrize("quantity", ["12E", "x", [], None], ids=repr)
def test_an_unreadable_amount_is_no_amount(quantity):
    both = {BATCH_CPU: quantity, BATCH_MEMORY: "1"}
    assert presets.shown(node(both, both), KOORDINATOR) == Shown(None, None, is_readable=False)


def test_an_unreadable_gate_is_present():
    assert presets.shown(node({OPEN: "12E"}, {}), KOORDINATOR) == Shown(None, 0, is_readable=False)


def test_own_names_make_a_preset():
    assert presets.custom("example.com/lent-cpu", "example.com/lent_memory").cpu == "example.com/lent-cpu"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("cpu", "use one such as"),
        ("kubernetes.io/lent", "a domain of your own"),
        ("node.kubernetes.io/lent", "a domain of your own"),
        ("requests.example.com/lent", "ResourceQuota"),
        (OPEN, "gate resource"),
        ("Example.com/lent", "use one such as"),
        ("example.com/", "use one such as"),
        ("example.com/a/b", "use one such as"),
        (f"example.com/{'a' * 64}", "use one such as"),
        (f"{'a.' * 125}com/lent", "use one such as"),
        ("a" * 100_000, "use one such as"),
        ("", "use one such as"),
    ],
    ids=lambda text: text[:20],
)
def test_an_unusable_name_is_refused_with_a_remedy(name, said):
    with pytest.raises(ValueError, match=said):
        presets.custom("example.com/lent-cpu", name)


def test_cpu_and_memory_need_two_names():
    with pytest.raises(ValueError, match="different names"):
        presets.custom("example.com/lent", "example.com/lent")
