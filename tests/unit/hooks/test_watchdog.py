"""A hook is answered exactly once, and at its deadline at the latest."""

import time
from statistics import median
from threading import Event

import pytest

from nri_coloc.hooks.common_steps import (
    DEFAULT_TIMEOUT_S,
    POLL_S,
    REST_S,
    RESTS_AFTER,
    SHARE_OF_TIMEOUT,
    Ticket,
    Watchdog,
)
from nri_coloc.nri.events import Call
from tests.rig.waiting import PATIENCE_SECONDS


def call(timeout_nano: int = 0) -> Call:
    return Call(1, "CreateContainer", timeout_nano)


def test_a_ticket_is_claimed_once():
    ticket = Ticket(call(), "CreateContainer", 0.0)
    assert not ticket.claimed
    assert [ticket.claim(), ticket.claim(), ticket.claim()] == [True, False, False]
    assert ticket.claimed


@pytest.mark.parametrize(
    ("timeout_nano", "seconds"),
    [
        (2_000_000_000, 0.5),
        (0, DEFAULT_TIMEOUT_S * SHARE_OF_TIMEOUT),
        (8_000_000_000, 2.0),
        (-4_000_000_000, -1.0),
    ],
    ids=["two seconds", "none stated", "eight", "negative"],
)
def test_the_deadline_is_a_quarter_of_what_the_runtime_waits(timeout_nano, seconds):
    assert Ticket(call(timeout_nano), "CreateContainer", 100.0).deadline == 100.0 + seconds


class Neutral:
    """Keeps the tickets that got a neutral answer."""

    def __init__(self) -> None:
        self.tickets: list[Ticket] = []
        self.came = Event()

    def __call__(self, ticket: Ticket) -> None:
        self.tickets.append(ticket)
        self.came.set()


@pytest.fixture
def neutral() -> Neutral:
    return Neutral()


@pytest.fixture
def watchdog(neutral):
    """Yield a watchdog that is not started: a test prepares its hooks first, however slow the machine is."""
    watchdog = Watchdog(neutral)
    yield watchdog
    watchdog.stop()


OVERDUE_AT_ONCE = -1
"""A timeout, in nanoseconds, whose quarter is over when the hook begins."""


def test_an_overdue_hook_is_answered_at_its_deadline(watchdog, neutral):
    watchdog.start()
    took, tickets = [], []
    for _ in range(3):
        neutral.came.clear()
        began = time.monotonic()
        tickets.append(watchdog.begin(call(4_000_000_000), "CreateContainer"))
        assert neutral.came.wait(PATIENCE_SECONDS)
        took.append(time.monotonic() - began)
    assert min(took) >= 1.0
    assert median(took) < 4.0, "at one of them the machine may stand still"
    assert neutral.tickets == tickets
    assert not any(ticket.claim() for ticket in tickets), "the late decision finds it taken"


def test_a_hook_that_is_answered_in_time_is_left_alone(watchdog, neutral):
    ticket = watchdog.begin(call(OVERDUE_AT_ONCE), "CreateContainer")
    assert ticket.claim()
    watchdog.start()
    assert not neutral.came.wait(0.25)


def test_a_hook_that_ended_is_forgotten(watchdog, neutral):
    watchdog.begin(call(OVERDUE_AT_ONCE), "CreateContainer")
    watchdog.end()
    watchdog.start()
    assert not neutral.came.wait(0.25)


def test_one_after_the_other_each_has_its_own_deadline(watchdog, neutral):
    first = watchdog.begin(call(OVERDUE_AT_ONCE), "StartContainer")
    watchdog.end()
    second = watchdog.begin(call(600_000_000), "CreateContainer")
    watchdog.start()
    assert neutral.came.wait(PATIENCE_SECONDS)
    assert neutral.tickets == [second]
    assert not first.claimed


def test_on_a_quiet_node_it_rests_until_a_hook_begins(watchdog, neutral):
    assert [watchdog._look() for _ in range(RESTS_AFTER + 1)] == [POLL_S] * RESTS_AFTER + [REST_S]
    watchdog.start()
    time.sleep(2 * POLL_S)  # long enough to begin the long sleep
    ticket = watchdog.begin(call(400_000_000), "CreateContainer")
    assert neutral.came.wait(PATIENCE_SECONDS)
    assert neutral.tickets == [ticket]


def test_hooks_keep_it_looking(watchdog):
    for _ in range(2 * RESTS_AFTER):
        watchdog.begin(call(), "CreateContainer")
        watchdog.end()
        assert watchdog._look() == POLL_S


def test_a_waiting_hook_is_watched_after_long_quiet(watchdog):
    watchdog.begin(call(8_000_000_000), "CreateContainer")
    assert [watchdog._look() for _ in range(2 * RESTS_AFTER)] == [POLL_S] * 2 * RESTS_AFTER
