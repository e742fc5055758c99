"""Keep the operator's switch over lending, in a file of the state folder that exists while lending is off.

An order takes effect first, then the file is written, then the order is answered. So an order that was answered
survives the daemon and the machine, and an order is not refused on a full disk: its answer says that it is not kept.
The file is then written as soon as that is possible.

A missing file means that lending is on. A file that cannot be read means that it is off, because an operator wrote it.
"""

import os
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Final

from nri_coloc.host import state_file
from nri_coloc.schedule.switch import MOST_CHARACTERS, ON, Clocks, Switch, parsed, text_of
from nri_coloc.service.state_folder import TRIED_EVERY_S

NAME: Final = "lending-off"


class LendingSwitch:
    """`load`, `put` and `look` are for the main thread, `keep` for any; the rest may be read from any.

    clocks: returns the present time and boot.
    held: the last order, with seconds since the boot.
    problem: why the last order is not kept, "" while it is.
    """

    def __init__(self, state_dir: str, clocks: Callable[[], Clocks]) -> None:
        self.problem = ""
        self._path = Path(state_dir) / NAME
        self._clocks = clocks
        self._turn = Lock()
        self._tried_at = 0.0
        self.held, _ = self._read()

    def load(self) -> str:
        """Read the order that the previous process kept, after its end; return why it cannot be read."""
        self.held, why = self._read()
        if self.held.off:
            self.keep()  # with the times of this boot
        return f"{self._path} {why}; lending stays off until `nri-coloc admin lending on`" if why else ""

    def _read(self) -> tuple[Switch, str]:
        """Return the order of the file, and why the file cannot be read."""
        now = self._clocks()
        try:
            return parsed(state_file.text(self._path, MOST_CHARACTERS), now), ""
        except FileNotFoundError:
            return ON, ""
        except OSError as error:
            why = f"cannot be read: {state_file.reason(error)}"
        except ValueError as error:
            why = str(error)
        return Switch(off=True, at_s=now.boot_s, ends_s=now.boot_s), why

    def now(self) -> Switch:
        """Return the last order, with seconds since 1970."""
        return self.held.later(self._clocks().ahead_s)

    def put(self, order: Callable[[Switch, float], Switch]) -> None:
        """Put an order in force: `order` gets the present one and the seconds since the boot."""
        self.held = order(self.held, self._clocks().boot_s)

    def keep(self, *, durably: bool = True) -> str:
        """Write the order in force; return why that failed, "" if it is kept.

        durably: wait for the disk, which can take seconds.
        """
        with self._turn:
            held = self.held
            try:
                self._write(held, durably=durably)
                self.problem = ""
            except OSError as error:
                after = "on" if held.off else "off"
                done = "write" if held.off else "remove"
                because = f"cannot {done} {self._path}: {error.strerror}"
                self.problem = f"{because}; after a restart lending is {after} again"
            return self.problem

    def look(self, now: float) -> None:
        """Write the file again if it could not be written or is missing; `now` is monotonic seconds."""
        is_lost = self.held.off and not self._path.exists()
        if (self.problem or is_lost) and now - self._tried_at >= TRIED_EVERY_S and not self._turn.locked():
            self._tried_at = now
            self.keep(durably=False)

    def _write(self, held: Switch, *, durably: bool) -> None:
        if held.off:
            state_file.replace(self._path, text_of(held, self._clocks()), durably=durably)
        else:
            self._path.unlink(missing_ok=True)
        if durably:
            _sync_folder(self._path.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
