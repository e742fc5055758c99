"""The reporter of one node: what it sends, and why it does not. Its API server is a value."""

from typing import Any

import pytest

from nri_coloc.kubernetes.api import ApiError, ApiRefused, ApiUnreachable
from nri_coloc.kubernetes.companion import Reporter
from nri_coloc.kubernetes.presets import DEFAULT, REPORTED_AT, Amounts
from nri_coloc.kubernetes.publication import State
from nri_coloc.kubernetes.reporting import Lending
from tests.unit.kubernetes.test_serving import Lines
from tests.unit.kubernetes.test_stores import node, pods, this_node

ON = State(1.0, Lending.ON, Amounts(4000, 8 << 30), Amounts(8000, 32 << 30))
OFF = ON._replace(lending=Lending.OFF)
OPEN = node(**{DEFAULT.cpu: "4000", DEFAULT.memory: str(8 << 30), "coloc.nri.io/open": "110"})
FORBIDDEN = ApiRefused("PATCH /api/v1/nodes/a/status: 403: no", 403)


class Ran:
    """A reporter, the node object that its watch knows, and an API server that may refuse.

    is_taken: an error of the API server comes after it took the PATCH.
    """

    def __init__(self) -> None:
        self.error: ApiError | None = None
        self.is_taken = False
        self.sent: list[dict[str, Any]] = []
        self.log = Lines()
        self.node = this_node([OPEN])
        self.now_s = 1000.0
        self.reporter = Reporter(self, "a", DEFAULT, log=self.log, node=self.node)  # type: ignore[arg-type]  # as much of an Api as is asked

    def merge(self, _path: str, body: dict[str, Any]) -> dict[str, Any]:
        if self.error is None or self.is_taken:
            self.sent.append(body)
        if self.error is not None:
            raise self.error
        return dict(OPEN)

    def turn(self, state: State | None, after_s: float = 5.0) -> str:
        """Play a turn some seconds later; return the problem."""
        self.now_s += after_s
        heard = None if state is None else (state, self.now_s)
        self.reporter.turn(pods(), heard, self.now_s)
        return self.reporter.problem


@pytest.fixture
def ran() -> Ran:
    found = Ran()
    assert found.turn(ON) == ""
    return found


def test_a_node_that_is_back_is_no_problem(ran):
    ran.node.replace(iter(()))
    assert "no Node" in ran.turn(None)
    ran.node.replace(iter([OPEN]))
    assert ran.reporter.problem == ran.turn(None) == ""


@pytest.mark.parametrize(
    "error", [FORBIDDEN, ApiUnreachable("PATCH: no answer")], ids=["forbidden", "no answer"]
)
def test_a_report_that_is_not_due_is_no_problem(ran, error):
    ran.error = error
    assert ran.turn(OFF).startswith(str(error))
    assert ran.turn(ON) == ""


def test_a_report_that_is_due_stays_a_problem(ran):
    ran.error = FORBIDDEN
    assert ran.turn(OFF) == ran.turn(OFF, 60.0) != ""
    assert len([line for line in ran.log.lines if "not sent" in line[0]]) == 1


def test_the_problem_names_the_missing_right(ran):
    ran.error = FORBIDDEN
    assert "nodes/status" in ran.turn(OFF)


def test_an_outage_ends_with_the_newest_offer(ran):
    ran.error = ApiUnreachable("PATCH /api/v1/nodes/a/status: no answer")
    for milli in (3000, 2000, 1000):
        ran.turn(ON._replace(offer=Amounts(milli, 8 << 30)), 60.0)
    ran.error = None
    assert ran.turn(ON._replace(offer=Amounts(1000, 8 << 30)), 60.0) == ""
    assert [each["status"]["capacity"][DEFAULT.cpu] for each in ran.sent] == ["4000", "1000"]


def test_a_node_made_again_is_reported_at_once(ran):
    ran.node.replace(iter([node("n2")]))
    ran.turn(ON, 1.0)
    assert len(ran.sent) == 2


def reported(at: str) -> dict[str, Any]:
    """Return the open node with the time of a report."""
    return {**OPEN, "metadata": {**OPEN["metadata"], "annotations": {REPORTED_AT: at}}}


def test_a_clock_that_went_back_leaves_no_node_open(ran):
    """The last report is of a clock that was ahead; since then it was set, and the API server is away."""
    ran.node.replace(iter([reported("9999-01-01T00:00:00+00:00")]))
    ran.reporter = Reporter(ran, "a", DEFAULT, log=ran.log, node=ran.node)
    ran.error = ApiUnreachable("PATCH /api/v1/nodes/a/status: no answer")
    ran.turn(ON)
    ran.error = None
    ran.turn(None)
    ran.turn(None, 61.0)
    assert ran.sent[-1]["status"]["capacity"]["coloc.nri.io/open"] is None


def test_a_companion_that_lost_its_place_closes_nothing(ran):
    """After a restart of the daemon another companion of the node may be connected, and reports."""
    before = len(ran.sent)
    ran.turn(None)
    ran.node.replace(iter([reported("9999-01-01T00:00:00+00:00")]))
    ran.turn(None, 61.0)
    assert ran.turn(None, 600.0) == ""
    assert len(ran.sent) == before


def test_an_own_report_keeps_no_node_open(ran):
    own = ran.sent[-1]["metadata"]["annotations"][REPORTED_AT]
    ran.node.replace(iter([reported(own)]))
    ran.turn(None)
    ran.turn(None, 61.0)
    assert ran.sent[-1]["status"]["capacity"]["coloc.nri.io/open"] is None


def test_a_report_whose_answer_is_lost_is_an_own_one(ran):
    ran.error, ran.is_taken = ApiUnreachable("PATCH: no answer"), True
    ran.turn(ON._replace(offer=Amounts(8000, 8 << 30)), 600.0)
    own = ran.sent[-1]["metadata"]["annotations"][REPORTED_AT]
    ran.node.replace(iter([reported(own)]))
    ran.error = None
    ran.turn(None)
    ran.turn(None, 61.0)
    assert ran.sent[-1]["status"]["capacity"]["coloc.nri.io/open"] is None


def test_ten_nodes_return_at_different_times():
    ten = [Ran() for _ in range(10)]
    for each in ten:
        each.error = ApiRefused("PATCH: 429", 429, retry_after_s=1.0)
        each.turn(ON)
    assert len({each.reporter._retry_s for each in ten}) == 10


@pytest.mark.parametrize(
    ("state", "because"),
    [
        (None, "has not answered for 60 s"),
        (ON._replace(age_s=61.0), "reading is older than 60 s"),
        (OFF, "lending is off"),
        (ON._replace(offer=Amounts(), because="online use rose"), "online use rose"),
    ],
    ids=["silent", "old reading", "off", "no offer"],
)
def test_a_closing_report_says_why(ran, state, because):
    ran.turn(state)
    ran.turn(state, 61.0)
    (told,) = [fields["because"] for _, fields in ran.log.lines if fields.get("cause") == "closed"]
    assert because in told
