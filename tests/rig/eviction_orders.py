"""Eviction orders of a daemon that is only a socket."""

from nri_coloc.core.evictions import EvictionWish, Result
from nri_coloc.core.reasons import Reason
from nri_coloc.kubernetes.eviction_orders import Open

BATCH = EvictionWish("uid-1", "shop", "batch", Reason.OPERATOR, "the disk is full", by_operator=True)


def an_order(order_id: str = "e1", *, until_s: float = float("inf"), wish: EvictionWish = BATCH) -> Open:
    """Return an open order."""
    return Open(order_id, wish, until_s)


class FewOrders:
    """Orders as a test sets them, and the results that came. An order with a result is no longer open."""

    def __init__(self, *orders: Open) -> None:
        self.orders = orders
        self.results: list[Result] = []
        self.is_connected = False

    def greeted(self) -> None:
        self.is_connected = True

    def left(self) -> None:
        self.is_connected = False

    def pending(self, now_s: float) -> tuple[Open, ...]:
        return tuple(each for each in self.orders if now_s < each.until_s)

    def take_results(self, results: tuple[Result, ...], now_s: float) -> None:
        self.results += results
        ids = {each.id for each in results}
        self.orders = tuple(each for each in self.orders if each.id not in ids)
