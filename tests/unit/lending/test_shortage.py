"""With few open files, or after a refused one, a missing figure of the sampler is never zero."""

import pytest

from nri_coloc.core.readings import Role
from nri_coloc.lending.gauges import RETRY_S
from nri_coloc.lending.groups import Group
from nri_coloc.lending.run_delay import MOST_TASKS
from tests.unit.lending.fast_bed import ONE, OTHER, PODS, REST, TWO, box, online, tier


class TestShortage:
    """With few open files, sums are read first; a file that cannot be read is unknown, never zero."""

    AHEAD = MOST_TASKS + 1 + 2
    """Files that come first: the reclaim pool's beside the node's own, and the files that are kept for tasks."""

    def test_where_all_may_be_open_nobody_is_short(self, bed):
        bed.make(ONE)
        bed.sampler.watch((PODS, REST, *box(ONE)))
        bed.tick()
        assert not bed.sampler.is_short

    @pytest.mark.parametrize("missing", [OTHER, TWO])
    def test_a_remainder_with_an_unread_part_is_unknown(self, bed, missing):
        bed.make(ONE, TWO, OTHER)
        bed.use("kubepods/besteffort", 100)
        bed.may_open(2)
        bed.sampler.watch((Group(Role.BOX, ("kubepods/besteffort",), (TWO, OTHER)),))
        before = bed.one()
        assert (before.usage_us, before.gone, bed.sampler.is_short) == (None, False, True)
        bed.tree.remove(missing)
        after = bed.tick(seconds=RETRY_S)[-1]
        assert (after.usage_us, after.key == before.key) == (100, False)

    def test_a_sum_that_is_readable_again_keeps_its_key(self, bed):
        bed.make(ONE, TWO)
        bed.may_open(2)
        bed.sampler.watch((PODS, *box(ONE, TWO)))
        *_, hidden = bed.tick()
        bed.use(TWO, 7)
        bed.sampler.watch((PODS, *box(TWO)))
        bed.tick()
        found = [sample for sample in bed.tick(seconds=RETRY_S) if sample.key == hidden.key]
        assert [(hidden.usage_us, sample.usage_us) for sample in found] == [(None, 7)]

    def test_pods_and_system_stay_unknown_until_their_files_may_be_open(self, bed):
        bed.may_open(1)
        bed.sampler.watch((PODS, REST))
        assert [(sample.role, sample.usage_us) for sample in bed.tick()] == [
            (Role.PODS, 0),
            (Role.SYSTEM, None),
        ]

    @pytest.mark.parametrize("role", [Role.BOX, Role.DEDICATED])
    def test_an_unreadable_group_makes_the_look_unknown(self, bed, role):
        bed.make(ONE)
        bed.may_open(3)
        bed.sampler.watch((PODS, REST, Group(role, (ONE,))))
        bed.tick()
        assert bed.look() is None

    def test_those_in_turn_are_heard_with_no_file_left_open(self, bed):
        bed.make(ONE, TWO, OTHER)
        bed.may_open(self.AHEAD)
        bed.sampler.watch((PODS, REST, *online(ONE, TWO, OTHER)))
        heard = [sample.stalled_us for sample in bed.tick() if sample.role is Role.ONLINE]
        assert (heard, bed.sampler.open_files, bed.sampler.is_short) == ([0, 0, 0], 3, True)
        look = bed.look()
        assert look is not None
        assert len(look.online) == 3
        assert bed.sampler.open_files == 3

    def test_they_give_way_to_a_member_of_the_box_that_comes(self, bed):
        bed.make(ONE, TWO, OTHER)
        bed.may_open(self.AHEAD + 2)
        bed.sampler.watch((PODS, REST, *online(ONE, TWO)))
        bed.tick()
        assert (bed.sampler.open_files, bed.sampler.is_short) == (5, False)
        bed.use(OTHER, 9)
        bed.sampler.watch((PODS, REST, *box(OTHER), *online(ONE, TWO)))
        assert [s.usage_us for s in bed.tick() if s.role is Role.BOX] == [9]
        assert (bed.sampler.open_files, bed.sampler.is_short) == (5, True)

    def test_the_end_of_an_unopened_cgroup_is_seen(self, bed):
        bed.make(ONE)
        bed.may_open(0)
        bed.sampler.watch(tier(ONE))
        alive = bed.one()
        bed.tree.remove(ONE)
        last = bed.one()
        assert (alive.usage_us, last.key, last.gone) == (0, alive.key, True)
        assert bed.tick() == ()

    def test_pressure_and_throttling_that_cannot_be_read_are_unknown(self, bed):
        bed.make(ONE)
        bed.stall(ONE, 700)
        for name in ("cpu.pressure", "cpu.stat"):
            file = bed.tree.folder(name, ONE) / name
            file.unlink()
            file.mkdir()
        bed.sampler.watch((Group(Role.ONLINE, stalled=ONE, throttled=(ONE,)),))
        sample = bed.one()
        assert (sample.stalled_us, sample.throttled_us, sample.gone) == (None, None, False)
