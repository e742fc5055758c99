"""model/tuning.py: without a configuration, the design's table holds."""

from nri_coloc.model.tuning import ClassTuning, Settings, Tuning, default_classes
from nri_coloc.model.workload import QoSClass


def test_only_reclaimed_pods_are_turned_down_by_default():
    classes = default_classes()
    assert classes.keys() == set(QoSClass)
    assert classes[QoSClass.RECLAIMED] == ClassTuning(cpu_shares=2, io_weight=10, oom_score_adj=1000)
    assert {classes[qos] for qos in QoSClass if qos is not QoSClass.RECLAIMED} == {ClassTuning()}


def test_each_tuning_has_a_table_of_its_own():
    assert Tuning().classes is not Tuning().classes


def test_the_defaults_of_the_settings_hold_the_defaults_of_the_tuning():
    assert Settings().tuning == Tuning()
