"""The real daemon that reads the node, learns and saves its learnt values twice a second.

Run instead of `python -m nri_coloc`. The product takes a snapshot every five seconds, learns once a minute and saves
every ten. No test could wait for a full disk and the third retry on it at that pace. The saved values and the way of
saving are the product's.
"""

import os
import sys
from dataclasses import replace
from typing import Final

from nri_coloc.cli import main
from nri_coloc.core.settings import ReclaimTuning
from nri_coloc.forecast import forecast_file, slow_loop
from nri_coloc.service.configuration import loading
from nri_coloc.service.configuration.sections import Reclaim

PROGRAM: Final = ("-m", "tests.rig.studious_daemon")
EVERY_S: Final = 0.5

_reclaim: Final = loading._reclaim


def reclaim(section: Reclaim, reserved: int) -> ReclaimTuning:
    """Return the tuning of `settings._reclaim`, with every snapshot as a sample."""
    found = _reclaim(section, reserved)
    return replace(found, forecast=replace(found.forecast, sample_s=EVERY_S))


if __name__ == "__main__":
    setattr(loading, "_reclaim", reclaim)  # noqa: B010 - only in this program
    setattr(slow_loop, "PERIOD_S", EVERY_S)  # noqa: B010
    setattr(slow_loop, "COST_SHARE", 1.0)  # noqa: B010 - however dear a look is
    setattr(forecast_file, "SAVED_EVERY_S", 0.0)  # noqa: B010
    setattr(forecast_file, "RETRIED_EVERY_S", EVERY_S)  # noqa: B010
    sys.exit(main.main(sys.argv[1:], os.environ))
