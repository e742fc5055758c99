"""The real daemon, which waits for ever before its parts are put together, and creates a file when it gets there.

Run instead of `python -m nri_coloc`. The first argument is the file.
"""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NoReturn

from nri_coloc.cli import main
from nri_coloc.service import wiring

LOOK_AGAIN_S: Final = 0.02


def waiting(file: Path) -> Callable[..., NoReturn]:
    """Return the replacement of `wiring.wire`."""

    def wire(*_: object) -> NoReturn:
        file.touch()
        while True:  # in steps: a signal that comes a moment before a sleep is handled after it
            time.sleep(LOOK_AGAIN_S)

    return wire


if __name__ == "__main__":
    setattr(wiring, "wire", waiting(Path(sys.argv[1])))  # noqa: B010 - only in this program
    sys.exit(main.main(sys.argv[2:], os.environ))
