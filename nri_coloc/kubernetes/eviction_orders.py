"""The open eviction orders of this node, and the last results. Pure: a book in, a book out; the time is an argument.

An order is open until its result comes or its time is over. Results come from the companion, which is not trusted: the
result of an unknown or closed order is ignored, so a false result closes one open order and does nothing else.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from nri_coloc.core.evictions import LONGEST_S, LONGEST_TEXT, Closed, EvictionWish, Outcome, Result
from nri_coloc.kubernetes import objects

MOST_OPEN: Final = 16
MOST_CLOSED: Final = 1024
"""Ends of orders that are kept, more than a node has pods: a refused pod that is forgotten is ordered again."""

_LONGEST_UID: Final = 64
LEAVING_S: Final = 600.0
"""Seconds for which an accepted eviction counts. A pod with a longer grace period may be ordered again: the controller
then answers that it is being deleted already."""


class Open(NamedTuple):
    """An order without a result. `until_s`: monotonic seconds of its end."""

    id: str
    wish: EvictionWish
    until_s: float


class Book(NamedTuple):
    """Orders of one daemon.

    open: oldest first.
    closed: the ends of the last orders by UID of the pod, oldest first.
    """

    open: tuple[Open, ...] = ()
    closed: Mapping[str, Closed] = MappingProxyType({})


class Turn(NamedTuple):
    """A new book, and the orders that it closed."""

    book: Book
    closed: tuple[Closed, ...] = ()


def problem(book: Book, wish: EvictionWish, now_s: float, *, again: bool = False) -> str:
    """Return why a wish becomes no order, "" if it may become one.

    again: whether earlier results hold nothing back, because an operator waits for this one.
    """
    if any(each.wish.pod_uid == wish.pod_uid for each in book.open):
        return "an eviction order for the pod is open already"
    if len(book.open) >= MOST_OPEN:
        return f"{MOST_OPEN} eviction orders are open already"
    if not wish.text.isprintable() or len(wish.text) > LONGEST_TEXT:
        return f"the text has more than {LONGEST_TEXT} characters, or one that cannot be printed"
    if not _is_known_to_kubernetes(wish):
        return "the runtime has a namespace, name or UID for the pod that Kubernetes never gives"
    last = book.closed.get(wish.pod_uid)
    if last is None or again:
        return ""
    if _leaves(last, now_s):
        return "the pod's eviction was accepted; its grace period runs"
    wait_s = last.rests_until_s - now_s
    return f"{last.result.detail}; the next order follows in {wait_s:.0f} s" if wait_s > 0.0 else ""


def _is_known_to_kubernetes(wish: EvictionWish) -> bool:
    """Return whether the API server would accept the order. A refusal would hold back all orders of the node."""
    bounded = ((wish.namespace, 63), (wish.name, 253))
    are_names = all(len(found) <= longest and objects.is_name(found) for found, longest in bounded)
    return are_names and 0 < len(wish.pod_uid) <= _LONGEST_UID and wish.pod_uid.isprintable()


def ordered(book: Book, order_id: str, wish: EvictionWish, now_s: float) -> Book:
    """Return the book with one more order, for a wish without a problem."""
    until_s = now_s + min(wish.expires_s, LONGEST_S)
    return book._replace(open=(*book.open, Open(order_id, wish, until_s)))


def with_results(book: Book, results: Iterable[Result], now_s: float) -> Turn:
    """Close the orders that have a result. Results of other orders are ignored."""
    return _close(book, {each.id: each for each in results}, now_s)


def without_expired(book: Book, now_s: float) -> Turn:
    """Close the orders whose time is over."""
    return _close(book, {each.id: _expired(each) for each in book.open if now_s >= each.until_s}, now_s)


def leaving(book: Book, now_s: float) -> frozenset[str]:
    """Return the UIDs of pods with an open order or an accepted eviction."""
    accepted = (uid for uid, each in book.closed.items() if _leaves(each, now_s))
    return frozenset((*(each.wish.pod_uid for each in book.open), *accepted))


def _close(book: Book, results: Mapping[str, Result], now_s: float) -> Turn:
    ended = tuple(Closed(each.wish, results[each.id], now_s) for each in book.open if each.id in results)
    if not ended:
        return Turn(book)
    uids = {each.wish.pod_uid for each in ended}
    kept = {uid: each for uid, each in book.closed.items() if uid not in uids}
    newest = [*kept.items(), *((each.wish.pod_uid, each) for each in ended)][-MOST_CLOSED:]
    still_open = tuple(each for each in book.open if each.id not in results)
    return Turn(Book(still_open, MappingProxyType(dict(newest))), ended)


def _expired(order: Open) -> Result:
    words = f"no result came within {min(order.wish.expires_s, LONGEST_S):.0f} s"
    return Result(
        order.id, Outcome.UNREACHABLE, f"{words}: companion, API server or controller cannot be reached"
    )


def _leaves(closed: Closed, now_s: float) -> bool:
    return not closed.is_refused and now_s - closed.at_s < LEAVING_S
