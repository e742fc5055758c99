"""lending/groups.py: as few cgroups as possible are read for the same figures."""

import pytest

from nri_coloc.core.readings import Role
from nri_coloc.lending import groups
from nri_coloc.lending.groups import ContainerFacts, Facts, Group, PodFacts, TierFacts

BURSTABLE, BEST_EFFORT = "kubepods/burstable", "kubepods/besteffort"


def pod(
    parent: str, name: str, role: Role = Role.ONLINE, *containers: ContainerFacts, **facts: bool
) -> PodFacts:
    return PodFacts(f"{parent}/pod{name}", role, containers, **facts)


def pods(parent: str, count: int, role: Role, **facts: bool) -> tuple[PodFacts, ...]:
    return tuple(pod(parent, f"{role}{number}", role, **facts) for number in range(count))


def containers(name: str, count: int, **facts: bool) -> tuple[ContainerFacts, ...]:
    return tuple(ContainerFacts(f"{BURSTABLE}/p/{name}{number}", **facts) for number in range(count))


def chosen(role: Role, *facts: PodFacts) -> list[Group]:
    return [group for group in groups.choose(Facts(("kubepods",), facts)) if group.role is role]


class TestNode:
    def test_the_rest_of_the_node_is_the_root_less_kubepods(self):
        assert groups.choose(Facts(("kubepods",))) == (
            Group(Role.PODS, ("kubepods",)),
            Group(Role.SYSTEM, ("",), ("kubepods",)),
        )

    def test_cgroups_beside_kubepods_are_more_precise_than_the_remainder(self):
        found = groups.choose(Facts(("kubepods.slice",), beside=("system.slice", "user.slice")))
        assert found[1:] == (Group(Role.SYSTEM, ("system.slice",)), Group(Role.SYSTEM, ("user.slice",)))

    def test_reserved_cpus_are_a_group_of_their_own(self):
        assert groups.choose(Facts(reserved=0b11))[0] == Group(Role.RESERVED, cpus=0b11)

    def test_without_kubepods_pods_use_nothing_and_the_rest_is_all(self):
        assert groups.choose(Facts()) == (Group(Role.PODS), Group(Role.SYSTEM, ("",)))


class TestBox:
    def test_one_pod_is_read_itself(self):
        assert chosen(Role.BOX, pod(BEST_EFFORT, "a", Role.BOX)) == [
            Group(Role.BOX, (f"{BEST_EFFORT}/poda",))
        ]

    def test_a_qos_cgroup_with_nothing_else_in_it_stands_for_all(self):
        assert chosen(Role.BOX, *pods(BEST_EFFORT, 50, Role.BOX)) == [Group(Role.BOX, (BEST_EFFORT,))]

    def test_the_few_others_in_it_are_taken_off(self):
        agent = pod(BEST_EFFORT, "agent", Role.SYSTEM)
        found = chosen(Role.BOX, agent, *pods(BEST_EFFORT, 50, Role.BOX))
        assert found == [Group(Role.BOX, (BEST_EFFORT,), (agent.path,))]

    def test_so_are_more_of_them_while_that_is_fewer_files(self):
        members = pods(BEST_EFFORT, 20, Role.BOX)
        counts = [
            len(chosen(Role.BOX, *members, *pods(BEST_EFFORT, others, Role.SYSTEM))) for others in (18, 19)
        ]
        assert counts == [1, 20]

    def test_among_many_others_each_member_is_read_itself(self):
        found = chosen(Role.BOX, *pods(BURSTABLE, 30, Role.ONLINE), *pods(BURSTABLE, 20, Role.BOX))
        assert [group.add for group in found] == [(one.path,) for one in pods(BURSTABLE, 20, Role.BOX)]

    def test_kubepods_itself_never_stands_for_its_guaranteed_pods(self):
        assert len(chosen(Role.BOX, *pods("kubepods", 9, Role.BOX))) == 9

    def test_a_qos_cgroup_with_containers_straight_in_it_stands_for_nobody(self):
        stranger = PodFacts(BEST_EFFORT, Role.SYSTEM)
        assert len(chosen(Role.BOX, stranger, *pods(BEST_EFFORT, 9, Role.BOX))) == 9

    def test_a_reclaimed_container_in_an_online_pod_is_read_itself(self):
        mixed = pod(
            BURSTABLE,
            "mixed",
            Role.ONLINE,
            ContainerFacts("p/a"),
            ContainerFacts(f"{BURSTABLE}/p/b", boxed=True),
        )
        assert chosen(Role.BOX, mixed) == [Group(Role.BOX, (f"{BURSTABLE}/p/b",))]

    def test_host_groups_belong_to_it(self):
        assert groups.choose(Facts(host_groups=("yarn/nm",)))[2:] == (Group(Role.HOST, ("yarn/nm",)),)

    def test_a_member_outside_of_kubepods_is_taken_off_what_runs_there(self):
        outside = PodFacts("by-hand/pod", Role.BOX)
        assert (chosen(Role.BOX, outside), chosen(Role.HOST, outside)) == (
            [],
            [Group(Role.HOST, ("by-hand/pod",))],
        )


class TestOnline:
    @pytest.mark.parametrize("count", [2, 40])
    def test_a_qos_cgroup_of_nothing_but_online_pods_stands_for_all(self, count):
        assert chosen(Role.ONLINE, *pods(BURSTABLE, count, Role.ONLINE)) == [
            Group(Role.ONLINE, (BURSTABLE,), stalled=BURSTABLE)
        ]

    @pytest.mark.parametrize(
        "other",
        [
            pod(BURSTABLE, "x", Role.BOX),
            pod(BURSTABLE, "x", Role.SYSTEM),
            pod(BURSTABLE, "x", Role.ONLINE, ContainerFacts("c", limited=True)),
            pod(BURSTABLE, "x", Role.ONLINE, ContainerFacts("c", apart=True)),
            pod(BURSTABLE, "x", Role.ONLINE, shares_box=False),
        ],
        ids=["boxed", "system", "limited", "apart", "elsewhere"],
    )
    def test_one_pod_of_another_kind_makes_all_be_read_themselves(self, other):
        found = chosen(Role.ONLINE, *pods(BURSTABLE, 3, Role.ONLINE), other)
        assert [group.stalled for group in found][:3] == [one.path for one in pods(BURSTABLE, 3, Role.ONLINE)]

    def test_two_kubelets_pods_are_each_read_at_their_qos_cgroup(self):
        second = "kubelet/kubepods/burstable"
        members = (*pods(BURSTABLE, 3, Role.ONLINE), *pods(second, 3, Role.ONLINE))
        found = groups.choose(Facts(("kubepods", "kubelet/kubepods"), members))
        assert [g.stalled for g in found if g.role is Role.ONLINE] == [BURSTABLE, second]

    def test_one_pod_is_read_itself(self):
        (found,) = chosen(Role.ONLINE, pod(BURSTABLE, "a"))
        assert found.stalled == f"{BURSTABLE}/poda"

    def test_guaranteed_pods_are_read_themselves(self):
        assert len(chosen(Role.ONLINE, *pods("kubepods", 3, Role.ONLINE))) == 3

    def test_a_container_with_a_quota_is_read_with_its_throttling(self):
        limited, plain = ContainerFacts("p/limited", limited=True), ContainerFacts("p/plain")
        found = chosen(Role.ONLINE, PodFacts("p", Role.ONLINE, (limited, plain)))
        assert found == [
            Group(Role.ONLINE, stalled="p/limited", throttled=("p/limited", "p")),
            Group(Role.ONLINE, stalled="p/plain"),
        ]

    def test_a_pod_off_the_pools_cpus_is_marked_so(self):
        (found,) = chosen(Role.ONLINE, pod(BURSTABLE, "a", shares_box=False))
        assert not found.shares_box


def tiers(*pods: TierFacts) -> list[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    """Return (tier, added cgroups, subtracted cgroups) of each group."""
    found = groups.choose_tiers(("kubepods",), pods)
    assert {group.role for group in found} <= {Role.TIER}
    return [(group.tier, group.add, group.less) for group in found]


def members(parent: str, tier: str, count: int) -> tuple[TierFacts, ...]:
    return tuple(TierFacts(f"{parent}/pod{tier}{n}", tier) for n in range(count))


class TestTiers:
    def test_a_qos_cgroup_of_one_tier_stands_for_all(self):
        assert tiers(*members(BURSTABLE, "gold", 9)) == [("gold", (BURSTABLE,), ())]

    def test_the_few_others_in_it_are_taken_off(self):
        other, two = TierFacts(f"{BURSTABLE}/podx"), members(BURSTABLE, "gold", 2)
        assert tiers(other, *members(BURSTABLE, "share", 9), *two) == [
            ("share", (BURSTABLE,), (other.path, *(pod.path for pod in two))),
            *(("gold", (pod.path,), ()) for pod in two),
        ]

    def test_two_cgroups_are_fewer_than_three(self):
        other = TierFacts(f"{BURSTABLE}/podx")
        assert tiers(other, *members(BURSTABLE, "gold", 3)) == [("gold", (BURSTABLE,), (other.path,))]

    def test_one_member_is_read_itself(self):
        assert tiers(*members(BURSTABLE, "gold", 1)) == [("gold", (f"{BURSTABLE}/podgold0",), ())]

    def test_guaranteed_pods_are_read_themselves(self):
        assert len(tiers(*members("kubepods", "gold", 9))) == 9

    def test_a_pod_of_several_tiers_is_read_by_container(self):
        mixed = TierFacts(f"{BURSTABLE}/podx", containers=(("x/a", "gold"), ("x/b", "share")))
        assert tiers(mixed) == [("gold", ("x/a",), ()), ("share", ("x/b",), ())]

    def test_a_qos_cgroup_with_containers_straight_in_it_stands_for_nobody(self):
        straight = TierFacts("", containers=((f"{BURSTABLE}/c", "share"),))
        found = tiers(straight, *members(BURSTABLE, "share", 9))
        assert len(found) == 10
        assert ("share", (f"{BURSTABLE}/c",), ()) in found

    def test_a_sandbox_that_was_made_anew_is_counted_once(self):
        pods = members(BURSTABLE, "share", 5)
        assert tiers(*pods, TierFacts(pods[0].path)) == [("share", (BURSTABLE,), ())]

    def test_who_is_in_no_tier_is_not_read(self):
        assert tiers(TierFacts(f"{BEST_EFFORT}/podx"), TierFacts("")) == []


class TestMixed:
    def test_a_mixed_pods_online_containers_are_read_for_stall(self):
        mixed = pod(BURSTABLE, "mixed", Role.ONLINE, ContainerFacts("p/a"), ContainerFacts("p/b", boxed=True))
        assert chosen(Role.ONLINE, mixed) == [Group(Role.ONLINE, stalled="p/a")]

    def test_its_qos_cgroup_stands_for_nobody(self):
        mixed = pod(BURSTABLE, "mixed", Role.ONLINE, ContainerFacts("p/b", boxed=True))
        found = chosen(Role.ONLINE, mixed, *pods(BURSTABLE, 2, Role.ONLINE))
        assert [group.stalled for group in found] == [one.path for one in pods(BURSTABLE, 2, Role.ONLINE)]


class TestApart:
    def test_a_sidecar_of_a_container_on_owned_cpus_is_online(self):
        main, sidecar = ContainerFacts("p/main", apart=True), ContainerFacts("p/init")
        together = PodFacts("p", Role.ONLINE, (main, sidecar))
        assert chosen(Role.DEDICATED, together) == [Group(Role.DEDICATED, ("p/main",), shares_box=False)]
        assert chosen(Role.ONLINE, together) == [Group(Role.ONLINE, stalled="p/init")]

    @pytest.mark.parametrize("role", [Role.ONLINE, Role.SYSTEM])
    def test_a_pod_on_owned_cpus_is_subtracted_whole(self, role):
        members = ContainerFacts("p/a", apart=True), ContainerFacts("p/b", apart=True, limited=True)
        facts = PodFacts("p", role, members, apart=True)
        assert chosen(Role.DEDICATED, facts) == [Group(Role.DEDICATED, ("p",), shares_box=False)]
        assert chosen(Role.ONLINE, facts) == []

    def test_a_qos_cgroup_less_a_few_stands_for_all(self):
        other = pod(BURSTABLE, "other")
        found = chosen(Role.DEDICATED, other, *pods(BURSTABLE, 50, Role.SYSTEM, apart=True))
        assert found == [Group(Role.DEDICATED, (BURSTABLE,), (other.path,), shares_box=False)]

    def test_a_pod_less_one_container_stands_for_all(self):
        known = *containers("own", 300, apart=True), ContainerFacts("p/other")
        found = chosen(Role.DEDICATED, PodFacts("p", Role.ONLINE, known))
        assert found == [Group(Role.DEDICATED, ("p",), ("p/other",), shares_box=False)]

    def test_a_pod_known_in_part_stands_for_none(self):
        known = *containers("own", 3, apart=True), ContainerFacts("p/other")
        found = chosen(Role.DEDICATED, PodFacts("p", Role.SYSTEM, known, is_whole=False))
        assert [group.add for group in found] == [(one.path,) for one in known[:3]]

    @pytest.mark.parametrize("is_whole", [True, False], ids=["whole", "in part"])
    @pytest.mark.parametrize("others", [0, 1, 15, 16, 200, 399])
    @pytest.mark.parametrize("role", [Role.DEDICATED, Role.BOX])
    def test_hundreds_of_containers_cost_few_files(self, role, others, is_whole):
        kind = {"apart" if role is Role.DEDICATED else "boxed": True}
        known = *containers("own", 400 - others, **kind), *containers("other", others)
        found = chosen(role, PodFacts(f"{BURSTABLE}/p", Role.ONLINE, known, is_whole=is_whole))
        assert 0 < sum(len(group.add) + len(group.less) for group in found) <= groups.MOST_OF_A_POD

    def test_containers_straight_in_a_qos_cgroup_are_nobodys_part_of_it(self):
        straight = PodFacts(BURSTABLE, Role.SYSTEM, (ContainerFacts(f"{BURSTABLE}/c"),))
        assert len(chosen(Role.DEDICATED, straight, *pods(BURSTABLE, 9, Role.ONLINE, apart=True))) == 9
