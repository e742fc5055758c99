"""service/audit_rings.py: the last records, in pages that a client can walk."""

import json
from typing import Any

import pytest

from nri_coloc.service.audit_rings import MAX_ANSWER, MAX_LIMIT, RingName, Rings

NOTHING_LOST = {"lending": 0, "placement": 0}


def ring(*pods: str, size: int = 5000) -> Rings:
    """Return rings with one placement record for each pod, "NAMESPACE/NAME", in order."""
    kept = Rings(size)
    for seq, pod in enumerate(pods, start=1):
        append(kept, "placement", seq, pod)
    return kept


def append(rings: Rings, name: RingName, seq: int, pod: str = "a/x") -> None:
    namespace, _, pod_name = pod.partition("/")
    record = {"seq": seq, "namespace": namespace, "pod": pod_name, "nested": [{"pod": "web"}]}
    rings.append(name, seq, json.dumps(record).encode())


def seqs(page: dict[str, Any]) -> list[int]:
    return [record["seq"] for record in page["records"]]


def test_the_oldest_come_first():
    assert seqs(ring("a/x", "a/y").query()) == [1, 2]


def test_passing_next_back_continues_without_a_gap_or_a_repeat():
    kept = ring(*["a/x"] * 5)
    first = kept.query(limit=2)
    second = kept.query(since=first["next"], limit=2)
    third = kept.query(since=second["next"], limit=2)
    assert (seqs(first), seqs(second), seqs(third)) == ([1, 2], [3, 4], [5])
    assert kept.query(since=third["next"]) == {
        "records": [],
        "next": 5,
        "more": False,
        "lost_before": NOTHING_LOST,
    }


@pytest.mark.parametrize(("limit", "more"), [(1, True), (2, False), (3, False)])
def test_an_answer_says_whether_it_is_the_last(limit, more):
    assert ring("a/x", "a/y", "a/x").query(pod="x", limit=limit)["more"] is more


def test_a_since_from_before_a_restart_begins_anew():
    assert seqs(ring("a/x").query(since=4711)) == [1]


def test_a_full_ring_forgets_the_oldest():
    page = ring(*["a/x"] * 5, size=2).query()
    assert seqs(page) == [4, 5]
    assert page["lost_before"] == {"lending": 0, "placement": 4}


def test_lending_never_pushes_out_placement():
    kept = Rings(3)
    append(kept, "placement", 1)
    for seq in range(2, 1000):
        append(kept, "lending", seq)
    append(kept, "placement", 1000)
    page = kept.query()
    assert seqs(page) == [1, 997, 998, 999, 1000], "merged in the order in which they were written"
    assert page["lost_before"] == {"lending": 997, "placement": 0}


def test_a_ring_that_is_made_smaller_keeps_the_newest():
    kept = ring(*["a/x"] * 5)
    kept.resize(2)
    page = kept.query()
    assert seqs(page) == [4, 5]
    assert page["lost_before"]["placement"] == 4


@pytest.mark.parametrize(
    ("pod", "found"),
    [("web", [1, 3]), ("a/web", [1]), ("b/web", [3]), ("eb", []), ("a/", []), ('we"b', []), ("", [1, 2, 3])],
)
def test_a_pod_is_found_by_its_name_or_with_its_namespace(pod, found):
    page = ring("a/web", "a/db", "b/web").query(pod=pod)
    assert seqs(page) == found
    assert page["next"] == (found[-1] if found else 0)


def test_records_of_a_pods_namesake_are_not_parsed():
    kept = ring("a/web")
    kept.append("placement", 2, b'{"namespace": "b", "pod": "web", no JSON')
    assert seqs(kept.query(pod="a/web")) == [1]


def test_a_page_has_an_end():
    kept = ring(*["a/x"] * (MAX_LIMIT + 5))
    assert len(kept.query(limit=MAX_LIMIT * 10)["records"]) == MAX_LIMIT
    assert seqs(kept.query(limit=-1)) == []


class TestLargeRecords:
    """Records of a long `because`, many inputs or long lists of CPUs."""

    def large(self, *sizes: int) -> Rings:
        kept = Rings(5000)
        for seq, size in enumerate(sizes, start=1):
            record = {"seq": seq, "namespace": "a", "pod": "x", "because": "x" * size}
            kept.append("placement", seq, json.dumps(record).encode())
        return kept

    def test_an_answer_has_a_bound_in_bytes(self):
        page = self.large(*[7000] * MAX_LIMIT).query(limit=MAX_LIMIT)
        assert MAX_ANSWER - 8000 < len(json.dumps(page["records"])) < MAX_ANSWER + 1000

    def test_its_next_reads_on_without_a_gap(self):
        kept, found, since = self.large(*[7000] * MAX_LIMIT), [], 0
        while page := kept.query(since=since, limit=MAX_LIMIT):
            if not page["records"]:
                break
            found += seqs(page)
            since = page["next"]
        assert found == list(range(1, MAX_LIMIT + 1))

    def test_a_record_beyond_the_bound_comes_alone(self):
        kept = self.large(10, 2 * MAX_ANSWER, 10)
        assert [seqs(kept.query(since=since)) for since in (0, 1, 2)] == [[1], [2], [3]]
