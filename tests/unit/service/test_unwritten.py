"""Values that are in force in no file are named in a sentence."""

from nri_coloc.service.unwritten import KEPT, NAMED, REMEMBERED_S, Unwritten


def test_nothing_is_wrong_at_first():
    assert Unwritten().words(0.0) == ""


def test_a_refusal_is_news_once():
    known = Unwritten()
    assert known.refused("/a/cpuset.cpus", "Permission denied", 1.0)
    assert not known.refused("/a/cpuset.cpus", "Permission denied", 2.0)
    assert known.refused("/a/cpuset.cpus", "Device or resource busy", 3.0)
    assert known.refused("/b/cpuset.cpus", "Permission denied", 3.0)


def test_a_refusal_is_named_for_ten_minutes():
    known = Unwritten()
    known.refused("/a/cpuset.cpus", "Permission denied", 1.0)
    assert known.words(REMEMBERED_S) == "refused lately: /a/cpuset.cpus: Permission denied"
    assert known.words(1.0 + REMEMBERED_S) == ""


def test_many_refusals_are_counted():
    known = Unwritten()
    for number in range(NAMED + 4):
        known.refused(f"/{number}", "no", 1.0)
    assert known.words(2.0) == "refused lately: /4: no, /5: no, /6: no and 4 more"


def test_values_without_a_file_are_counted():
    known = Unwritten()
    known.absent(["memory.high", "rdt_class"])
    known.absent(["memory.high"])
    assert known.words(9e9) == (
        "values without a file on this machine: memory.high (2 times), rdt_class (1 time)"
    )


def test_there_is_a_bound_to_what_is_remembered():
    known = Unwritten()
    for number in range(KEPT + 10):
        known.refused(f"/{number}", "no", 1.0)
    assert len(known._refused) == KEPT
