"""placing/claim.py: a listed container may get CPUs back that its record or its spec claims."""

from dataclasses import replace

import pytest

from nri_coloc.core.workload import Phase
from nri_coloc.placing import claim
from nri_coloc.placing.claim import NO_CLAIM, Claim
from tests.unit.placing.kit import DEDICATED, SHARED, asking, container, mask

OWNER = '{"v":1,"class":"dedicated","pool":"dedicated","exclusive":"0-1"}'
REFUSED = '{"v":1,"class":"dedicated","pool":"share"}'
POOLED = '{"v":1,"class":"shared","pool":"share"}'


def claimed(
    spec: str,
    milli: int = 2000,
    record: str = OWNER,
    phase: Phase = Phase.CREATED,
    of_pod: int | None = None,
) -> Claim:
    listed = container("c", resources=asking(milli, cpus=spec), record=record, phase=phase)
    return claim.of(listed, DEDICATED, of_pod)


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
    def test_a_spec_that_may_follow_the_record_is_newer(self, spec, milli, claim_):
        source, cpus, *sure = claim_.split()
        assert claimed(spec, milli) == Claim(mask(cpus), source, bool(sure), recorded=True)

    @pytest.mark.parametrize("spec", ["", "0-1", "0", "2-7"])
    def test_a_request_below_one_cpu_claims_nothing(self, spec):
        assert claimed(spec, 500) == NO_CLAIM

    def test_the_owner_of_its_pods_request_claims_by_its_record(self):
        assert claimed("0-1", 0) == Claim(mask("0-1"), "record", sure=True, recorded=True)


class TestWithoutARecordOfCPUs:
    def test_cpus_granted_after_creation_are_in_the_spec(self):
        assert claimed("4-5", record=REFUSED) == Claim(mask("4-5"))

    @pytest.mark.parametrize(("spec", "counts"), [("4-5", True), ("4-6", False), ("4-7", False)])
    def test_its_pods_request_bounds_it(self, spec, counts):
        found = claimed(spec, 4000, record=REFUSED, of_pod=1500)
        assert found == (Claim(mask(spec)) if counts else NO_CLAIM)

    def test_who_was_placed_by_file_has_it_in_its_spec(self):
        assert claimed("4-5", record="", phase=Phase.RUNNING) == Claim(mask("4-5"))

    def test_a_later_dedicated_container_has_cpus_in_its_spec(self):
        assert claimed("4-5", record=POOLED, phase=Phase.RUNNING) == Claim(mask("4-5"))

    @pytest.mark.parametrize(
        ("spec", "milli", "record", "phase"),
        [
            ("4-7", 2000, REFUSED, Phase.RUNNING),
            ("4-5", 3000, REFUSED, Phase.RUNNING),
            ("4", 500, REFUSED, Phase.RUNNING),
            ("4", 0, REFUSED, Phase.RUNNING),
            ("4-5", 2000, "", Phase.CREATED),
            ("", 2000, REFUSED, Phase.RUNNING),
            ("4-5", 2000, POOLED, Phase.CREATED),
        ],
        ids=[
            "another-size",
            "fewer-than-it-requests",
            "a-sidecar",
            "no-request",
            "only-asks-to-be-created",
            "nothing",
            "another-class-that-never-ran",
        ],
    )
    def test_nothing_else_claims(self, spec, milli, record, phase):
        assert claimed(spec, milli, record, phase) == NO_CLAIM

    def test_another_class_claims_nothing(self):
        listed = container("c", resources=asking(2000, cpus="4-5"), phase=Phase.RUNNING)
        assert claim.of(listed, SHARED, None) == NO_CLAIM


def test_a_claim_names_its_source():
    assert Claim(3).inputs == {"claim": "spec", "claim_cpus": "0-1"}
    assert Claim(3, "record").inputs == {"claim": "record", "claim_cpus": "0-1"}


def test_a_lowered_request_counts_for_the_spec_too():
    lowered = replace(DEDICATED, cpu_milli=2000)
    listed = container("c", resources=asking(4000, cpus="4-5"), record=REFUSED)
    assert claim.of(listed, lowered, None) == Claim(mask("4-5"))
