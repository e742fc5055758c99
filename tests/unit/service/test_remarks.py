"""service/remarks.py: remarks of all rooms on the settings of one file."""

from nri_coloc.core.settings import DiskTuning, PressureTuning, ScheduleTuning, Settings, Tuning, WindowTuning
from nri_coloc.service.remarks import remarks

ALWAYS = WindowTuning(days=frozenset(range(7)), opens=0, closes=0)


def test_usual_settings_have_no_remark():
    assert remarks(Settings()) == ()


def test_a_window_and_a_disk_line_have_a_remark_each():
    settings = Settings(
        schedule=ScheduleTuning(windows=(ALWAYS,)),
        tuning=Tuning(pressure=PressureTuning(disk=DiskTuning(closes=True, above=0.04))),
    )
    window, disk = remarks(settings)
    assert window.startswith("schedule.windows[0] changes nothing")
    assert disk.startswith("pressure.disk is 4: a node that was closed may stay closed")
