"""Lines about one node are limited, and the lines left out are counted."""

from nri_coloc.kubernetes.log_limit import ORDERS, LogLimit


def test_a_burst_is_logged():
    limit = LogLimit(ORDERS)
    assert [limit.left_out("a", 0.0) for _ in range(ORDERS.burst)] == [0] * ORDERS.burst


def test_a_flood_is_left_out():
    limit = LogLimit(ORDERS)
    assert [limit.left_out("a", 0.0) for _ in range(ORDERS.burst + 1)][-1] is None


def test_the_next_line_counts_those_left_out():
    limit = LogLimit(ORDERS)
    for _ in range(ORDERS.burst + 5):
        limit.left_out("a", 0.0)
    assert limit.left_out("a", 1.0) == 5
    assert limit.left_out("a", 2.0) == 0


def test_another_node_is_logged():
    limit = LogLimit(ORDERS)
    for _ in range(ORDERS.burst + 1):
        limit.left_out("a", 0.0)
    assert limit.left_out("b", 0.0) == 0


def test_quiet_nodes_are_forgotten():
    limit = LogLimit(ORDERS)
    for number in range(10_000):
        limit.left_out(f"n{number}", number * 1.0)
    assert limit.subjects <= ORDERS.burst + 1
