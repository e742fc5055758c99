"""core/settings.py: the defaults agree with the table in the design."""

import pytest

from nri_coloc.core.settings import ClassTuning, Settings, Tuning, default_classes
from nri_coloc.core.workload import QoSClass


def test_only_reclaimed_pods_are_turned_down_by_default():
    classes = default_classes()
    assert classes.keys() == set(QoSClass)
    assert classes[QoSClass.RECLAIMED] == ClassTuning(cpu_shares=2, io_weight=10, oom_score_adj=1000)
    assert classes[QoSClass.SHARED] == classes[QoSClass.SYSTEM] == ClassTuning()


def test_a_dedicated_pod_requests_a_cpu_by_default():
    assert default_classes()[QoSClass.DEDICATED] == ClassTuning(min_request=1000)


def test_each_tuning_has_a_table_of_its_own():
    assert Tuning().classes is not Tuning().classes


def test_the_defaults_of_the_settings_hold_the_defaults_of_the_tuning():
    assert Settings().tuning == Tuning()


@pytest.mark.parametrize(
    ("settings", "has"),
    [
        (ClassTuning(memory_high="0"), True),
        (ClassTuning(memory_low="50%"), True),
        (ClassTuning(memory_min="1Gi"), True),
        (ClassTuning(cpu_shares=2, io_weight=1), False),
    ],
    ids=["high", "low", "min", "none"],
)
def test_a_class_has_memory_if_any_value_of_it_is_set(settings, has):
    assert settings.has_memory is has
