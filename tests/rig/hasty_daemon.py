"""The real daemon that pushes without a pause, so that ten thousand pushes take minutes and not a quarter of an hour.

Run instead of `python -m nri_coloc`. Everything else of a push is the product's: one in flight, the newest value wins,
and a runtime that takes long gets as long a rest.
"""

import os
import sys
from typing import Final

from nri_coloc.cli import main
from nri_coloc.daemon import pusher

PROGRAM: Final = ("-m", "tests.rig.hasty_daemon")

if __name__ == "__main__":
    setattr(pusher, "PAUSE_S", 0.0)  # noqa: B010 - it is final for everybody else
    sys.exit(main.main(sys.argv[1:], os.environ))
