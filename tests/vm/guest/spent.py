"""The CPU time of the machine's processes and the memory that is left, from one scenario to the next."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

TICKS: Final = os.sysconf("SC_CLK_TCK")
# proc_pid_stat(5): of the words after the name utime, stime, cutime, cstime; proc_stat(5): "cpu" has idle and iowait
# behind user, nice and system, and work again behind them
OWN: Final = slice(11, 15)
IDLE: Final = slice(3, 5)
BUSY: Final = (slice(0, 3), slice(5, 8))


class Spending:
    """Measure CPU time and memory since the last call; the first call counts from the boot."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._before: dict[tuple[str, int], float] = {}

    def since_last(self, pids: Mapping[str, int]) -> dict[str, float]:
        """Return CPU seconds of each process with the children that it waited for, and of the machine; MiB; faults.

        The last seconds of a process that was killed are lost: its successor begins at zero.
        """
        now = {(f"{name}_s", pid): self._process(pid) for name, pid in pids.items()} | self._machine()
        found = {key[0]: round(count - self._before.get(key, 0.0), 2) for key, count in now.items()}
        self._before = now
        return found | {"available_mib": self._available_mib()}

    def _process(self, pid: int) -> float:
        try:
            text = (self._proc / str(pid) / "stat").read_text()
        except OSError:
            return 0.0
        return _seconds(text.rpartition(")")[2].split()[OWN])

    def _machine(self) -> dict[tuple[str, int], float]:
        ticks = (self._proc / "stat").read_text().partition("\n")[0].split()[1:]
        faults = self._lines("vmstat")["pgmajfault"]
        return {
            ("busy_s", 0): sum(_seconds(ticks[part]) for part in BUSY),
            ("idle_s", 0): _seconds(ticks[IDLE]),
            ("major_faults", 0): float(faults),
        }

    def _available_mib(self) -> float:
        return int(self._lines("meminfo")["MemAvailable:"]) // 1024

    def _lines(self, file: str) -> dict[str, str]:
        lines = (line.split() for line in (self._proc / file).read_text().splitlines())
        return {line[0]: line[1] for line in lines}


def _seconds(ticks: list[str]) -> float:
    return sum(map(int, ticks)) / TICKS
