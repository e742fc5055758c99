"""The real daemon, which counts what Python has allocated whenever a file is there, and writes the number over it.

Run instead of `python -m nri_coloc`. The first argument is the file; `allocated_by` asks. The product notes each pod of
the last ten seconds as resized, which is no leak, but more blocks the faster pods come and go: here it is a moment.
"""

import gc
import os
import sys
import time
from pathlib import Path
from threading import Thread
from typing import Final

from nri_coloc.cli import main
from nri_coloc.tuning import bandwidths
from tests.rig.patient_daemon import be_patient
from tests.rig.waiting import wait_until

_ASKED: Final = "?"
_MOMENT_S: Final = 0.1


def allocated_by(file: Path) -> int:
    """Return the number of blocks that the daemon's Python has allocated and that no cycle holds."""
    file.write_text(_ASKED)
    wait_until(lambda: file.read_text() not in {"", _ASKED}, 20, "the daemon's count")
    return int(file.read_text())


def _answer(file: Path) -> None:
    while True:
        time.sleep(0.05)
        if file.exists() and file.read_text() == _ASKED:
            gc.collect()
            file.write_text(str(sys.getallocatedblocks()))


if __name__ == "__main__":
    be_patient()
    setattr(bandwidths, "RESIZE_LASTS_S", _MOMENT_S)  # noqa: B010  (its type says that it is final)
    Thread(target=_answer, args=(Path(sys.argv[1]),), daemon=True).start()
    sys.exit(main.main(sys.argv[2:], os.environ))
