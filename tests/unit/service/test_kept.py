"""The admission and the last decision on each value of a live container are kept over restarts."""

import json
from typing import Any

import pytest

from nri_coloc.service import audit_rings
from nri_coloc.service.audit_rings import KeptRecords


def record(event: str = "container.admit", reason: str = "whole_core", **fields: Any) -> dict[str, Any]:
    own = {"ts": "1", "event": event, "reason": reason, "namespace": "shop", "pod": "web", "pod_uid": "u"}
    return {**own, "container_id": "9c1b", "pool": "share", "after": {"cpus": "0-7", "mems": "0"}, **fields}


def resized(cpus: str, ts: str, pool: str = "share") -> dict[str, Any]:
    nobody = {"namespace": "", "pod": "", "pod_uid": "", "container_id": ""}
    return record("pool.resize", "cpus_taken", ts=ts, after={"cpus": cpus}, pool=pool, **nobody)


def learnt(*records: dict[str, Any]) -> KeptRecords:
    found = KeptRecords()
    for one in records:
        found.take(one, json.dumps(one).encode())
    return found


def times(found: KeptRecords, pod: str = "shop/web") -> list[str]:
    return [one["ts"] for one in found.of_pod(pod)]


def test_the_admission_and_each_last_decision_are_kept():
    found = learnt(
        record(),
        record("container.update", ts="2", after={"cpus": "4-7"}),
        record("container.update", ts="3", after={"cpus": "6-7"}),
        record("container.update", ts="4", after={"memory.high": 4096}),
    )
    assert times(found) == ["1", "3", "4"]


def test_the_same_value_again_is_no_new_decision():
    found = learnt(record(), record("drift.repair", "found_different", ts="2", after={"cpus": "0-7"}))
    assert times(found) == ["1"]


def test_an_admission_after_a_restart_replaces_none():
    assert times(learnt(record(), record(reason="restored", ts="2"))) == ["1"]


def test_a_second_admission_repeats_the_pools_decision():
    found = learnt(record(), resized("6-7", "2"), record(ts="3", after={"cpus": "6-7"}))
    assert times(found) == ["1", "2"]


def test_the_last_record_of_a_pool_is_kept_for_all():
    found = learnt(record(), resized("2-7", "2"), resized("6-7", "3"))
    assert times(found) == ["1", "3"]
    assert times(found, "shop/other") == ["3"]


def test_a_pods_own_values_are_kept():
    found = learnt(record("pod.limit", "protected", container_id="", after={"memory.min": 4096}))
    assert times(found, "web") == ["1"]


@pytest.mark.parametrize("pod", ["other/web", "shop/we", "eb"])
def test_another_pod_has_none_of_it(pod):
    assert learnt(record()).of_pod(pod) == []


def test_an_entry_goes_with_its_container():
    assert times(learnt(record(), record("container.release", "stopped", after={}))) == []


def test_a_container_that_vanished_meanwhile_is_dropped():
    found = learnt(record(), record(container_id="other", ts="2"), resized("2-7", "3"))
    found.prune({"other"}, set(), {"share"})
    assert times(found) == ["2", "3"]


def test_an_ended_group_of_a_pool_is_dropped():
    """The authors of pods name groups, each time another one."""
    found = learnt(record(), *(resized("1", "2", pool=f"team/{number}") for number in range(3)))
    found.prune({"9c1b"}, set(), {"share", "team/2"})
    assert times(found) == ["1", "2"]


def test_a_refused_creation_is_no_admission():
    assert times(learnt(record(reason="refused_strict"))) == []


def test_a_restart_keeps_everything():
    found = learnt(record(), record("container.update", ts="2", after={"cpus": "6-7"}), resized("6-7", "3"))
    again = KeptRecords()
    assert again.load(found.text())
    assert again.of_pod("shop/web") == found.of_pod("shop/web")
    admitted = record(reason="restored", ts="9", after={"cpus": "6-7"})
    again.take(admitted, json.dumps(admitted).encode())
    assert times(again) == ["1", "2", "3"]


@pytest.mark.parametrize("text", ["", "x", "{}", '{"nri-coloc-records": 2}\n'])
def test_another_file_is_refused(text):
    assert not KeptRecords().load(text)


@pytest.mark.parametrize(
    "row",
    ["", "{", "[]", "1", "null", '{"subject": "container 9c1b"}', '{"subject": "x", "values": [""], "record": {}}',
     '{"subject": "container x", "values": ["cpus"], "record": {"after": 1, "container_id": "x"}}'],
)  # fmt: skip
def test_a_broken_row_costs_that_row_alone(row):
    text = learnt(record()).text()
    found = KeptRecords()
    assert found.load(f"{text}{row}\n")
    assert times(found) == ["1"]


def test_there_is_a_bound_to_what_is_kept(monkeypatch):
    monkeypatch.setattr(audit_rings, "MOST_SUBJECTS", 3)
    found = learnt(*(record(container_id=str(number), ts=str(number)) for number in range(5)))
    assert times(found) == ["2", "3", "4"]
    assert times(learnt(record(because="x" * audit_rings.MOST_BYTES))) == []


def test_an_answer_has_a_bound_in_bytes(monkeypatch):
    monkeypatch.setattr(audit_rings, "MAX_ANSWER", 1000)
    of_pools = [resized("2-7", str(number), f"gold/{number}") for number in range(1, 9)]
    found = learnt(record(ts="9"), *of_pools)
    assert len(json.dumps(found.of_pod("shop/web"))) < 1100
    assert times(found)[-2:] == ["8", "9"]


def test_nothing_new_is_nothing_to_write():
    found = learnt(record())
    assert (found.changed(), found.changed()) == (True, False)
    found.take(again := record("drift.repair"), json.dumps(again).encode())
    assert not found.changed()
