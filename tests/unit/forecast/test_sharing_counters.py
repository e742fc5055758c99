"""Full snapshots become counters by class and pool."""

from dataclasses import replace

from nri_coloc.core.readings import GroupReading, IOReading, MemoryReading, NodeReading, Picture
from nri_coloc.forecast.slow_loop import SharingCounters
from tests.unit.parts import a_node, a_report, create
from tests.unit.placing import kit

NODE = NodeReading(0.0)


class Rig:
    def __init__(self) -> None:
        self.node = a_node()
        self.report, _ = a_report(self.node)
        self.counters = SharingCounters(self.report)
        create(self.node, "app", kit.SHARED)
        create(self.node, "job", kit.RECLAIMED, on="batch")

    def see(self, count: int) -> None:
        """Take a full snapshot in which every counter is `count`."""
        container = GroupReading(
            1, 0.0, throttled_us=count * 10**6, memory=MemoryReading(0, working_set=count)
        )
        whole = replace(container, io=IOReading(count, count, count, count))
        picture = Picture(
            0.0,
            NODE,
            pods={"web": whole, "batch": whole},
            containers={"app": container, "job": container},
            host_groups={"hadoop-yarn": whole},
        )
        self.counters.turn(picture, self.node.state)

    def value(self, series: str) -> float | None:
        lines = self.report.metrics.render().decode().splitlines()
        found = [line.rpartition(" ")[2] for line in lines if line.startswith(f"nri_coloc_{series} ")]
        return float(found[0]) if found else None


def test_the_first_picture_tells_what_is_held_and_nothing_that_rose():
    rig = Rig()
    rig.see(7)
    assert rig.value('working_set_bytes{class="shared",pool="share"}') == 7
    assert rig.value('cpu_throttled_seconds_total{class="shared",pool="share"}') is None


def test_rises_are_counted_by_class_and_pool_after_one():
    rig = Rig()
    for count in (7, 9, 12):
        rig.see(count)
    assert rig.value('cpu_throttled_seconds_total{class="shared",pool="share"}') == 5
    assert rig.value('cpu_throttled_seconds_total{class="reclaimed",pool="reclaim"}') == 5
    assert rig.value('io_bytes_total{class="shared",direction="read"}') == 5


def test_what_host_groups_move_is_reclaimed():
    rig = Rig()
    rig.see(7)
    rig.see(9)
    assert rig.value('io_bytes_total{class="reclaimed",direction="write"}') == 4
