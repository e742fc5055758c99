"""The real daemon that pushes without a rest, so that ten thousand pushes take minutes and not half an hour.

Run instead of `python -m nri_coloc`. Everything else of a push is the product's: one in flight, the newest value wins,
what fails waits. Without the rest that a slow runtime gets it is a heavier load than the product's.
"""

import os
import sys
from typing import Final

from nri_coloc.cli import main
from nri_coloc.daemon import pusher
from nri_coloc.daemon.pusher import Pusher

PROGRAM: Final = ("-m", "tests.rig.hasty_daemon")

_push: Final = Pusher._push


def push(self: Pusher, container_id: str) -> float:
    """In the place of `Pusher._push`: the next one at once, unless there is nobody to push to."""
    rest_s = _push(self, container_id)
    return rest_s if rest_s == pusher.BACK_OFF_S else 0.0


if __name__ == "__main__":
    setattr(Pusher, "_push", push)  # noqa: B010 - only in this program
    sys.exit(main.main(sys.argv[1:], os.environ))
