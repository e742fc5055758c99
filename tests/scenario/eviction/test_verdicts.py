"""Evictions after verdicts that nothing milder ends."""

from collections.abc import Callable

from nri_coloc.core.reasons import Reason
from nri_coloc.pressure.verdict import Resource
from tests.scenario.eviction.bed import Bed, verdict


def test_a_lasting_memory_stall_evicts_the_culprit(make: Callable[..., Bed]):
    bed = make(hog=1, quiet=1)
    bed.ladder.verdicts = (verdict(Resource.MEMORY, "hog", 29),)
    bed.seconds(5)
    assert bed.cluster.ordered == []
    bed.ladder.verdicts = (verdict(Resource.MEMORY, "hog", 30),)
    bed.seconds(5)
    assert [(one.name, one.reason) for one in bed.cluster.ordered] == [("hog", Reason.MEMORY_STALL)]


def test_a_victim_that_ended_evicts_no_pod(make: Callable[..., Bed]):
    bed = make(hog=1)
    bed.ladder.verdicts = (verdict(Resource.MEMORY, "hog", 30),)
    bed.end("web")
    bed.seconds(5)
    assert bed.cluster.ordered == []


def test_a_limit_in_vain_evicts_the_culprit(make: Callable[..., Bed]):
    bed = make(hog=1)
    bed.ladder.verdicts = (verdict(Resource.IO, "hog", 90),)
    bed.seconds(5)
    assert bed.cluster.ordered == []
    bed.ladder.in_vain = {("hog", "other")}
    bed.seconds(5)
    assert bed.cluster.ordered == [], "it was in vain for another pod"
    bed.ladder.in_vain = {("hog", "web")}
    bed.seconds(5)
    assert [(one.name, one.reason) for one in bed.cluster.ordered] == [("hog", Reason.IO_STALL)]
