"""The real daemon, whose main thread hangs in a turn while a file exists; it may hang for two seconds.

Run instead of `python -m nri_coloc`. The first argument is the file.
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

HUNG_S: Final = 2.0
_tick: Final = Daemon._tick


def hanging(file: Path) -> Callable[[Daemon], bool]:
    """Return the replacement of `Daemon._tick`."""

    def tick(self: Daemon) -> bool:
        while file.exists():
            time.sleep(0.1)
        return _tick(self)

    return tick


if __name__ == "__main__":
    setattr(runner, "HUNG_S", HUNG_S)  # noqa: B010 - only in this program
    setattr(Daemon, "_tick", hanging(Path(sys.argv[1])))  # noqa: B010 - likewise
    sys.exit(main.main(sys.argv[2:], os.environ))
