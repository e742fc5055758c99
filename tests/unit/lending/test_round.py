"""lending/gauges.py, by way of lending/sampler.py: a tick reads sums, and samples are made of them."""

import pytest

from nri_coloc.core.readings import Look, Role
from nri_coloc.lending.gauges import AT_ONCE_S, RETRY_S
from nri_coloc.lending.groups import Group
from nri_coloc.lending.sampler import BUDGET, LEAST_IN_TURN, MOST_IN_TURN, ROUND_S, UNHURRIED, UNHURRIED_S
from nri_coloc.lending.usage import LONGEST_S
from tests.unit.lending.fast_bed import ONE, OTHER, PODS, REST, TWO, Bed, box, online


@pytest.fixture
def watching(bed):
    bed.make(ONE, TWO, OTHER)
    for path, us in (("", 900), ("kubepods", 700), ("kubepods/besteffort", 300), (OTHER, 30)):
        bed.use(path, us)
    bed.stall(TWO, 5)
    together = Group(Role.BOX, ("kubepods/besteffort",), (OTHER,))
    bed.sampler.watch((PODS, REST, together, *online(TWO)))
    return bed


def test_the_first_tick_opens_files_and_is_none(watching):
    assert watching.look() is None
    watching.tick()
    assert watching.look() is not None


def test_the_remainder_is_use_without_reclaimed_pods(watching):
    watching.tick()
    look = watching.look()
    sums = look.left_us, look.system_us, look.box_us
    assert (look.at, *sums) == (watching.now, 700 - 270, 900 - 700, 270)
    assert look.waited_us == (5,)


def test_a_host_group_is_taken_off_what_runs_beside_pods(watching):
    watching.make("yarn")
    watching.use("yarn", 60)
    watching.sampler.watch((PODS, REST, Group(Role.HOST, ("yarn",))))
    watching.tick()
    look = watching.look()
    assert (look.left_us, look.system_us, look.box_us) == (700, 200 - 60, 60)


def test_a_node_without_pods_is_looked_at_too(watching):
    watching.sampler.watch((Group(Role.PODS), Group(Role.SYSTEM, ("",))))
    read = watching.tick()
    look = watching.look()
    assert (look.left_us, look.system_us) == (0, 900)
    assert watching.sampler.samples(watching.now) == tuple(s._replace(at=watching.now) for s in read)


def test_samples_of_looks_are_those_that_a_reading_would_have_had(watching):
    read = watching.tick()
    watching.look()
    samples = watching.sampler.samples(watching.now)
    by_role = {sample.role: sample for sample in samples}
    assert len(samples) == len(read)
    assert all(by_role[sample.role] == sample._replace(at=watching.now) for sample in read)


def test_those_of_the_last_two_looks_come_before_what_is_read(watching):
    watching.tick()
    looks = [watching.look() for _ in range(3)]
    watching.use("kubepods", 800)
    samples = watching.tick()
    pods = [sample for sample in samples if sample.role is Role.PODS]
    assert [sample.at for sample in pods] == [looks[1].at, looks[2].at, watching.now]
    assert [sample.usage_us for sample in pods] == [700, 700, 800]


def test_the_use_of_online_groups_is_not_read(watching):
    watching.use(TWO, 40)
    watching.sampler.watch((PODS, REST, Group(Role.ONLINE, (TWO,), stalled=TWO)))
    assert [s.usage_us for s in watching.tick() if s.role is Role.ONLINE] == [40]
    assert watching.look().waited_us == (5,)
    (said,) = (s for s in watching.sampler.samples(watching.now) if s.role is Role.ONLINE)
    assert (said.usage_us, said.stalled_us) == (None, 5)


def test_each_group_waits_by_its_own_file(watching):
    held, other = "kubepods/burstable/held", "kubepods/burstable/other"
    watching.make(held, other)
    for path, us in ((held, 70), (other, 11)):
        watching.stall(path, us)
    watching.throttle(held, 30)
    limited = Group(Role.ONLINE, stalled=held, throttled=(held,))
    watching.sampler.watch((PODS, REST, limited, *online(other)))
    watching.tick()
    assert watching.look().waited_us == (70, 11)
    said = [s for s in watching.sampler.samples(watching.now) if s.role is Role.ONLINE]
    assert [(s.stalled_us, s.throttled_us) for s in said] == [(70, 30), (11, 0)]


def test_their_samples_are_made_once(watching):
    watching.tick()
    watching.look()
    watching.sampler.samples(watching.now)
    assert watching.sampler.samples(watching.now) == ()


def test_other_groups_are_read_one_by_one_first(watching):
    watching.tick()
    watching.sampler.watch((PODS, REST))
    assert watching.look() is None
    watching.tick()
    assert watching.look().box_us == 0


def test_of_a_cgroup_that_ends_the_next_reading_says_so(watching):
    watching.tick()
    assert watching.look() is not None
    watching.tree.remove(TWO)
    assert watching.look() is None
    *_, last = (sample for sample in watching.tick() if sample.role is Role.ONLINE)
    assert last.usage_us is None


def test_a_file_that_says_no_number_makes_it_none(watching):
    watching.tick()
    watching.tree.write("kubepods", "cpuacct.usage" if watching.tree.version == 1 else "cpu.stat", "max")
    assert watching.look() is None


def test_one_that_was_interrupted_for_long_is_read_again(watching):
    watching.tick()
    whole = watching.look()
    watching.jumps = [0.0, 2 * AT_ONCE_S]
    again = watching.look()
    assert again == whole._replace(at=watching.now)


def test_one_that_was_interrupted_for_long_twice_is_none(watching):
    watching.tick()
    watching.creeps = 2 * AT_ONCE_S
    assert watching.look() is None


def test_a_missing_pressure_file_is_tried_again_later(watching):
    file = watching.tree.folder("cpu.pressure", TWO) / "cpu.pressure"
    text = file.read_text()
    file.unlink()
    watching.tick()
    assert watching.look().waited_us == ()
    file.write_text(text)
    assert watching.look(seconds=RETRY_S) is None
    watching.tick()
    assert watching.look().waited_us == (5,)


@pytest.mark.parametrize("role", [Role.BOX, Role.DEDICATED, Role.ONLINE])
def test_an_absent_cgroup_uses_nothing_and_is_read_once_it_exists(watching, role):
    watching.sampler.watch(
        (PODS, REST, Group(role, ("late",), stalled="late" if role is Role.ONLINE else ""))
    )
    watching.tick()
    assert watching.look().left_us == 700
    assert {sample.role for sample in watching.sampler.samples(watching.now)} == {Role.PODS, Role.SYSTEM}
    watching.make("late")
    watching.use("late", 40)
    assert watching.look(seconds=RETRY_S) is None
    assert role in {sample.role for sample in watching.tick(seconds=RETRY_S)}
    assert watching.look().left_us == (700 if role is Role.ONLINE else 660)


@pytest.mark.parametrize("gone", ["kubepods", ""])
def test_without_what_is_added_up_there_is_none(bed, gone):
    bed.make("beside")
    bed.sampler.watch((PODS, Group(Role.SYSTEM, ("beside",))))
    bed.tree.remove(gone or "beside")
    bed.tick()
    assert bed.look() is None


def test_a_sum_of_which_a_part_is_not_there_is_none(watching):
    watching.sampler.watch((PODS, REST, Group(Role.BOX, ("kubepods/besteffort",), (OTHER, "late"))))
    watching.tick()
    assert watching.look() is None


def test_online_groups_beyond_the_budget_take_turns(watching):
    looks = looks_at_online(watching, 9, 3)
    keys = {sample.key for look in looks for sample in look.online}
    assert [len(look.online) for look in looks] == [BUDGET - 2] * 3
    assert len(keys) == 9


def looks_at_online(bed: Bed, pods: int, looks: int) -> list[Look]:
    """Return `looks` readings of `pods` online pods."""
    paths = [f"kubepods/burstable/pod{number}" for number in range(pods)]
    bed.make(*paths)
    bed.sampler.watch((PODS, REST, *online(*paths)))
    bed.tick()
    found = [bed.look() for _ in range(looks)]
    assert None not in found
    return [look for look in found if look is not None]


MANY = 160


def limited(bed: Bed, containers: int) -> None:
    """Watch online containers with a quota, of three files each."""
    paths = [f"kubepods/pod/{number}" for number in range(containers)]
    bed.make(*paths)
    held = (Group(Role.ONLINE, stalled=path, throttled=(path, "kubepods/pod")) for path in paths)
    bed.sampler.watch((PODS, REST, *held))
    bed.tick()


def test_a_round_keeps_to_its_budget(watching):
    limited(watching, UNHURRIED)
    looks = [watching.look(seconds=seconds) for seconds in (0.02, 0.05, 0.06, 0.06)]
    assert [len(look.online) for look in looks] == [2] * 4


@pytest.mark.parametrize(
    ("containers", "round_s", "seconds"),
    [
        pytest.param(UNHURRIED, UNHURRIED_S, 0.1, id="as many as pods, at the floor"),
        pytest.param(UNHURRIED, UNHURRIED_S, 0.5, id="as many as pods, without members"),
        pytest.param(MANY, ROUND_S, 0.05, id="many, while lent"),
        pytest.param(MANY, ROUND_S, 0.1, id="many, at the floor"),
    ],
)
def test_a_round_is_over_before_its_counters_say_nothing_about_now(watching, containers, round_s, seconds):
    limited(watching, containers)
    looks = [watching.look(seconds) for _ in range(round(round_s / seconds))]
    assert len({sample.key for look in looks for sample in look.online}) == containers
    assert round_s < LONGEST_S


def test_so_it_is_where_they_are_read_one_by_one(watching):
    limited(watching, MANY)
    heard = {s.key for _ in range(60) for s in watching.tick(seconds=0.05) if s.role is Role.ONLINE}
    assert len(heard) == MANY


def test_after_a_long_pause_a_look_reads_a_bounded_part(watching):
    limited(watching, MANY)
    assert len(watching.look(seconds=60).online) == MOST_IN_TURN / 3


def test_round_robin_readings_come_before_this_rounds(watching):
    looks = looks_at_online(watching, 40, 9)
    said = [sample for sample in watching.sampler.samples(watching.now) if sample.role is Role.ONLINE]
    assert {sample.key for sample in said} == {sample.key for look in looks for sample in look.online}
    assert len({sample.key for sample in said}) == 40
    assert [sample.at for sample in said] == sorted(sample.at for sample in said)
    assert said[-BUDGET + 2 :] == list(looks[-1].online)
    assert not [s for s in watching.sampler.samples(watching.now) if s.role is Role.ONLINE], "told once"


def test_each_round_has_all_reclaimed_cgroups(watching):
    paths = [f"kubepods/besteffort/pod{number}" for number in range(4 * BUDGET)]
    watching.make(*paths)
    for path in paths:
        watching.use(path, 3)
    watching.sampler.watch((PODS, REST, *box(*paths), *online(OTHER, TWO, ONE)))
    watching.tick()
    looks = [watching.look() for _ in range(2)]
    assert [look.box_us for look in looks] == [3 * len(paths)] * 2
    assert [len(look.online) for look in looks] == [LEAST_IN_TURN] * 2


def test_reserved_cpus_are_read_with_the_samples(watching):
    watching.sampler.watch((PODS, REST, Group(Role.RESERVED, cpus=1)))
    (watching.folder / "proc").mkdir(exist_ok=True)
    (watching.folder / "proc/stat").write_text("cpu0 5 0 0 9 0 0 0 0 0 0\n")
    watching.tick()
    assert watching.look(seconds=2) is not None
    samples = watching.sampler.samples(watching.now)
    assert [sample.role for sample in samples] == [Role.PODS, Role.SYSTEM, Role.RESERVED]
