"""The real daemon, whose main thread hangs once a file exists; then it may hang for two seconds.

Run instead of `python -m nri_coloc`. The first argument is the file. Before, the daemon may hang for minutes: a machine
that stands still ends no turn in time.
"""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from nri_coloc.cli import main
from nri_coloc.service import runner
from nri_coloc.service.runner import Daemon
from tests.rig.waiting import PATIENCE_SECONDS

LONG_S: Final = 3 * PATIENCE_SECONDS
HUNG_S: Final = 2.0
_tick: Final = Daemon._tick


def hanging(file: Path) -> Callable[[Daemon], bool]:
    """Return the replacement of `Daemon._tick`."""

    turns = 0

    def tick(self: Daemon) -> bool:
        nonlocal turns
        turns += file.exists()
        while turns > 1:  # the product has set the short time, if it sets one in each turn
            time.sleep(0.1)
        if turns:
            setattr(runner, "HUNG_S", HUNG_S)  # noqa: B010 - only in this program
        return _tick(self)

    return tick


if __name__ == "__main__":
    setattr(runner, "HUNG_S", LONG_S)  # noqa: B010 - only in this program
    setattr(Daemon, "_tick", hanging(Path(sys.argv[1])))  # noqa: B010 - likewise
    sys.exit(main.main(sys.argv[2:], os.environ))
