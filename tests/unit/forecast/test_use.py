"""The use of each pod follows from two snapshots."""

from dataclasses import replace

import pytest

from nri_coloc.core.readings import GroupReading, MemoryReading, milli_between
from nri_coloc.forecast.use import SYSTEM, Use, uses_between
from nri_coloc.pods.replicas import OnlinePod
from tests.unit.lending.kit import GIB, group, picture

WEB = {"a": OnlinePod("shop/web")}


def test_a_rate_is_made_of_two_readings_of_one_cgroup():
    assert milli_between(group(7, 10.0, 1500), group(7, 12.0, 1500)) == 1500


@pytest.mark.parametrize(
    ("story", "before", "after"),
    [
        ("nothing before", None, group(7, 2.0)),
        ("nothing after", group(7, 2.0), None),
        ("another cgroup of that name", group(7, 1.0), group(8, 2.0)),
        ("a clock that stands", group(7, 2.0), group(7, 2.0)),
        ("a clock set back", group(7, 2.0), group(7, 1.0)),
        ("a counter set back", GroupReading(7, 1.0, 100), GroupReading(7, 2.0, 99)),
        ("unreadable before", group(7, 1.0, None), group(7, 2.0)),
        ("unreadable after", group(7, 1.0), group(7, 2.0, None)),
    ],
)
def test_anything_else_says_nothing(story, before, after):
    assert milli_between(before, after) is None


def test_an_online_pod_has_its_rate_and_its_working_set():
    found = uses_between(
        picture(0.0, {"a": group(7, 0.0)}), picture(10.0, {"a": group(7, 10.0, 400, 2 * GIB)}), WEB
    )
    assert found["a"] == Use("shop/web", 400, 2 * GIB)


def test_a_pod_on_its_own_cpus_counts_for_memory_only():
    own = {"a": OnlinePod("shop/db", own_cpus=True)}
    found = uses_between(picture(0.0, {"a": group(7, 0.0)}), picture(1.0, {"a": group(7, 1.0, 9, GIB)}), own)
    assert found["a"] == Use("shop/db", None, GIB)


@pytest.mark.parametrize(
    ("began", "expected"),
    [({"job": group(8, 0.0)}, 100), ({}, 400), ({"job": group(9, 0.0)}, 400)],
    ids=["it is known", "it just came", "it was created again"],
)
def test_a_lent_containers_use_is_not_its_pods(began, expected):
    before, after = picture(0.0, {"a": group(7, 0.0)}), picture(10.0, {"a": group(7, 10.0, 400)})
    before, after = replace(before, containers=began), replace(after, containers={"job": group(8, 10.0, 300)})
    mixed = {"a": OnlinePod("shop/web", lent_to=("job",))}
    assert uses_between(before, after, mixed)["a"].cpu_milli == expected


def test_a_new_cgroup_has_no_rate_yet():
    before, after = picture(0.0, {"a": group(7, 0.0)}), picture(1.0, {"b": group(8, 1.0, 9)})
    found = uses_between(before, after, {**WEB, "b": OnlinePod("shop/new")})
    assert found == {"b": Use("shop/new"), SYSTEM: Use(SYSTEM)}


def test_the_system_is_what_neither_pods_nor_reserved_cpus_used():
    before = picture(0.0, {}, group(1, 0.0), usage_us=0, reserved_usage_us=0)
    after = picture(
        10.0,
        {},
        group(1, 10.0, 3000, 5 * GIB),
        usage_us=45_000_000,
        reserved_usage_us=5_000_000,
        memory_total=16 * GIB,
        memory_free=4 * GIB,
        inactive_file=2 * GIB,
        slab_reclaimable=GIB,
    )
    assert uses_between(before, after, {})[SYSTEM] == Use(SYSTEM, 1000, 4 * GIB)


@pytest.mark.parametrize(
    ("first", "last"),
    [
        ({"reserved": 0b01, "reserved_usage_us": 0}, {"reserved": 0b11, "reserved_usage_us": 900_000}),
        ({"reserved_usage_us": None}, {"reserved_usage_us": 900_000}),
        ({"reserved_usage_us": 0}, {"reserved_usage_us": None}),
        ({"reserved_usage_us": 900_000}, {"reserved_usage_us": 0}),
    ],
    ids=["of other CPUs", "unreadable before", "unreadable after", "set back"],
)
def test_known_use_of_reserved_cpus_is_left_out(first, last):
    before = picture(0.0, {}, group(1, 0.0), usage_us=0, **first)
    after = picture(1.0, {}, group(1, 1.0), usage_us=1_000_000, **last)
    assert uses_between(before, after, {})[SYSTEM].cpu_milli == 1000


def test_a_host_group_is_the_boxs_and_not_the_systems():
    before = picture(0.0, {}, group(1, 0.0), usage_us=0)
    after = picture(10.0, {}, group(1, 10.0, 3000, 5 * GIB), usage_us=45_000_000, memory_total=16 * GIB)
    yarn, new = group(2, 10.0, 500, 2 * GIB), group(3, 10.0, 500)
    before = replace(before, host_groups={"yarn": group(2, 0.0)})
    after = replace(after, host_groups={"yarn": yarn, "new": new})
    assert uses_between(before, after, {})[SYSTEM] == Use(SYSTEM, 1000, 9 * GIB)


@pytest.mark.parametrize(
    ("story", "pods", "host", "system"),
    [
        ("as the kernel tells", {"slab_reclaimable": 3 * GIB}, {"slab_reclaimable": GIB}, 6 * GIB),
        (
            "at most what is the kernel's",
            {"anon": 2 * GIB, "file": GIB, "shared": GIB},
            {"anon": 2 * GIB},
            3 * GIB,
        ),
        ("of the present memory", {}, {}, 7 * GIB),
    ],
)
def test_slab_of_pods_and_host_groups_is_taken_off_once(story, pods, host, system):
    held = MemoryReading(5 * GIB, working_set=5 * GIB, **pods)
    lent = MemoryReading(2 * GIB, working_set=2 * GIB, **host)
    node = {"memory_total": 16 * GIB, "memory_free": 2 * GIB, "slab_reclaimable": 5 * GIB}
    after = replace(
        picture(1.0, {}, GroupReading(1, 1.0, memory=held), **node),
        host_groups={"yarn": GroupReading(2, 1.0, memory=lent)},
    )
    assert uses_between(picture(0.0, {}), after, {})[SYSTEM].memory_bytes == system


def test_pods_on_reserved_cpus_make_no_negative_system_use():
    before = picture(0.0, {}, group(1, 0.0), usage_us=0)
    after = picture(1.0, {}, group(1, 1.0, 900, 2 * GIB), usage_us=800_000, memory_total=GIB)
    assert uses_between(before, after, {})[SYSTEM] == Use(SYSTEM, 0, 0)


def test_without_the_nodes_own_counters_the_system_is_unknown():
    before = picture(0.0, {}, group(1, 0.0), usage_us=0)
    after = picture(1.0, {}, group(1, 1.0, 900, GIB), usage_us=None)
    assert uses_between(before, after, {})[SYSTEM] == Use(SYSTEM)
    assert uses_between(after, before, {})[SYSTEM] == Use(SYSTEM)


AGENT = OnlinePod("kube-system/agent", on_reserved=True)


def with_agents(at: float, reserved: int, system: int, pods: dict[str, int]):
    """Return a snapshot with this use, milli-CPU: on reserved CPUs, by the system, by each pod."""
    found = {name: group(key, at, milli) for key, (name, milli) in enumerate(pods.items())}
    used, all_of_them = (
        sum(pods.values()),
        {"reserved": 0b11, "usage_us": round((sum(pods.values()) + system) * at * 1000)},
    )
    return picture(
        at, found, group(99, at, used), reserved_usage_us=round(reserved * at * 1000), **all_of_them
    )


@pytest.mark.parametrize(
    ("story", "reserved", "system", "agent", "left"),
    [
        ("all of it ran on reserved CPUs but what the loop counts too", 1500, 100, 1500, (100, 0)),
        ("what ran there was the system's first", 1500, 1500, 1500, (1500, 0)),
        ("the system ran elsewhere too", 500, 800, 1500, (1500, 300)),
        ("more than the agent used hides nothing of others", 5000, 0, 1500, (0, 0)),
    ],
)
def test_what_an_agent_used_on_reserved_cpus_is_no_claim(story, reserved, system, agent, left):
    pods = {"agent": agent, "web": 700}
    online = {"agent": AGENT, "web": OnlinePod("shop/web")}
    found = uses_between(
        with_agents(0.0, reserved, system, pods), with_agents(10.0, reserved, system, pods), online
    )
    assert (found["agent"].cpu_milli, found[SYSTEM].cpu_milli) == left
    assert found["web"].cpu_milli == 700


def test_of_several_agents_each_gives_in_proportion_to_its_use():
    pods = {"agent": 1000, "other": 3000}
    before, after = with_agents(0.0, 2000, 0, pods), with_agents(10.0, 2000, 0, pods)
    found = uses_between(before, after, dict.fromkeys(pods, AGENT))
    assert [found[name].cpu_milli for name in pods] == [500, 1500]


def test_an_agents_unknown_use_reduces_no_other():
    before = with_agents(0.0, 1000, 0, {"agent": 1000})
    after = with_agents(10.0, 1000, 0, {"agent": 1000, "new": 0})
    found = uses_between(before, after, {"agent": AGENT, "new": AGENT})
    assert (found["agent"].cpu_milli, found["new"].cpu_milli) == (1000, None)


@pytest.mark.parametrize("pods_us", [0, 900_000], ids=["pods rest", "pods run"])
def test_a_node_whose_counter_began_anew_has_no_system_that_rests(pods_us):
    before = picture(0.0, {}, GroupReading(1, 0.0, 0), usage_us=7_000_000)
    after = picture(1.0, {}, GroupReading(1, 1.0, pods_us), usage_us=100)
    assert uses_between(before, after, {})[SYSTEM].cpu_milli is None


def test_a_nodes_clock_that_stands_gives_no_rate():
    before = picture(0.0, {}, group(1, 0.0), usage_us=0)
    after = picture(1.0, {}, group(1, 1.0, 900), usage_us=9)
    stands = replace(after, node=replace(after.node, at=0.0))
    assert uses_between(before, stands, {})[SYSTEM].cpu_milli is None
