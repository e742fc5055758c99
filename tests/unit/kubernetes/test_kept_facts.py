"""The facts that the daemon keeps: a bounded number, complete after each list, never lost by a break."""

import pytest

from nri_coloc.core.pod_facts import NO_LENT, ContainerFacts, Facts, Kind, Lent, Owner
from nri_coloc.core.workload import Pod
from nri_coloc.kubernetes import kept_facts
from nri_coloc.kubernetes.kept_facts import KeptFacts, Reported

LOAN = Lent(memory_bytes=1)


def facts(uid: str, containers: int = 0, memory: int = 0) -> Facts:
    members = tuple(ContainerFacts(f"c{n}", Kind.MAIN, 0, 0, LOAN) for n in range(containers))
    return Facts(
        uid=uid,
        namespace="shop",
        name=uid,
        owner=Owner(),
        priority=0,
        cpu_milli=0,
        memory_bytes=memory,
        containers=members,
    )


def kept(*uids: str) -> KeptFacts:
    found = KeptFacts()
    found.take(Reported(tuple(map(facts, uids))))
    return found


def names(found: KeptFacts, *uids: str) -> str:
    return "".join(uid for uid in uids if found.newest.of(Pod("p", uid, uid, "shop")))


def test_facts_outlive_their_connection():
    found = kept("a", "b")
    found.connected()
    assert names(found, "a", "b") == "ab"


def test_facts_hold_until_a_list_is_complete():
    found = kept("a", "b")
    found.take(Reported((facts("b"),), begins=True))
    assert names(found, "a", "b") == "ab"
    found.take(Reported((facts("c"),), completes=True))
    assert names(found, "a", "b", "c") == "bc"


def test_a_broken_list_drops_nothing():
    found = kept("a")
    found.take(Reported((), begins=True))
    found.connected()
    with pytest.raises(ValueError, match="no list has begun"):
        found.take(Reported((facts("b"),), completes=True))
    assert names(found, "a", "b") == "a"


def test_a_pod_that_ended_has_no_facts():
    found = kept("a", "b")
    found.take(Reported((), gone=("a", "never-seen")))
    assert names(found, "a", "b") == "b"


def test_the_last_facts_of_a_pod_count():
    found = kept("a")
    found.take(Reported((facts("a", memory=1), facts("a", memory=2))))
    told = found.newest.of(Pod("p", "a", "a", "shop"))
    assert told is not None
    assert told.memory_bytes == 2


def test_equal_facts_are_no_change():
    found = kept("a")
    before = found.newest
    found.take(Reported((facts("a"),)))
    assert found.newest is before


def test_pods_beyond_the_bound_are_counted():
    found = kept(*(f"u{n}" for n in range(kept_facts.MOST_PODS)))
    assert found.take(Reported((facts("a"), facts("u0")))) == 1
    assert len(found.newest) == kept_facts.MOST_PODS


def test_containers_beyond_the_bound_are_counted():
    found = KeptFacts()
    pods = tuple(facts(f"u{n}", containers=128) for n in range(64))
    assert found.take(Reported(pods)) == 0
    assert found.take(Reported((facts("a", containers=1),))) == 1
    found.take(Reported((), gone=("u0",)))
    assert found.take(Reported((facts("a", containers=128),))) == 0


def test_containers_beyond_the_bound_confirm_no_loan():
    found = KeptFacts()
    found.take(Reported(tuple(facts(f"u{n}", containers=128) for n in range(65))))
    assert [found.newest.lent(Pod("p", uid, uid, "shop"), "c0") for uid in ("u63", "u64")] == [LOAN, NO_LENT]


def test_large_pods_cost_small_pods_no_loan():
    found = KeptFacts()
    found.take(Reported(tuple(facts(f"u{n}", containers=128) for n in range(64))))
    found.take(Reported((facts("small", containers=2),)))
    assert found.newest.lent(Pod("p", "small", "small", "shop"), "c0") == LOAN


def test_facts_that_do_not_fit_replace_older_ones():
    found = KeptFacts()
    found.take(Reported(tuple(facts(f"u{n}", containers=128) for n in range(63))))
    found.take(Reported((facts("a", containers=100),)))
    assert found.take(Reported((facts("b", containers=28), facts("a", containers=128)))) == 1
    assert found.newest.lent(Pod("p", "a", "a", "shop"), "c0") == NO_LENT
