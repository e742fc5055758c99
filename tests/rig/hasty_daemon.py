"""The real daemon that pushes without a pause, so that ten thousand pushes take minutes and not half an hour.

Run instead of `python -m nri_coloc`. The first argument is a file that grows by one byte with each push that the
runtime carried out, because other plugins do not hear of pushes over NRI's own call. Everything else of a push is as in
the product: one in flight, the newest value wins, a failed one waits. A slow runtime gets no pause here, so the load is
heavier than the product's.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from nri_coloc.cli import main
from nri_coloc.core.knobs import Knobs
from nri_coloc.runtime import pusher
from nri_coloc.runtime.pusher import Pusher

_push: Final = Pusher._push
_send: Final = Pusher._send


def program(pushes: Path) -> tuple[str, ...]:
    """Return the arguments that run it."""
    return ("-m", "tests.rig.hasty_daemon", str(pushes))


def counted(pushes: Path) -> Callable[[Pusher, str, Knobs], None]:
    """Return the replacement of `Pusher._send`, which counts."""

    def send(self: Pusher, container_id: str, changes: Knobs) -> None:
        _send(self, container_id, changes)
        with pushes.open("ab") as file:
            file.write(b".")

    return send


def push(self: Pusher, container_id: str) -> float:
    """Replace `Pusher._push`: push the next value at once, or back off if there is no runtime to push to."""
    rest_s = _push(self, container_id)
    return rest_s if rest_s == pusher.BACK_OFF_S else 0.0


if __name__ == "__main__":
    setattr(Pusher, "_push", push)  # noqa: B010 - only in this program
    setattr(Pusher, "_send", counted(Path(sys.argv[1])))  # noqa: B010 - likewise
    sys.exit(main.main(sys.argv[2:], os.environ))
