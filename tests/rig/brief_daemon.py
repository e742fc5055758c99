"""The real daemon with a dwell of seconds for capacity, so that a test sees a rebalancing.

Run instead of `python -m nri_coloc`. All else is the product's: the values that are pushed, and the amounts that are
too small.
"""

import os
import sys
from dataclasses import replace
from typing import Final

from nri_coloc.cli import main
from nri_coloc.core.settings import AmountTuning, ReclaimTuning
from nri_coloc.forecast import slow_loop
from nri_coloc.service.configuration import loading
from nri_coloc.service.configuration.sections import Reclaim
from nri_coloc.tuning import loans
from tests.rig.patient_daemon import be_patient

PROGRAM: Final = ("-m", "tests.rig.brief_daemon")

EVERY_S: Final = 1.5
"""Between two looks at the loans, and at the node: the product takes five seconds for each."""

DWELL_S: Final = 1.0
"""Less than lies between two looks: what differs at both has lasted, and at the first one is nothing yet."""

_reclaim: Final = loading._reclaim


def reclaim(section: Reclaim, reserved: int) -> ReclaimTuning:
    """Return the tuning of `settings._reclaim` with a short dwell."""
    return replace(_reclaim(section, reserved), amounts=AmountTuning(dwell_s=DWELL_S))


if __name__ == "__main__":
    be_patient()
    setattr(loading, "_reclaim", reclaim)  # noqa: B010 - only in this program
    setattr(loans, "EVERY_S", EVERY_S)  # noqa: B010
    setattr(slow_loop, "PERIOD_S", EVERY_S)  # noqa: B010
    setattr(slow_loop, "COST_SHARE", 1.0)  # noqa: B010 - however dear a look is
    sys.exit(main.main(sys.argv[1:], os.environ))
