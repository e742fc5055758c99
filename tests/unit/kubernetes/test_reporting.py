"""A node's report follows the offer: late enough to be calm, at once if it must close, never below its pods."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nri_coloc.kubernetes import reporting, requests
from nri_coloc.kubernetes.api import WATCH_S
from nri_coloc.kubernetes.presets import Amounts, Shown
from nri_coloc.kubernetes.publication import SUMMARY_S
from nri_coloc.kubernetes.reporting import Cause, Lending, Report, Reporting, Wanted
from nri_coloc.kubernetes.requests import Demand, Floor
from tests.rig import examples
from tests.unit.kubernetes.kit import GIB

NODE = Amounts(32_000, 64 * GIB)
FULL = Amounts(8000, 16 * GIB)
WANTED = Wanted(FULL, Floor(), NODE, max_pods=110)


@dataclass
class Node:
    """A node object, the reporter beside it, and all PATCHes by second."""

    shown: Shown = field(default_factory=Shown)
    state: Reporting = field(default_factory=Reporting)
    now_s: float = 1000.0
    sent: list[tuple[float, Report, Cause | None]] = field(default_factory=list)

    def tick(self, wanted: Wanted | None, *, accepted: bool = True) -> Report | None:
        """Decide once and carry the PATCH out; a second passes."""
        decision = reporting.decide(self.state, wanted, self.shown, self.now_s)
        self.state, report = decision.state, decision.report
        if report is not None and accepted:
            self.state = reporting.confirm(self.state, report, self.now_s)
            self.shown = Shown(report.amounts, report.gate)
            self.sent.append((self.now_s, report, decision.cause))
        self.now_s += 1.0
        return report

    def run(self, wanted: Wanted | None, seconds: int) -> list[Report]:
        """Return the reports of some seconds with the same values."""
        before = len(self.sent)
        for _ in range(seconds):
            self.tick(wanted)
        return [report for _, report, _ in self.sent[before:]]

    def follow(self, series: Iterator[Wanted | None]) -> int:
        """Return the number of PATCHes of a series, one value a second."""
        before = len(self.sent)
        for wanted in series:
            self.tick(wanted)
        return len(self.sent) - before


@pytest.fixture
def node() -> Node:
    """Return an open node that has reported its full offer for some minutes."""
    found = Node()
    found.run(WANTED, 300)
    assert found.shown == Shown(FULL, 110)
    return found


def offering(cpu_milli: int, *, admitted: int = 0, bound: int | None = None) -> Wanted:
    """Return an offer of CPU, and floors of CPU."""
    both = Amounts(admitted), Amounts(admitted if bound is None else bound)
    return WANTED._replace(offer=Amounts(cpu_milli, 16 * GIB), floor=Floor(*both))


# --- amounts --------------------------------------------------------------------------------------------


def test_the_first_offer_is_reported_at_once():
    assert Node().tick(WANTED) == Report(FULL, None, Lending.ON)


@pytest.mark.parametrize(
    "cpu_milli", [7200, 8800, 0, 32_000], ids=["tenth less", "tenth more", "none", "all"]
)
def test_a_lasting_move_is_reported_within_35_s(node, cpu_milli):
    node.run(offering(cpu_milli), 36)
    assert node.shown.amounts == Amounts(cpu_milli, 16 * GIB)


@pytest.mark.parametrize("since_patch", range(0, 70, 3))
def test_any_other_patch_delays_a_move_little(node, since_patch):
    node.run(WANTED, since_patch)
    node.run(offering(4000), 36)
    assert node.shown.amounts == Amounts(4000, 16 * GIB)


@pytest.mark.parametrize("cpu_milli", [7201, 8799])
def test_less_than_a_tenth_changes_no_amount(node, cpu_milli):
    node.run(offering(cpu_milli), 600)
    assert node.shown.amounts == FULL


def test_a_move_of_29_s_changes_no_amount(node):
    node.run(offering(4000), 30)
    node.run(WANTED, 5)
    assert node.shown.amounts == FULL


def test_a_rise_goes_to_its_lowest_offer(node):
    node.follow(iter([offering(12_000)] * 10 + [offering(9000)] + [offering(12_000)] * 24))
    assert node.shown.amounts.cpu_milli == 9000


def test_a_fall_goes_to_the_present_offer(node):
    node.follow(iter([offering(1000)] * 10 + [offering(4000)] * 25))
    assert node.shown.amounts.cpu_milli == 4000


def test_a_rise_beyond_its_lowest_offer_follows(node):
    node.follow(iter([offering(12_000)] * 10 + [offering(9000)] + [offering(12_000)] * 60))
    assert node.shown.amounts.cpu_milli == 12_000


def test_a_fall_that_turns_starts_over(node):
    node.follow(iter([offering(4000)] * 20 + [offering(12_000)] * 30))
    assert node.shown.amounts == FULL


def test_a_rise_that_turns_lowers_the_report(node):
    node.follow(iter([offering(12_000)] * 20 + [offering(4000)] * 12))
    assert node.shown.amounts.cpu_milli == 4000


@pytest.mark.parametrize("half_s", [1, 5, 20, 29])
def test_jumps_across_the_report_lower_it(node, half_s):
    node.follow(sawtooth(offering(4000), offering(12_000), 2 * half_s, seconds=66))
    assert node.shown.amounts.cpu_milli == 4000


def test_a_fall_below_a_large_offer_is_held_too(node):
    node.run(offering(99_000), 60)
    node.run(offering(4000), 29)
    assert node.shown.amounts.cpu_milli == 32_000


def test_forty_moves_are_each_reported_within_35_s(node):
    for cpu_milli in (4000, 8000) * 20:
        node.run(offering(cpu_milli), 35)
        assert node.shown.amounts.cpu_milli == cpu_milli


def test_memory_moves_by_itself(node):
    node.run(WANTED._replace(offer=Amounts(8000, 4 * GIB)), 36)
    assert node.shown.amounts == Amounts(8000, 4 * GIB)


def test_no_more_than_the_node_is_reported(node):
    node.run(offering(99_000, admitted=99_000), 60)
    assert node.shown.amounts.cpu_milli == 32_000


# --- floor ----------------------------------------------------------------------------------------------


def test_the_report_stays_at_the_floor(node):
    node.run(offering(1000, admitted=6000), 120)
    assert node.shown.amounts.cpu_milli == 6000


def test_the_report_follows_a_falling_floor(node):
    node.run(offering(1000, admitted=6000), 120)
    node.run(offering(1000, admitted=2000), 36)
    assert node.shown.amounts.cpu_milli == 2000


def test_an_admitted_pod_above_the_report_raises_it(node):
    node.run(offering(1000), 120)
    assert node.tick(offering(1000, admitted=3000)).amounts.cpu_milli == 3000


def test_a_bound_pod_above_the_report_raises_nothing(node):
    node.run(offering(1000), 120)
    node.run(offering(1000, bound=30_000), 120)
    assert node.shown.amounts.cpu_milli == 1000


def test_a_bound_pod_within_the_report_is_covered(node):
    node.run(offering(1000, bound=5000), 120)
    assert node.shown.amounts.cpu_milli == 5000


LARGE = [Demand(Amounts(2**63 - 1, 0), is_admitted=True), Demand(Amounts(9000, 0)), Demand(is_readable=False)]
LARGE_IDS = ["above the node", "pending above the report", "unreadable"]


@pytest.mark.parametrize("demand", LARGE, ids=LARGE_IDS)
def test_one_large_pod_freezes_no_amounts(node, demand):
    node.run(offering(3000)._replace(floor=requests.floor([demand])), 120)
    assert node.shown.amounts.cpu_milli == 3000


@pytest.mark.parametrize("demand", LARGE, ids=LARGE_IDS)
def test_one_large_pod_closes_no_node(node, demand):
    node.run(WANTED._replace(floor=requests.floor([demand])), 120)
    assert node.shown.gate == 110


# --- open and closed ------------------------------------------------------------------------------------


def test_a_node_opens_after_a_minute():
    node = Node()
    node.run(WANTED, 60)
    assert node.shown.gate is None
    node.run(WANTED, 2)
    assert node.shown.gate == 110


@pytest.mark.parametrize("lending", [Lending.OFF, Lending.DRAINING, Lending.COOLING])
def test_a_node_that_stops_lending_closes_at_once(node, lending):
    assert node.tick(WANTED._replace(lending=lending)).gate is None


@pytest.mark.parametrize(
    "wanted",
    [
        offering(0),
        WANTED._replace(offer=Amounts(8000, 0)),
        offering(5999, admitted=6000),
        offering(5999, bound=6000),
    ],
    ids=["no CPU", "no memory", "less than admitted pods", "less than bound pods"],
)
def test_a_short_node_closes_at_once(node, wanted):
    assert node.tick(wanted).gate is None


def test_an_ended_pod_on_short_nodes_invites_none(node):
    for held in (6000, 5000, 4000):
        node.run(offering(2000, admitted=held), 60)
        assert node.shown.gate is None
    assert node.shown.amounts.cpu_milli == 4000


def test_a_greedy_scheduler_cannot_keep_amounts_up(node):
    pods = [500] * 16
    for second in range(1200):
        if node.shown.gate is not None:
            pods += [500] * ((node.shown.amounts.cpu_milli - sum(pods)) // 500)
        if second % 60 == 59:
            pods = pods[:-1]
        node.tick(offering(2000, admitted=sum(pods)))
    assert node.shown.amounts.cpu_milli == 2000


def test_a_node_opens_with_a_tenth_to_spare(node):
    node.run(offering(5000, admitted=6000), 60)
    node.run(offering(6599, admitted=6000), 300)
    assert node.shown.gate is None
    node.run(offering(6600, admitted=6000), 62)
    assert node.shown.gate == 110


def test_the_gate_covers_the_requests_for_it(node):
    node.run(WANTED._replace(floor=Floor(gate=200)), 40)
    assert node.shown.gate == 200


def test_a_restarted_companion_leaves_an_open_node_open(node):
    node.state = Reporting()
    node.run(WANTED, 120)
    assert all(report.gate == 110 for _, report, _ in node.sent[-3:])


# --- silence --------------------------------------------------------------------------------------------


def test_a_silent_daemon_closes_the_node(node):
    node.run(None, 62)
    assert node.shown == Shown(FULL, None)


def test_silence_never_renews_the_report(node):
    assert not any(report.is_fresh for report in node.run(None, 600))


def test_a_daemon_back_within_a_minute_closes_nothing(node):
    node.run(None, 59)
    node.run(WANTED, 60)
    assert node.shown.gate == 110


def test_two_short_silences_close_nothing(node):
    node.follow(iter([None] * 50 + [WANTED] + [None] * 50))
    assert node.shown.gate == 110


def test_a_node_never_reported_stays_untouched():
    assert Node().run(None, 600) == []


def test_a_report_is_renewed_every_minute(node):
    times = [at for at, _, cause in node.sent if cause is Cause.HEARTBEAT]
    assert {after - before for before, after in pairwise(times)} == {60.0}


def test_an_idle_node_sends_four_requests_a_minute(node):
    patches = node.follow(iter([WANTED] * 600))
    assert patches + 600 / SUMMARY_S + 2 * 600 / WATCH_S <= 4 * 10


# --- drift and failures ---------------------------------------------------------------------------------


def test_zeros_of_the_kubelet_are_replaced_soon(node):
    busy = offering(8000, admitted=7000)
    node.run(busy, 20)
    node.shown = Shown(Amounts(), 0)
    node.run(busy, 2)
    assert node.shown == Shown(FULL, 110)


def hurried(node: Node) -> Wanted:
    """Return values after which a regular PATCH must wait."""
    busy = offering(8000, admitted=7000)._replace(floor=Floor(Amounts(7000), Amounts(7000), gate=3))
    for max_pods in (111, 112, 113):
        node.tick(busy._replace(max_pods=max_pods))
    assert node.shown.gate == 112
    return busy._replace(max_pods=112)


def test_a_regular_patch_waits_in_a_hurry(node):
    assert node.run(hurried(node)._replace(max_pods=113), 20) == []


def test_a_floor_does_not_wait_in_a_hurry(node):
    hurried(node)
    assert node.tick(offering(12_000, admitted=9000)).amounts.cpu_milli == 9000


@pytest.mark.parametrize("shown", [Shown(Amounts(), 112), Shown(FULL, 0)], ids=["amounts", "gate"])
def test_zeros_do_not_wait_in_a_hurry(node, shown):
    busy = hurried(node)
    node.run(busy, 10)
    node.shown = shown
    assert node.tick(busy) is not None


def test_zeros_right_after_a_patch_are_old(node):
    busy = hurried(node)
    node.shown = Shown(Amounts(), 0)
    assert node.run(busy, 7) == []


def test_another_writer_cannot_open_a_closed_node(node):
    node.run(WANTED._replace(lending=Lending.OFF), 60)
    node.shown = Shown(FULL, 110)
    node.run(WANTED._replace(lending=Lending.OFF), 12)
    assert node.shown.gate is None


def test_another_writer_cannot_make_it_hasty(node):
    before = len(node.sent)
    for _ in range(600):
        node.shown = Shown(Amounts(), 0)
        node.tick(offering(8000, admitted=8000))
    assert len(node.sent) - before <= 21


def test_an_old_view_after_a_patch_is_ignored(node):
    node.tick(WANTED._replace(max_pods=111))
    node.shown = Shown(FULL, 110)
    assert node.run(WANTED._replace(max_pods=111), 9) == []


def test_a_failed_patch_is_decided_again(node):
    closed = WANTED._replace(lending=Lending.OFF)
    assert node.tick(closed, accepted=False) == node.tick(closed, accepted=False)


# --- rate -----------------------------------------------------------------------------------------------


def sawtooth(low: Wanted, high: Wanted, period_s: int, seconds: int = 600) -> Iterator[Wanted]:
    return (low if at % period_s < period_s // 2 else high for at in range(seconds))


@pytest.mark.parametrize("period_s", [2, 10, 40, 58, 60, 62, 64, 70, 90, 120, 240])
@pytest.mark.parametrize(
    "low",
    [offering(4000), offering(4000, admitted=6000), WANTED._replace(lending=Lending.COOLING)],
    ids=["offer", "short", "cooling"],
)
def test_ten_minutes_of_sawtooth_stay_calm(node, low, period_s):
    assert node.follow(sawtooth(low, WANTED, period_s)) <= 20


OFFERS = st.sampled_from([0, 4000, 7000, 8000, 9000, 20_000])
MOMENTS = st.builds(
    lambda cpu, admitted, bound, lending: offering(cpu, admitted=admitted, bound=admitted + bound)._replace(
        lending=lending
    ),
    OFFERS,
    OFFERS,
    OFFERS,
    st.sampled_from([Lending.ON, Lending.ON, Lending.OFF]),
)
SERIES = st.lists(st.tuples(st.none() | MOMENTS, st.integers(1, 90)), min_size=1, max_size=20)


def played(series: list[tuple[Wanted | None, int]], check: Callable[[Node, Wanted | None], object]) -> Node:
    node = Node()
    for wanted, seconds in series:
        for _ in range(seconds):
            node.tick(wanted)
            check(node, wanted)
    return node


def nothing(_: Node, __: Wanted | None) -> None:
    """Check nothing."""


@settings(max_examples=examples.times(0.4))
@given(SERIES)
def test_ten_minutes_of_anything_stay_calm(series):
    times = [at for at, _, _ in played(series, nothing).sent]
    assert all(sum(at <= each < at + 600 for each in times) <= 21 for at in times)


LONGEST_WRONG_S = 2 * reporting.DWELL_S + 2 * reporting.SPACING_S + 1
"""Seconds for which each offer may differ from the report: two holds, and the wait of the third PATCH in a hurry."""


class Wrong:
    """Counts the seconds for which the report of CPU has differed from each offer by a tenth."""

    def __init__(self) -> None:
        self.seconds = 0
        self._reported: int | None = None

    def count(self, node: Node, wanted: Wanted | None) -> None:
        reported = None if node.shown.amounts is None else node.shown.amounts.cpu_milli
        is_wrong = False
        if wanted is not None and reported is not None:
            floor = requests.carried(wanted.floor, requests.Size(NODE, 110), node.shown.amounts)
            least = max(floor.admitted.cpu_milli, min(floor.bound.cpu_milli, reported))
            target = max(wanted.offer.cpu_milli, least)
            is_wrong = target != reported and abs(target - reported) * 10 >= reported
        self.seconds = self.seconds + 1 if is_wrong and reported == self._reported else 0
        self._reported = reported
        assert self.seconds <= LONGEST_WRONG_S


AWAY = st.tuples(st.sampled_from([0, 4000, 7000, 9000, 20_000]).map(offering), st.integers(1, 29))
JITTER = st.lists(AWAY, min_size=2, max_size=3).map(
    lambda few: [(WANTED, 40), *few * (200 // sum(seconds for _, seconds in few) + 1)]
)
"""Offers that for ever differ from the first one by a tenth, none for as long as 30 s."""


@settings(max_examples=examples.times(0.4))
@given(SERIES | JITTER)
def test_no_report_stays_wrong(series):
    played(series, Wrong().count)


@settings(max_examples=examples.times(0.4))
@given(SERIES)
def test_no_report_goes_below_admitted_pods(series):
    def check(node: Node, wanted: Wanted | None) -> None:
        if node.sent and wanted is not None and node.sent[-1][0] == node.now_s - 1:
            assert node.sent[-1][1].amounts.cpu_milli >= wanted.floor.admitted.cpu_milli

    played(series, check)


@settings(max_examples=examples.times(0.4))
@given(SERIES)
def test_no_node_is_open_while_it_is_short(series):
    def check(node: Node, wanted: Wanted | None) -> None:
        short = wanted is not None and wanted.offer.cpu_milli < wanted.floor.admitted.cpu_milli
        assert node.shown.gate is None or not short

    played(series, check)


@settings(max_examples=examples.times(0.4))
@given(SERIES)
def test_no_gate_is_ever_zero(series):
    assert all(report.gate != 0 for _, report, _ in played(series, nothing).sent)


@settings(max_examples=examples.times(0.2))
@given(SERIES)
def test_the_same_series_gives_the_same_reports(series):
    assert played(series, nothing).sent == played(series, nothing).sent
