"""placing/record.py: a container carries a record through restarts, and only a plausible record is believed."""

import json
from dataclasses import replace
from typing import Any

import pytest

from nri_coloc.core import cpuset
from nri_coloc.core.knobs import ATTRIBUTES, NO_KNOBS, Knobs
from nri_coloc.core.state import DEDICATED, RECLAIM, SHARE, Assignment
from nri_coloc.core.workload import RECORD_LENGTH, Container, QoSClass, Resources, Wish
from nri_coloc.placing import record
from nri_coloc.placing.record import Record


def assignment(**values: Any) -> Assignment:
    return replace(Assignment(Container("c", "p"), QoSClass.DEDICATED, DEDICATED), **values)


def text(**fields: object) -> str:
    return json.dumps({"v": 1, "class": "dedicated", "pool": "dedicated", **fields})


class TestWriting:
    def test_an_owner_is_remembered_with_its_cpus_and_nodes(self):
        written = record.write(assignment(exclusive=0b11, mems=0b1, knobs=Knobs(cpus="0-1")))
        assert written == (
            '{"v":1,"class":"dedicated","pool":"dedicated","exclusive":"0-1","mems":"0","original":{"cpus":null}}'
        )

    def test_a_member_of_a_pool_needs_no_more_than_its_place(self):
        written = record.write(assignment(qos=QoSClass.SHARED, pool=SHARE))
        assert written == '{"v":1,"class":"shared","pool":"share"}'

    def test_original_names_every_value_of_ours_and_what_it_replaced(self):
        ours = Knobs(cpus="2-7", shares=2, memory_limit=5, oom_score_adj=1000)
        original = Knobs(shares=512, oom_score_adj=0)
        written = record.write(
            assignment(qos=QoSClass.RECLAIMED, pool=RECLAIM, knobs=ours, original=original)
        )
        assert json.loads(written)["original"] == {
            "cpus": None,
            "shares": 512,
            "memory.limit": None,
            "oom_score_adj": 0,
        }

    def test_what_is_written_is_read_back(self):
        ours, original = Knobs(cpus="0-1", rdt_class="gold"), Knobs(cpus="0-7")
        written = record.write(assignment(exclusive=0b11, mems=0b10, knobs=ours, original=original))
        expected = Record(
            qos=QoSClass.DEDICATED,
            pool=DEDICATED,
            exclusive=0b11,
            mems=0b10,
            original=original,
            ours=("cpus", "rdt_class"),
        )
        assert record.read(written) == expected

    def test_the_largest_machine_of_the_targets_fits(self):
        alternating = cpuset.of(range(0, 768, 2))
        spec = Knobs(cpus=cpuset.render(alternating))
        texts = {"cpus": "0", "mems": "0", "blockio_class": "x" * 63, "rdt_class": "x" * 63}
        full = Knobs._make(texts.get(name, 2**63 - 1) for name in ATTRIBUTES)
        written = record.write(assignment(exclusive=alternating, mems=0xFF, knobs=full, original=spec))
        assert len(written) <= RECORD_LENGTH
        assert record.read(written) is not None


class TestReading:
    @pytest.mark.parametrize(
        "bad",
        [
            "",
            "{",
            "[]",
            "null",
            "7",
            '{"v":1}',
            '{"v":2,"class":"shared","pool":"share"}',
            text(**{"class": "royal"}),
            text(exclusive="1-"),
            text(exclusive=[1]),
            text(exclusive="9999"),
            text(mems="x"),
            text(original=[]),
            text(original=None),
            text(original={"nosuch": 1}),
            text(original={"shares": "many"}),
            text(original={"shares": True}),
            text(original={"shares": 1.5}),
            text(original={"quota": 2**64}),
            text(original={"cpus": 5}),
            text(original={"shares": {}}),
            text(exclusive="0," * 5000),
            "[" * 4000,
            '{"v":1,"class":"shared","pool":' + "9" * 4000 + "}",
        ],
        ids=[
            "none",
            "torn",
            "list",
            "null",
            "number",
            "incomplete",
            "another-version",
            "unknown-class",
            "bad-cpus",
            "cpus-as-list",
            "impossible-cpu",
            "bad-mems",
            "original-list",
            "original-null",
            "unknown-knob",
            "text-for-a-number",
            "truth-for-a-number",
            "fraction",
            "more-than-64-bits",
            "number-for-a-text",
            "nested",
            "too-long",
            "too-deep",
            "absurd-number",
        ],
    )  # fmt: skip - one line each would hide the table
    def test_what_we_would_not_have_written_is_no_record_or_harmless(self, bad):
        found = record.read(bad)
        assert found is None or found.exclusive == 0

    def test_a_longer_text_is_no_record(self):
        longest = text().ljust(RECORD_LENGTH)
        assert record.read(longest) is not None
        assert record.read(longest + " ") is None

    @pytest.mark.parametrize(("value", "is_read"), [(2**63 - 1, True), (2**63, False)], ids=["63", "64"])
    def test_a_number_has_at_most_63_bits(self, value, is_read):
        assert (record.read(text(original={"memory.limit": value})) is not None) is is_read

    def test_a_record_without_ours_gives_the_container_as_it_is(self):
        plain = Container("c", "p", record=text(), resources=Resources(shares=5))
        assert record.before_us(plain) is plain


class TestBeforeUs:
    def test_a_container_without_a_record_is_as_the_kubelet_made_it(self):
        plain = Container("c", "p")
        assert record.before_us(plain) is plain

    def test_the_kubelets_values_come_back(self):
        original = {"cpus": None, "mems": None, "shares": 512, "memory.limit": None, "oom_score_adj": 7}
        spec = Resources(shares=2, quota=9, cpus="0-1", mems="0", memory_limit=5)
        ours = Container("c", "p", record=text(original=original), oom_score_adj=1000, resources=spec)
        found = record.before_us(ours)
        assert found.resources == Resources(shares=512, quota=9)
        assert found.oom_score_adj == 7

    def test_a_score_that_is_not_ours_stays(self):
        ours = Container("c", "p", record=text(original={"cpus": "0-3"}), oom_score_adj=5)
        found = record.before_us(ours)
        assert (found.oom_score_adj, found.resources.cpus) == (5, "0-3")


class TestFactsOf:
    def test_newer_facts_are_taken_but_not_our_own_values(self):
        asked = Container("c", "p", resources=Resources(shares=1024, memory_limit=100), oom_score_adj=3)
        known = assignment(container=asked, knobs=Knobs(cpus="0-1", memory_limit=50, oom_score_adj=9))
        spec = Resources(shares=2048, cpus="0-1", memory_limit=50)
        seen = Container("c", "p", pid=5, record="r", resources=spec, oom_score_adj=9)
        found = record.facts_of(seen, known)
        assert found == Container(
            "c", "p", pid=5, resources=Resources(shares=2048, memory_limit=100), oom_score_adj=3
        )

    def test_another_score_than_at_the_creation_is_ours(self):
        known = assignment(container=Container("c", "p", oom_score_adj=1), knobs=NO_KNOBS)
        assert record.facts_of(Container("c", "p", oom_score_adj=4), known).oom_score_adj == 1


class TestAsListed:
    def test_an_owners_cpus_are_in_spec_and_record(self):
        listed = record.as_listed(assignment(exclusive=0b11, knobs=Knobs(cpus="0-1")))
        assert listed.resources.cpus == "0-1"
        assert record.before_us(listed).resources.cpus == ""

    def test_a_member_of_a_pool_is_as_the_kubelet_made_it(self):
        known = assignment(container=Container("c", "p", resources=Resources(cpus="0-3")), pool=SHARE)
        assert record.as_listed(known).resources.cpus == "0-3"


class TestALimitThatWasResized:
    """A record has the limit at creation; the spec shows today's, by the part that was ordered."""

    def since(self, now: int | None, *, was: int | None = 1000, then: int = 500, **wish: Any) -> int | None:
        ours, original = Knobs(cpus="0-1", memory_limit=then), Knobs(memory_limit=was)
        written = record.write(assignment(exclusive=0b11, knobs=ours, original=original))
        listed = Container("c", "p", record=written, resources=Resources(memory_limit=now))
        asked = Wish(wish.get("qos", QoSClass.SHARED), annotated=Knobs(memory_limit=then))
        found = record.resized_since(listed, asked)
        if found is None:
            return None
        known, before = record.read(found.record), record.read(written)
        assert known is not None
        assert before is not None
        changed = before.original._replace(memory_limit=known.original.memory_limit)
        assert known == replace(before, original=changed)
        return known.original.memory_limit

    @pytest.mark.parametrize(
        ("now", "limit"), [(1000, 2000), (250, 500)], ids=["a greater one", "a smaller one"]
    )
    def test_the_specs_is_the_same_part_of_another_limit(self, now, limit):
        assert self.since(now) == limit

    def test_it_is_the_least_of_which_the_specs_is_that_part(self):
        assert self.since(3003 * 33 // 100, was=1001, then=1001 * 33 // 100) == 3000

    @pytest.mark.parametrize("now", [500, None, 0, -1], ids=["ours", "none", "nothing", "unlimited"])
    def test_a_spec_with_our_limit_shows_no_other(self, now):
        assert self.since(now) is None

    @pytest.mark.parametrize("was", [None, -1], ids=["none", "unlimited"])
    def test_nothing_is_a_part_of_no_limit(self, was):
        assert self.since(1000, was=was) is None

    def test_a_reduced_loan_is_no_share_of_a_limit(self):
        assert self.since(250, qos=QoSClass.RECLAIMED) is None
        assert self.since(1000, qos=QoSClass.RECLAIMED) == 2000

    def test_without_a_record_the_spec_is_the_kubelets_own(self):
        asked = Wish(QoSClass.SHARED, annotated=Knobs(memory_limit=500))
        assert (
            record.resized_since(Container("c", "p", resources=Resources(memory_limit=1000)), asked) is None
        )
