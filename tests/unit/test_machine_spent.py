"""Each record has the machine's time since the record before it."""

from pathlib import Path

from tests.vm.guest.spent import TICKS, Spending


class Proc:
    """The part of /proc that is read; counts are in seconds."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "meminfo").write_text("MemTotal: 4000000 kB\nMemAvailable: 2097152 kB\n")

    def machine(self, *, busy: int, idle: int, faults: int) -> None:
        """Write busy and idle time, half of each to user and softirq, to idle and iowait."""
        work, rest = busy * TICKS // 2, idle * TICKS // 2
        (self.folder / "stat").write_text(f"cpu  {work} 0 0 {rest} {rest} 0 {work} 0 0 0\ncpu0 1 2 3\n")
        (self.folder / "vmstat").write_text(f"nr_free_pages 7\npgmajfault {faults}\n")

    def process(self, pid: int, *, own: int, children: int) -> None:
        """Write the stat file of a process whose name is as bad as possible."""
        (self.folder / str(pid)).mkdir(exist_ok=True)
        before = " ".join(["0"] * 10)
        times = f"{own * TICKS} 0 {children * TICKS} 0"
        (self.folder / str(pid) / "stat").write_text(f"{pid} (a) b) S {before} {times} 20 0\n")


def test_the_first_look_takes_all_and_the_next_what_was_added(tmp_path: Path):
    proc = Proc(tmp_path)
    proc.machine(busy=30, idle=80, faults=500)
    proc.process(7, own=4, children=2)
    spending = Spending(tmp_path)
    assert spending.since_last({"plugin": 7}) == {
        "plugin_s": 6.0,
        "busy_s": 30.0,
        "idle_s": 80.0,
        "major_faults": 500,
        "available_mib": 2048,
    }
    proc.machine(busy=36, idle=90, faults=501)
    proc.process(7, own=5, children=2)
    assert spending.since_last({"plugin": 7}) == {
        "plugin_s": 1.0,
        "busy_s": 6.0,
        "idle_s": 10.0,
        "major_faults": 1,
        "available_mib": 2048,
    }


def test_a_process_that_took_anothers_place_begins_at_nothing(tmp_path: Path):
    proc = Proc(tmp_path)
    proc.machine(busy=0, idle=0, faults=0)
    proc.process(7, own=50, children=0)
    proc.process(8, own=3, children=0)
    spending = Spending(tmp_path)
    spending.since_last({"plugin": 7})
    assert spending.since_last({"plugin": 8})["plugin_s"] == 3.0
    assert spending.since_last({"plugin": 0})["plugin_s"] == 0.0
