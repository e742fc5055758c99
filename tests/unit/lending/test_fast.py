"""lending/sampler.py, gauges.py: a tick reads usage and pressure of each group, some of them round-robin."""

from pathlib import Path

import pytest

from nri_coloc.core.readings import Role, Signal
from nri_coloc.host import cgroup_layout
from nri_coloc.lending.gauges import RETRY_S
from nri_coloc.lending.groups import Group
from nri_coloc.lending.sampler import LEAST_IN_TURN
from tests.unit.lending.fast_bed import ONE, OTHER, PODS, REST, TWO, box, online, tier


class TestFigures:
    def test_usage_is_in_microseconds_with_its_folders_key(self, bed):
        bed.use("kubepods", 1_500_000)
        bed.sampler.watch((PODS,))
        sample = bed.one()
        assert (sample.role, sample.at, sample.usage_us) == (Role.PODS, bed.now, 1_500_000)
        layout = cgroup_layout.detect(str(bed.folder))
        folder = layout.cpuacct if bed.tree.version == 1 else layout.unified
        assert sample.key == Path(f"{folder}/kubepods").stat().st_ino

    def test_the_rest_of_the_node_is_what_kubepods_did_not_use(self, bed):
        bed.use("", 5_000_000)
        bed.use("kubepods", 1_500_000)
        bed.sampler.watch((REST,))
        sample = bed.one()
        assert sample.usage_us == 3_500_000
        assert sample.key < 0

    def test_of_no_cgroup_nothing_is_used(self, bed):
        bed.sampler.watch((Group(Role.PODS),))
        first, second = bed.one(), bed.one()
        assert (first.usage_us, second.usage_us, first.key) == (0, 0, second.key)

    def test_a_remainder_never_falls(self, bed):
        bed.sampler.watch((REST,))
        seen = []
        for root, pods in ((100, 30), (110, 45), (130, 50)):
            bed.use("", root)
            bed.use("kubepods", pods)
            seen.append(bed.one().usage_us)
        assert seen == [70, 70, 80]

    def test_a_remainder_is_unknown_after_a_counters_restart_then_rises(self, bed):
        bed.sampler.watch((REST,))
        seen = []
        for root, pods in ((5_000, 3_000), (6_000, 3_100), (10, 3_200), (60, 3_220)):
            bed.use("", root)
            bed.use("kubepods", pods)
            seen.append(bed.one().usage_us)
        assert seen == [2_000, 2_900, None, 2_930]

    def test_a_remainder_is_unknown_while_a_part_of_it_is(self, bed):
        bed.sampler.watch((REST,))
        bed.use("", 100)
        bed.tree.write("kubepods", "cpuacct.usage" if bed.tree.version == 1 else "cpu.stat", "garbage")
        assert bed.one().usage_us is None

    def test_a_remainder_is_never_negative(self, bed):
        bed.use("kubepods", 9)
        bed.sampler.watch((REST,))
        assert bed.one().usage_us == 0

    def test_pressure_comes_with_what_the_own_quotas_held_back(self, bed):
        bed.make(ONE, f"{ONE}/app")
        bed.stall(f"{ONE}/app", 700)
        bed.throttle(f"{ONE}/app", 400)
        bed.throttle(ONE, 50)
        bed.sampler.watch((Group(Role.ONLINE, stalled=f"{ONE}/app", throttled=(f"{ONE}/app", ONE)),))
        sample = bed.one()
        assert (sample.usage_us, sample.stalled_us, sample.throttled_us) == (None, 700, 450)

    def test_a_pod_without_quotas_was_never_held_back(self, bed):
        bed.make(ONE)
        bed.sampler.watch(online(ONE))
        assert bed.one().throttled_us == 0

    def test_usage_and_pressure_of_one_cgroup_have_the_same_key(self, bed):
        bed.make(ONE)
        bed.sampler.watch(box(ONE) + online(ONE))
        first, second = bed.tick()
        assert first.key == second.key

    @pytest.mark.parametrize("text", ["", "garbage", "max", "-1"])
    def test_a_senseless_file_gives_no_figure(self, bed, text):
        name = "cpuacct.usage" if bed.tree.version == 1 else "cpu.stat"
        bed.sampler.watch((PODS, REST))
        bed.tick()
        (bed.tree.folder(name, "kubepods") / name).write_text(text)
        assert [sample.usage_us for sample in bed.tick()] == [None, None]

    def test_without_pressure_files_the_stall_is_unknown(self, bed):
        bed.make(ONE)
        (bed.tree.folder("cpu.pressure", ONE) / "cpu.pressure").unlink()
        bed.sampler.watch(online(ONE))
        assert bed.one().stalled_us is None


class TestRunDelay:
    """Where the kernel has no PSI, the run-queue delay of chosen tasks is used."""

    @pytest.fixture
    def deaf(self, bed):
        bed.make(ONE, TWO)
        for path in (ONE, TWO):
            (bed.tree.folder("cpu.pressure", path) / "cpu.pressure").unlink()
        bed.sampler.watch(online(ONE, TWO))
        bed.tick()
        self.wait(bed, 7, 0)
        return bed

    @staticmethod
    def wait(bed, task: int, us: int) -> None:
        folder = bed.folder / f"proc/{task}"
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "schedstat").open("r+" if (folder / "schedstat").exists() else "w") as stream:
            stream.write(f"1000 {us * 1000:<12} 3\n")

    def test_the_groups_without_pressure_are_told(self, deaf):
        assert deaf.sampler.without_pressure == {ONE, TWO}

    def test_where_the_kernel_tells_pressure_no_task_is_read(self, bed):
        bed.make(ONE)
        bed.stall(ONE, 700)
        bed.sampler.watch(online(ONE))
        self.wait(bed, 7, 30)
        bed.sampler.follow({ONE: (7,)})
        sample = bed.one()
        assert (sample.stalled_us, sample.signal) == (700, Signal.PSI)
        assert bed.sampler.without_pressure == frozenset()

    def test_a_group_without_a_wanted_file_is_not_reported(self, bed):
        bed.sampler.watch((PODS,))
        bed.tick()
        assert bed.sampler.without_pressure == frozenset()

    def test_its_tasks_waiting_stands_in(self, deaf):
        deaf.sampler.follow({ONE: (7,)})
        deaf.tick()
        self.wait(deaf, 7, 30)
        first, second = sorted(deaf.tick(), key=lambda sample: sample.stalled_us is None)
        assert (first.stalled_us, first.signal) == (30, Signal.RUN_DELAY)
        assert second.stalled_us is None

    def test_what_was_counted_goes_on_when_others_are_followed(self, deaf):
        deaf.sampler.follow({ONE: (7,)})
        deaf.tick()
        self.wait(deaf, 7, 30)
        deaf.tick()
        self.wait(deaf, 8, 10**6)
        deaf.sampler.follow({ONE: (7, 8)})
        deaf.tick()
        self.wait(deaf, 8, 10**6 + 5)
        assert [sample.stalled_us for sample in deaf.tick() if sample.signal is Signal.RUN_DELAY] == [35]

    def test_a_group_that_is_followed_no_more_keeps_no_file_open(self, deaf):
        before = deaf.sampler.open_files
        deaf.sampler.follow({ONE: (7,)})
        deaf.tick()
        assert deaf.sampler.open_files == before + 1
        deaf.sampler.follow({})
        deaf.tick()
        assert deaf.sampler.open_files == before

    def test_looks_read_it_and_leave_out_whoever_nothing_is_told_of(self, deaf):
        deaf.sampler.watch((PODS, REST, *online(ONE, TWO)))
        deaf.tick()
        deaf.sampler.follow({ONE: (7,)})
        assert deaf.look() is None
        deaf.tick()
        self.wait(deaf, 7, 30)
        found = deaf.look()
        assert found is not None
        assert [(sample.stalled_us, sample.signal) for sample in found.online] == [(30, Signal.RUN_DELAY)]

    def test_the_same_choice_anew_disturbs_no_look(self, deaf):
        deaf.sampler.watch((PODS, REST, *online(ONE)))
        deaf.tick()
        deaf.sampler.watch((PODS, REST, *online(ONE)))
        assert deaf.look() is not None

    def test_a_late_pressure_file_is_read_again(self, deaf):
        deaf.sampler.watch((PODS, REST, *online(ONE)))
        deaf.tick()
        before = deaf.look()
        assert before is not None
        assert before.waited_us == ()
        (deaf.tree.folder("cpu.pressure", ONE) / "cpu.pressure").write_text("some avg10=0.00 total=70\n")
        assert deaf.look(RETRY_S) is None
        deaf.tick()
        found = deaf.look()
        assert found is not None
        assert found.waited_us == (70,)


class TestReserved:
    def test_it_reads_the_reserved_cpus_busy_time_each_second(self, bed):
        (bed.folder / "proc").mkdir()
        (bed.folder / "proc/stat").write_text("cpu  9 0 0 0\ncpu0 3 0 0 50\ncpu1 4 0 0 50\ncpu2 5 0 0 50\n")
        bed.sampler.watch((Group(Role.RESERVED, cpus=0b11),))
        assert bed.one().usage_us == 70_000
        assert bed.tick() == ()
        assert len(bed.tick(seconds=1.0)) == 1

    def test_interrupts_and_stolen_time_count_as_the_root_counts_them(self, bed):
        (bed.folder / "proc").mkdir()
        (bed.folder / "proc/stat").write_text("cpu0 1 2 3 50 0 10 20 30 0 0\n")
        bed.sampler.watch((Group(Role.RESERVED, cpus=0b1),))
        assert bed.one().usage_us == (60_000 if bed.tree.version == 1 else 660_000)

    def test_another_set_of_cpus_has_another_key(self, bed):
        (bed.folder / "proc").mkdir()
        (bed.folder / "proc/stat").write_text("cpu0 3 0 0 50\ncpu1 4 0 0 50\n")
        keys = set()
        for cpus in (0b01, 0b11):
            bed.sampler.watch((Group(Role.RESERVED, cpus=cpus),))
            keys.add(bed.tick(seconds=2)[-1].key)
        assert len(keys) == 2

    def test_nothing_is_subtracted_twice(self, bed):
        (bed.folder / "proc").mkdir()
        (bed.folder / "proc/stat").write_text("cpu0 3 0 0 50\ncpu1 4 0 0 50\n")
        bed.sampler.watch((Group(Role.RESERVED, cpus=0b01),))
        former = bed.one()
        bed.sampler.watch((Group(Role.RESERVED, cpus=0b11),))
        once_more, first = bed.tick(seconds=2)
        assert (once_more.key, first.usage_us) == (former.key, 70_000)
        (last,) = bed.tick()
        assert (last.key, last.role, last.gone) == (former.key, Role.RESERVED, True)

    def test_without_proc_stat_there_is_no_sample(self, bed):
        bed.sampler.watch((Group(Role.RESERVED, cpus=1),))
        assert bed.tick() == ()


class TestTurns:
    def test_everything_is_read_where_the_budget_allows(self, bed):
        bed.make(ONE, TWO, OTHER)
        bed.sampler.watch((PODS, REST, *box(ONE, TWO), *online(OTHER)))
        assert [s.role for s in bed.tick()] == [Role.PODS, Role.SYSTEM, Role.BOX, Role.BOX, Role.ONLINE]

    @pytest.mark.parametrize("role", [Role.BOX, Role.HOST, Role.DEDICATED, Role.SYSTEM])
    def test_what_is_added_up_takes_no_turns(self, bed, role):
        paths = [f"kubepods/besteffort/pod{number}" for number in range(40)]
        bed.make(*paths)
        bed.sampler.watch((PODS, *(Group(role, (path,)) for path in paths)))
        assert [len(bed.tick()) for _ in range(2)] == [41, 41]

    def test_many_files_leave_others_their_turns(self, bed):
        paths = [f"kubepods/besteffort/pod{number}" for number in range(24)]
        bed.make(*paths)
        bed.sampler.watch((PODS, *box(*paths[:20]), *online(*paths[20:])))
        heard = [[sample.key for sample in bed.tick() if sample.role is Role.ONLINE] for _ in range(2)]
        assert list(map(len, heard)) == [LEAST_IN_TURN] * 2
        assert len({key for keys in heard for key in keys}) == 4

    def test_beyond_it_members_take_turns_and_all_come_within_a_round(self, bed):
        paths = [f"kubepods/besteffort/pod{number}" for number in range(12)]
        bed.make(*paths)
        bed.sampler.watch((PODS, *online(*paths)))
        ticks = [bed.tick(budget=5) for _ in range(3)]
        assert [len(tick) for tick in ticks] == [5, 5, 5]
        assert len({sample.key for tick in ticks for sample in tick}) == 13

    def test_each_queue_gets_its_part(self, bed):
        paths = [f"kubepods/besteffort/pod{number}" for number in range(40)]
        bed.make(*paths)
        bed.sampler.watch((PODS, *tier(*paths[:20]), *online(*paths[20:])))
        roles = [sample.role for _ in range(6) for sample in bed.tick(budget=7)]
        assert roles.count(Role.TIER) == roles.count(Role.ONLINE) == 18

    def test_a_short_queue_leaves_its_part_to_the_others(self, bed):
        paths = [f"kubepods/besteffort/pod{number}" for number in range(20)]
        bed.make(ONE, *paths)
        bed.sampler.watch((*tier(ONE), *online(*paths)))
        roles = [sample.role for sample in bed.tick(budget=8)]
        assert (roles.count(Role.TIER), roles.count(Role.ONLINE)) == (1, 7)

    def test_however_small_the_budget_something_is_read_in_turn(self, bed):
        bed.make(ONE, TWO)
        bed.sampler.watch((PODS, REST, *tier(ONE), *online(TWO)))
        roles = {sample.role for _ in range(2) for sample in bed.tick(budget=0)}
        assert roles == {Role.PODS, Role.SYSTEM, Role.TIER, Role.ONLINE}

    def test_nothing_to_watch_is_nothing_read(self, bed):
        assert bed.tick() == ()


class TestTiers:
    def test_a_sample_says_whose_members_use_it_is(self, bed):
        bed.make(ONE)
        bed.use(ONE, 7)
        bed.sampler.watch((Group(Role.TIER, (ONE,), tier="gold"),))
        sample = bed.one()
        assert (sample.role, sample.tier, sample.usage_us) == (Role.TIER, "gold", 7)

    def test_they_take_turns_within_the_budget(self, bed):
        paths = [f"kubepods/pod{n}" for n in range(12)]
        bed.make(*paths)
        bed.sampler.watch(tier(*paths))
        rounds = [{sample.key for sample in bed.tick(budget=4)} for _ in range(3)]
        assert list(map(len, rounds)) == [4, 4, 4]
        assert len(set.union(*rounds)) == 12
