"""policy/claim.py: which CPUs a listed container may have back."""

from dataclasses import replace

import pytest

from nri_coloc.model.workload import Phase, Resources
from nri_coloc.policy import claim
from nri_coloc.policy.claim import NO_CLAIM, Claim
from tests.unit.policy.kit import DEDICATED, SHARED, asking, container, mask

OWNER = '{"v":1,"class":"dedicated","pool":"dedicated","exclusive":"0-1"}'
REFUSED = '{"v":1,"class":"dedicated","pool":"share"}'
POOLED = '{"v":1,"class":"shared","pool":"share"}'


def claimed(spec: str, milli: int = 2000, record: str = OWNER, phase: Phase = Phase.CREATED) -> Claim:
    listed = container("c", resources=asking(milli, cpus=spec), record=record, phase=phase)
    return claim.of(listed, DEDICATED)


class TestWithARecordOfCPUs:
    @pytest.mark.parametrize(
        ("spec", "milli", "claim_"),
        [
            ("", 2000, "record 0-1 sure"),
            ("nonsense", 2000, "record 0-1 sure"),
            ("0-1", 2000, "record 0-1 sure"),
            ("4-5", 2000, "spec 4-5"),
            ("0-3", 4000, "spec 0-3 sure"),
            ("4-7", 4000, "spec 4-7"),
            ("0-2", 6000, "spec 0-2 sure"),
            ("0", 1000, "spec 0 sure"),
            ("1", 6000, "spec 1 sure"),
            ("2-7", 2000, "record 0-1"),
            ("0-7", 2000, "record 0-1"),
            ("2-4", 6000, "record 0-1"),
            ("2", 3000, "record 0-1"),
        ],
        ids=[
            "no-cpus",
            "garbage",
            "as-created",
            "moved",
            "grown",
            "moved-and-grown",
            "grown-before-a-refusal",
            "shrunk",
            "shrunk-before-a-refusal",
            "the-pools",
            "the-pools-around-it",
            "another-set",
            "a-smaller-other-set",
        ],
    )
    def test_the_spec_is_newer_where_it_says_what_could_have_become_of_the_record(self, spec, milli, claim_):
        source, cpus, *sure = claim_.split()
        assert claimed(spec, milli) == Claim(mask(cpus), source, bool(sure), recorded=True)

    @pytest.mark.parametrize(
        ("spec", "found"),
        [("", "record"), ("0-1", "record"), ("0", "spec"), ("2-7", ""), ("4-6", "")],
        ids=["no-cpus", "as-created", "a-part", "the-pools", "the-main-containers"],
    )
    def test_a_sidecar_claims_nothing_by_a_record_that_its_spec_belies(self, spec, found):
        claim_ = claimed(spec, 500)
        assert (claim_.source if claim_.cpus else "") == found


class TestWithoutARecordOfCPUs:
    def test_who_got_its_own_after_its_creation_has_it_in_its_spec(self):
        assert claimed("4-5", record=REFUSED) == Claim(mask("4-5"))

    def test_who_was_placed_by_file_has_it_in_its_spec(self):
        assert claimed("4-5", record="", phase=Phase.RUNNING) == Claim(mask("4-5"))

    @pytest.mark.parametrize(
        ("spec", "milli", "record", "phase"),
        [
            ("4-7", 2000, REFUSED, Phase.RUNNING),
            ("4", 500, REFUSED, Phase.RUNNING),
            ("4", 0, REFUSED, Phase.RUNNING),
            ("4-5", 2000, "", Phase.CREATED),
            ("", 2000, REFUSED, Phase.RUNNING),
            ("4-5", 2000, POOLED, Phase.RUNNING),
        ],
        ids=[
            "another-size",
            "a-sidecar",
            "no-request",
            "only-asks-to-be-created",
            "nothing",
            "another-class-in-its-record",
        ],
    )
    def test_nothing_else_claims(self, spec, milli, record, phase):
        assert claimed(spec, milli, record, phase) == NO_CLAIM

    def test_another_class_claims_nothing(self):
        listed = container("c", resources=asking(2000, cpus="4-5"), phase=Phase.RUNNING)
        assert claim.of(listed, SHARED) == NO_CLAIM


def test_the_words_tell_where_it_stands():
    assert [c.words for c in (Claim(3), Claim(3, "record"))] == [
        "spec gives CPUs 0-1",
        "record gives CPUs 0-1",
    ]


def test_a_told_request_counts_for_the_spec_too():
    told = replace(DEDICATED, cpu_milli=2000)
    listed = container("c", resources=Resources(cpus="4-5"), record=REFUSED)
    assert claim.of(listed, told) == Claim(mask("4-5"))


class TestByTheDRADriver:
    def driven(self, spec: str, claimed: str = "4-5", record: str = "") -> int:
        listed = container("c", resources=Resources(cpus=spec), record=record)
        return claim.by_driver(replace(listed, claimed=mask(claimed)))

    @pytest.mark.parametrize(
        ("spec", "claimed", "cpus"),
        [("4-5", "4-5", "4-5"), ("4-5", "", ""), ("", "4-5", ""), ("0-7", "4-5", ""), ("x", "4-5", "")],
        ids=["pinned", "no-claim", "forged", "pinned-elsewhere", "garbage"],
    )
    def test_it_counts_only_where_the_spec_says_the_same(self, spec, claimed, cpus):
        assert self.driven(spec, claimed) == mask(cpus)

    def test_cpus_of_ours_in_the_spec_make_no_forged_claim_true(self):
        ours = '{"v":1,"class":"shared","pool":"share","original":{"cpus":null}}'
        assert self.driven("0-7", "0-7", ours) == 0
