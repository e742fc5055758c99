"""service/http_answers.py: equal requests share an answer, and paths are answered round-robin."""

from threading import Event

import pytest

from nri_coloc.service import http_answers as subject
from nri_coloc.service.http_answers import Answers, Target
from tests.rig.waiting import wait_until


class Bed:
    """Answers whose first computation waits for the test."""

    def __init__(self) -> None:
        self.computed: list[Target] = []
        self.delivered: list[tuple[tuple[int, ...], Target]] = []
        self.may_begin = Event()
        self.answers: Answers[int, Target] = Answers(self._compute, self._deliver)
        self.answers.start()
        self.answers.ask(Target("/first", ""), 0)
        wait_until(lambda: self.computed, 20, "the first to be begun")

    def _compute(self, target: Target) -> Target:
        self.computed.append(target)
        self.may_begin.wait(30)
        return target

    def _deliver(self, waiting: tuple[int, ...], answer: Target) -> None:
        self.delivered.append((waiting, answer))

    def after(self, count: int) -> list[Target]:
        """Return the targets that were computed until `count` more answers were delivered."""
        self.may_begin.set()
        wait_until(lambda: len(self.delivered) > count, 20, "answers")
        return self.computed[1:]


@pytest.fixture
def bed():
    made = Bed()
    yield made
    made.may_begin.set()
    made.answers.close()


def test_equal_requests_share_one_answer(bed):
    for waiting in (1, 2, 3):
        assert bed.answers.ask(Target("/v1/state", ""), waiting)
    assert bed.after(1) == [Target("/v1/state", "")]
    assert bed.delivered[1] == ((1, 2, 3), Target("/v1/state", ""))


def test_a_request_never_gets_an_older_answer(bed):
    assert bed.answers.ask(Target("/first", ""), 1)
    assert bed.after(1) == [Target("/first", "")]
    assert [waiting for waiting, _ in bed.delivered] == [(0,), (1,)]


def test_paths_take_turns(bed):
    for since in "abc":
        bed.answers.ask(Target("/v1/audit", since), 1)
    bed.answers.ask(Target("/metrics", ""), 2)
    assert [target.path for target in bed.after(4)] == ["/v1/audit", "/metrics", "/v1/audit", "/v1/audit"]


def test_different_queries_of_a_path_are_bounded(bed):
    asked = [bed.answers.ask(Target("/v1/audit", str(n)), n) for n in range(subject.MAX_QUERIES + 1)]
    assert asked == [True] * subject.MAX_QUERIES + [False]
    assert bed.answers.ask(Target("/v1/audit", "0"), 99)
    assert bed.answers.ask(Target("/metrics", ""), 100)
