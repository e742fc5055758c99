"""Decide what the controller does with a node whose reports stopped: closed after 3 minutes, floor after 15.

The age of a report is the time since its text last changed, on the controller's own clock. The text itself is a time
of the node's clock, which may be wrong, so it is compared and never read. (The node lifecycle controller treats leases
in the same way: pkg/controller/nodelifecycle/node_lifecycle_controller.go, nodeHealthData.)

Time in which the controller could not list nodes does not count: otherwise an outage of the API server would close all
nodes. So the clock is one of lists, and each list moves it by 30 seconds at most. A failed list delays it, and a long
outage begins all silences again, because companions have no report accepted meanwhile.

A node without a report and without our resources takes no part in colocation, and nothing is done with it.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from nri_coloc.kubernetes import requests
from nri_coloc.kubernetes.presets import Amounts, Shown
from nri_coloc.kubernetes.requests import Floor
from nri_coloc.pods import quantity

CLOSE_AFTER_S: Final = 180.0
FLOOR_AFTER_S: Final = 900.0

EVERY_S: Final = 30.0
"""Seconds between two lists of all nodes. A watch would send each report of each node to the controller."""

FLOOR_EVERY_S: Final = 300.0
"""Seconds between two lists of a silent node's pods. The API server may read all pods of the cluster for each."""

OUTAGE_S: Final = 180.0
"""Seconds without a list after which all silences begin again. A companion that retries needs up to 30 s to report."""


class Heard(NamedTuple):
    """The last report of one node.

    reported_at: the text of its annotation; empty for none.
    since_s: when the controller first saw this text, seconds of the clock of lists.
    """

    reported_at: str
    since_s: float


class Lists(NamedTuple):
    """The lists until now.

    clock_s: seconds that they covered.
    last_s: time of the last one, seconds of the controller's monotonic clock; None before the first.
    heard: the last report of each node in it, by UID.
    """

    clock_s: float = 0.0
    last_s: float | None = None
    heard: Mapping[str, Heard] = MappingProxyType({})


def begin(before: Lists, now_s: float) -> Lists:
    """Return the lists with the time of the next one; its reports are compared with `heard`."""
    passed_s = 0.0 if before.last_s is None else now_s - before.last_s
    heard = before.heard if passed_s <= OUTAGE_S else {}
    return Lists(before.clock_s + max(0.0, min(passed_s, EVERY_S)), now_s, heard)


class Correction(NamedTuple):
    """The values that the controller writes to a silent node.

    amounts: None to leave them.
    gate: always None, which removes the gate resource.
    silent_s: seconds without a report, for the log.
    """

    amounts: Amounts | None
    silent_s: float
    gate: None = None


def hear(before: Heard | None, reported_at: str, clock_s: float) -> Heard:
    """Return the last report after a node object was seen."""
    return before if before is not None and before.reported_at == reported_at else Heard(reported_at, clock_s)


def correction(silent_s: float, shown: Shown, floor: Floor | None) -> Correction | None:
    """Return the values to write to a node that was silent for some time; None for nothing to do.

    An amount is only lowered. A pod that requests more than the node shows, and an unreadable one, do not count:
    no amount that is written here can carry them.

    floor: None if it was not read, so that the amounts stay.
    """
    if silent_s < CLOSE_AFTER_S:
        return None
    amounts = None if floor is None or silent_s < FLOOR_AFTER_S else _lowered(shown.amounts, floor)
    if shown.gate is None and amounts is None:
        return None
    return Correction(amounts, silent_s)


def _lowered(shown: Amounts | None, floor: Floor) -> Amounts | None:
    if shown is None:
        return None
    bound = requests.carried(floor, requests.Size(shown, quantity.LARGEST), shown).bound
    lowered = Amounts(*(min(pair) for pair in zip(shown, bound, strict=True)))
    return None if lowered == shown else lowered
