"""The rig finds records of the audit that are too long, or without the figures of their decision."""

from tests.rig.records import broken, lines, sentence_of

GOOD = {"event": "container.admit", "reason": "threads", "because": "x" * 160, "inputs": {"n": 2}}


def test_a_good_record_is_none_of_them():
    assert list(broken([GOOD])) == []


def test_a_long_sentence_is_found():
    (found,) = broken([GOOD | {"because": "x" * 161}])
    assert "a sentence of 161 characters" in found


def test_a_decision_without_figures_is_found():
    (found,) = broken([GOOD | {"inputs": {}}])
    assert "no inputs" in found


def test_other_events_need_no_figures():
    assert list(broken([{"event": "daemon.start", "reason": "started", "because": "it started"}])) == []


def test_a_line_that_is_not_whole_is_left_out():
    assert list(lines(b'{"seq": 1}\n{"se{"seq": 2}\n{"seq": 3}\n{"se')) == [{"seq": 1}, {"seq": 3}]


def test_details_are_the_whole_sentence():
    assert sentence_of(GOOD | {"inputs": {"details": "all of it"}}) == "all of it"
