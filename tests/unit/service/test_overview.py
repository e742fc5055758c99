"""service/overview.py: the node is described in true words in each of its states."""

from datetime import UTC, datetime
from typing import Any

import pytest

from nri_coloc.service import overview

NOW = datetime(2026, 1, 1, 0, 0, 12, tzinfo=UTC)
GIB = 1 << 30


def container(name: str, qos: str = "shared", pool: str = "share", **values: Any) -> dict[str, Any]:
    known = {"id": name, "namespace": "shop", "pod": name, "container": "app", "class": qos, "pool": pool}
    return {**known, "cpus": "2-7", "actual_cpus": "2-7", "mems": "0", "exclusive": False, **values}


WEB = container("web", "dedicated", "dedicated", cpus="0-1", actual_cpus="0-1", exclusive=True)
JOB = container("job", "reclaimed", "reclaim", cpus="4-7", actual_cpus="4-7")


ALL_OF_IT = {"state": "Offline", "factor": 1.0, "until": None, "because": "no windows", "switch": "on"}


def state(*containers: dict[str, Any], mode: str = "enforce", **cpus: str) -> dict[str, Any]:
    sets = {"reserved": "", "dedicated": "0-1", "system": "2-7", "share": "2-7", "reclaim": "4-7", **cpus}
    members = [each["pool"] for each in containers]
    return {
        "mode": mode,
        "node": {"cpus": "0-7", "numa": [{"id": 0, "cpus": "0-7", "memory_bytes": GIB}]},
        "pools": {name: {"cpus": each, "members": members.count(name)} for name, each in sets.items()},
        "containers": list(containers),
        "lending": ALL_OF_IT,
    }


def capacity(reason: str = "online_use", **values: Any) -> dict[str, Any]:
    figures = {"cpu_milli": 5200, "memory_bytes": 31 * GIB, "headroom_cpu_milli": 4100}
    more = {"headroom_memory_bytes": 30 * GIB, "online_cpu_milli": 1900, "at": "2026-01-01T00:00:00Z"}
    return {**figures, **more, "reason": reason, **values}


def nothing(reason: str) -> dict[str, Any]:
    zeros = ("cpu_milli", "memory_bytes", "headroom_cpu_milli", "headroom_memory_bytes", "online_cpu_milli")
    return capacity(reason, **dict.fromkeys(zeros, 0))


def ready(**problems: str) -> dict[str, Any]:
    names = ("connected", "synchronised", "readings", "config")
    checks = {name: {"ok": name not in problems, "detail": problems.get(name, "")} for name in names}
    return {"ready": not problems, "checks": checks}


def signs(shown: dict[str, Any]) -> str:
    owner_of = overview.layout(shown).owner_of
    return "".join(owner_of[cpu].sign for cpu in sorted(owner_of))


def head(shown: dict[str, Any], offered: dict[str, Any] | None = None, **problems: str) -> overview.Head:
    return overview.head(shown, offered or capacity(), ready(**problems), NOW)


def facts(shown: dict[str, Any], offered: dict[str, Any] | None = None, **problems: str) -> str:
    return "\n".join(head(shown, offered, **problems).facts)


class TestOwners:
    def test_lent_cpus_are_marked_apart(self):
        assert signs(state(WEB, JOB)) == "aa..~~~~"

    def test_without_reclaimed_pods_nothing_is_lent(self):
        assert signs(state(WEB)) == "aa......"

    def test_cgroups_outside_kubernetes_are_lent_to(self):
        assert signs({**state(WEB), "host_groups": ["yarn"]}) == "aa..~~~~"

    @pytest.mark.parametrize(
        ("cpus", "expected"),
        [
            ({"share": "2-5", "reclaim": "6-7"}, "aa....=="),
            ({"share": "4-7", "gold": "2-3"}, "aaAA~~~~"),
            ({"share": "4-7", "reserved": "2-3"}, "aa##~~~~"),
            ({"share": "4-7"}, "aa--~~~~"),
            ({"gold": "2-7"}, "aa..~~~~"),
        ],
        ids=["partition", "a pool of its own", "reserved", "in no pool", "a name over share"],
    )
    def test_each_pool_has_a_sign(self, cpus, expected):
        assert signs(state(WEB, JOB, **cpus)) == expected

    def test_the_legend_names_each_owner(self):
        legend = overview.layout(state(WEB, JOB)).legend
        assert [(owner.sign, owner.name, cpus) for owner, cpus in legend.items()] == [
            ("a", "shop/web/app", "0-1"),
            (".", "online pods (pool share)", "2-3"),
            ("~", "online pods, lent to reclaimed pods", "4-7"),
        ]

    def test_many_owners_share_the_last_sign(self):
        many = [container(str(n), "dedicated", "dedicated", cpus=str(n), exclusive=True) for n in range(30)]
        shown = state(*many, share="30", reclaim="30") | {"node": {"cpus": "0-30", "numa": []}}
        assert signs(shown)[24:] == "yz++++."


class TestContainers:
    def row(self, one: dict[str, Any], mode: str = "enforce") -> tuple[str, str, bool]:
        row = overview.layout(state(one, mode=mode)).rows[0]
        return row.cpus, row.read_back, row.warns

    def test_an_owner_is_told(self):
        assert self.row(WEB) == ("0-1, its own", "0-1", False)

    def test_a_dedicated_one_in_share_stands_out(self):
        late = container("late", "dedicated", "share", waits_for="2 CPUs of its own")
        assert self.row(late) == ("2-7, none of its own; waits for 2 CPUs of its own", "2-7", True)
        assert head(state(WEB, late)).warnings == ("waiting: shop/late/app for 2 CPUs of its own",)

    def test_limited_containers_are_named_with_their_limits(self):
        job = {**JOB, "throttled": {"io.max": "1.0 MiB/s"}}
        hog = container("hog", "shared", "share", degraded={"quota": "3.25 cores"})
        assert head(state(job, hog)).warnings == (
            "limited because online pods wait: shop/job/app (io.max=1.0 MiB/s), shop/hog/app (quota=3.25 cores)",
        )

    def test_an_init_container_in_share_is_no_warning(self):
        assert self.row(container("init", "dedicated", "share")) == ("2-7, none of its own", "2-7", False)

    def test_a_sidecar_is_on_its_main_containers(self):
        side = container("side", "dedicated", "dedicated", cpus="0-1", actual_cpus="0-1")
        assert self.row(side) == ("0-1, its main container's", "0-1", False)

    def test_hands_off_is_the_runtimes_choice(self):
        assert self.row(container("own", cpus="")) == ("left to the runtime", "2-7", False)

    def test_other_cpus_than_decided_stand_out(self):
        moved = container("moved", actual_cpus="0-7")
        assert self.row(moved) == ("2-7", "0-7, differs", True)
        assert head(state(moved)).warnings == ("CPUs read back differ from those decided: shop/moved/app",)

    def test_an_observer_warns_of_no_difference(self):
        moved = container("moved", actual_cpus="0-7")
        assert self.row(moved, "observe") == ("2-7", "0-7", False)
        assert head(state(moved, mode="observe")).warnings == ()

    def test_unread_cpus_are_unknown(self):
        lost = container("lost", actual_cpus="", actual_cpus_unknown="cannot read x: EIO")
        assert self.row(lost) == ("2-7", "unknown: cannot read x: EIO", True)


class TestFacts:
    def test_amounts_have_units_and_an_age(self):
        assert facts(state(WEB, JOB)).splitlines() == [
            "online pods use 1.9 cores; headroom (may be lent now): 4.1 cores, memory 30.0 GiB",
            "lent: CPUs 4-7 (4 CPUs) to 1 reclaimed container",
            "advertised capacity: 5.2 cores, 31.0 GiB (online use; measured 12 s ago)",
        ]

    def test_a_pool_beyond_the_headroom_is_explained(self):
        told = facts(state(WEB, JOB), capacity(headroom_cpu_milli=0))
        assert "headroom (may be lent now): 0.0 cores" in told
        assert (
            "CPUs 4-7 (4 CPUs) to 1 reclaimed container; beyond the headroom: one core always stays" in told
        )

    def test_without_reclaimed_pods_nothing_is_lent(self):
        assert "lent: nothing, there is no reclaimed pod" in facts(state(WEB))

    def test_what_was_not_measured_is_unknown(self):
        told = facts(state(), nothing("lending_not_measured"), connected="no connection")
        assert told.splitlines() == [
            "not connected to the runtime: containers are unknown",
            "online use and headroom: unknown, nothing was measured yet",
            "lent: nothing, there is no reclaimed pod",
            "advertised capacity: nothing yet",
        ]

    def test_unknown_memory_is_no_zero(self):
        half = capacity("lending_not_measured", headroom_memory_bytes=0)
        assert "online pods use 1.9 cores" in facts(state(WEB), half)
        assert "memory unknown" in facts(state(WEB), half)

    def test_lending_off_measures_nothing(self):
        told = facts(state(WEB, JOB), nothing("lending_disabled"))
        assert told.startswith("lending is off: online use is not measured")
        assert "0.0" not in told

    def test_an_observer_lends_nothing(self):
        assert "would be lent: CPUs 4-7" in facts(state(JOB, mode="observe"))

    def test_a_pause_lends_no_more_memory(self):
        told = facts(state(JOB), capacity("lending_paused"))
        assert told.startswith("online pods use 1.9 cores; lending is paused: CPUs at the floor")
        assert "30.0 GiB" not in told

    def test_full_lending_for_good_is_no_fact(self):
        assert "by the clock" not in facts(state(JOB))

    def test_the_clock_is_shown_with_its_next_change(self):
        by_night = ALL_OF_IT | {"factor": 0.5, "until": "2026-01-01T06:00:00Z", "because": "a window is open"}
        told = facts(state(JOB) | {"lending": by_night})
        assert told.startswith(
            "lending by the clock: 50% of the headroom until 2026-01-01T06:00:00Z: a window is open\n"
        )

    def test_a_state_without_end_has_no_time(self):
        told = facts(state(JOB) | {"lending": ALL_OF_IT | {"factor": 0.0, "because": "switched off"}})
        assert told.startswith("lending by the clock: 0% of the headroom: switched off\n")

    @pytest.mark.parametrize("position", ["off", "drain"])
    def test_the_switch_is_a_warning(self, position):
        found = head(state(JOB) | {"lending": ALL_OF_IT | {"switch": position}})
        assert found.warnings == (
            f"an operator's switch is at {position}: `nri-coloc admin lending on` lends again",
        )


class TestStatus:
    def test_all_well_is_ready(self):
        assert head(state()).status == "mode enforce, ready"

    def test_an_invalid_configuration_is_told(self):
        found = head(state(), config="c.yaml:1: mode: 'fast' does not fit")
        assert found.status == "mode enforce (by the last valid configuration), not ready"
        assert found.problems == ("config: c.yaml:1: mode: 'fast' does not fit",)

    def test_an_observer_changes_nothing(self):
        assert head(state(mode="observe")).status == "mode observe: nothing is changed, ready"


@pytest.mark.parametrize(
    ("milli", "words"),
    [(0, "0.0 cores"), (20, "under 0.1 cores"), (1900, "1.9 cores"), (30_849, "30.8 cores")],
)
def test_cpu_has_a_unit(milli, words):
    assert overview.cores(milli) == words


@pytest.mark.parametrize(
    ("size", "words"), [(0, "0.0 GiB"), (512 << 20, "512 MiB"), (33_071_247_360, "30.8 GiB")]
)
def test_memory_has_a_unit(size, words):
    assert overview.amount(size) == words


@pytest.mark.parametrize(("at", "words"), [("00:00:11", "1 s ago"), ("00:00:13", "0 s ago")])
def test_an_age_is_never_negative(at, words):
    assert f"measured {words}" in facts(state(), capacity(at=f"2026-01-01T{at}Z"))


def test_an_old_measurement_is_told_in_minutes():
    assert "measured 10 min ago" in facts(state(), capacity(at="2025-12-31T23:50:00Z"))


def test_the_page_gets_numbers_of_the_legend():
    shown = overview.as_json(state(WEB, JOB), capacity(), ready(), NOW)
    assert shown["nodes"][0]["cells"] == [[0, 0], [1, 0], [2, 1], [3, 1], [4, 2], [5, 2], [6, 2], [7, 2]]
    assert [each["sign"] for each in shown["legend"]] == ["a", ".", "~"]
