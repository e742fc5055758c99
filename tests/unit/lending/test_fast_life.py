"""lending/sampler.py, gauges.py: files and keys follow cgroups that end, come again or are not chosen any more."""

from nri_coloc.core.readings import Role, Sample
from nri_coloc.host import cgroup_layout
from nri_coloc.lending.gauges import RETRY_S
from nri_coloc.lending.groups import Group
from nri_coloc.lending.sampler import FastSampler
from tests.unit.lending.fast_bed import ONE, OTHER, PODS, REST, TWO, Bed, box, online


class TestLife:
    def test_an_ended_cgroup_is_reported_once_and_its_files_are_closed(self, bed):
        bed.make(ONE)
        bed.use(ONE, 5)
        bed.sampler.watch(box(ONE))
        alive = bed.one()
        bed.tree.remove(ONE)
        assert bed.one() == Sample(alive.key, Role.BOX, bed.now, gone=True)
        assert bed.sampler.open_files == 0
        assert bed.tick() == ()

    def test_a_cgroup_made_anew_under_the_same_path_has_another_key(self, bed):
        bed.make(ONE)
        bed.sampler.watch(box(ONE))
        keys = {bed.one().key}
        for _ in range(4):
            bed.tree.remove(ONE)
            bed.make(ONE)
            bed.tick()
            keys.add(bed.one().key)
        assert len(keys) == 5

    def test_a_cgroup_that_comes_late_is_found_after_a_while(self, bed):
        bed.sampler.watch(box(ONE))
        assert bed.tick() == ()
        bed.make(ONE)
        assert bed.tick() == ()
        assert len(bed.tick(seconds=RETRY_S)) == 1

    def test_a_late_pressure_file_keeps_its_key(self, bed):
        bed.make(ONE)
        file = bed.tree.folder("cpu.pressure", ONE) / "cpu.pressure"
        text = file.read_text()
        file.unlink()
        bed.sampler.watch(online(ONE))
        early = bed.one()
        file.write_text(text)
        (late,) = bed.tick(seconds=RETRY_S)
        assert (early.stalled_us, late.stalled_us) == (None, 0)
        assert early.key == late.key

    def test_subtracted_use_stays_subtracted_after_its_end(self, bed):
        before = self.less_other(bed)
        bed.tree.remove(OTHER)
        bed.use("kubepods/besteffort", 130)
        after = bed.one()
        assert (before.usage_us, after.usage_us, after.key) == (70, 100, before.key)

    def test_a_new_one_in_its_place_has_another_key(self, bed):
        before = self.less_other(bed)
        bed.tree.remove(OTHER)
        bed.make(OTHER)
        assert bed.one().gone
        after = bed.one()
        assert (after.usage_us, after.key == before.key) == (100, False)

    def less_other(self, bed: Bed) -> Sample:
        bed.make(ONE, OTHER)
        bed.use("kubepods/besteffort", 100)
        bed.use(OTHER, 30)
        bed.sampler.watch((Group(Role.BOX, ("kubepods/besteffort",), (OTHER,)),))
        return bed.one()

    def test_a_sum_whose_whole_ends_is_gone(self, bed):
        bed.make("family", "family/one")
        bed.sampler.watch((Group(Role.BOX, ("family",), ("family/one",)),))
        bed.tick()
        bed.tree.remove("family/one")
        bed.tree.remove("family")
        assert bed.one().gone

    def test_groups_that_stay_keep_their_files_and_keys(self, bed):
        bed.make(ONE, TWO)
        bed.sampler.watch((PODS, *box(ONE, TWO)))
        before = {sample.key for sample in bed.tick()}
        bed.sampler.watch((PODS, *box(ONE)))
        bed.tick()
        after = {sample.key for sample in bed.tick() if sample.usage_us is not None}
        assert after < before
        assert bed.sampler.open_files == 2

    def test_an_unchosen_group_is_read_once_more(self, bed):
        bed.make(ONE, TWO)
        bed.sampler.watch(box(ONE, TWO))
        stays, leaves = (sample.key for sample in bed.tick())
        bed.use(TWO, 7)
        bed.sampler.watch(box(ONE))
        assert [(sample.key, sample.usage_us) for sample in bed.tick()] == [(leaves, 7), (stays, 0)]
        assert [(sample.key, sample.gone) for sample in bed.tick()] == [(leaves, True), (stays, False)]
        assert [sample.key for sample in bed.tick()] == [stays]

    def test_so_it_is_if_its_replacements_are_only_read(self, bed):
        bed.make(ONE, TWO)
        bed.sampler.watch((PODS, REST, *box(ONE)))
        _, _, leaves = (sample.key for sample in bed.tick())
        bed.sampler.watch((PODS, REST, Group(Role.BOX, ("kubepods/besteffort",))))
        bed.tick()
        assert bed.look() is not None
        first, *others = bed.sampler.samples(bed.now)
        assert (first.key, first.gone) == (leaves, True)
        assert [sample.role for sample in others] == [Role.PODS, Role.SYSTEM, Role.BOX]

    def test_it_stays_until_its_replacements_have_a_rate(self, bed):
        bed.make(ONE, TWO)
        bed.sampler.watch(box(ONE))
        bed.tick()
        bed.sampler.watch(box(TWO))
        bed.tick()
        assert [len(bed.tick(seconds=0.003)) for _ in range(3)] == [1, 2, 1]

    def test_a_cgroup_that_is_chosen_for_something_else_is_not_gone(self, bed):
        bed.make(ONE)
        bed.sampler.watch(box(ONE))
        bed.tick()
        bed.sampler.watch((Group(Role.DEDICATED, (ONE,)),))
        bed.tick()
        assert [sample.gone for sample in bed.tick()] == [False]

    def test_kubepods_replaces_an_empty_group_with_its_first_pod(self, bed):
        bed.sampler.watch((Group(Role.PODS), Group(Role.SYSTEM, ("",))))
        former = [sample.key for sample in bed.tick()]
        bed.sampler.watch((PODS, REST))
        assert [sample.role for sample in bed.tick()] == [Role.PODS, Role.SYSTEM] * 2
        assert [sample.key for sample in bed.tick() if sample.gone] == former

    def test_of_one_that_was_never_read_there_is_nothing_to_say(self, bed):
        bed.sampler.watch(box(ONE))
        bed.tick()
        bed.sampler.watch((PODS,))
        assert [sample.role for sample in bed.tick()] == [Role.PODS]

    def test_a_layout_without_cgroups_yields_nothing(self, tmp_path):
        sampler = FastSampler(cgroup_layout.detect(str(tmp_path)), str(tmp_path))
        sampler.watch((PODS, REST, *online(ONE)))
        assert sampler.read(1.0) == ()
