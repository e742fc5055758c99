import pytest

from nri_coloc.nri import version


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        ("1.7.24", (0, 6, 1)),
        ("v1.7.24-1-gabcdef", (0, 6, 1)),
        ("1.7.24~ds1-6+b4", (0, 6, 1)),
        ("1.7.25", (0, 6, 1)),
        ("1.7.26", (0, 8, 0)),
        ("v2.0.0-rc.6", (0, 8, 0)),
        ("v2.0.11", (0, 8, 0)),
        ("v2.1.5", (0, 8, 0)),
        ("v2.1.5-k3s1", (0, 8, 0)),
        ("2.2.0", (0, 10, 0)),
        ("2.2.3", (0, 11, 0)),
        ("v2.3.4", (0, 12, 0)),
        ("v2.4.0-beta.0", (0, 12, 1)),
        ("9.9", (0, 12, 1)),
        ("1.6.0", (0, 6, 1)),
        ("", (0, 6, 1)),
        ("main", (0, 6, 1)),
    ],
)
def test_a_silent_runtime_is_known_by_its_release(release, expected):
    assert version.infer("", "containerd", release) == expected


def test_another_runtime_is_taken_for_the_oldest():
    assert version.infer("", "cri-o", "v2.3.4") == version.OLDEST


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ("v0.12.2", (0, 12, 2)),
        ("0.12.0", (0, 12, 0)),
        ("v0.12.1-0.20260810123456-8ec8b28aaaaa", (0, 12, 0)),
        ("v0.12.0-rc.1", (0, 12, 0)),
        ("v0.12.1+dirty", (0, 12, 1)),
    ],
)
def test_what_the_runtime_states_comes_first(stated, expected):
    assert version.infer(stated, "containerd", "v1.7.24") == expected


@pytest.mark.parametrize("stated", ["", "unknown", "(devel)", "v0.0.0-20260101000000-abcdef"])
def test_a_statement_that_says_nothing_is_passed_over(stated):
    assert version.infer(stated, "containerd", "v2.3.0") == (0, 12, 0)


@pytest.mark.parametrize(
    ("predicate", "since"),
    [
        (version.takes_oom_score_adj, (0, 7, 0)),
        (version.native_updates_are_safe, (0, 12, 1)),
        (lambda found: not version.late_sync_leaves_zombie(found), (0, 7, 0)),
        (version.has_pod_updates, (0, 10, 0)),
        (version.has_dedicated_calls, (0, 12, 0)),
        (version.splits_synchronize, (0, 7, 0)),
    ],
)
def test_a_predicate_turns_at_its_version(predicate, since):
    before = (since[0], since[1], since[2] - 1) if since[2] else (since[0], since[1] - 1, 99)
    assert (predicate(before), predicate(since)) == (False, True)
