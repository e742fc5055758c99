"""The real daemon that looks at the node, learns and saves what it learnt twice a second.

Run instead of `python -m nri_coloc`. The product looks every five seconds, learns once a minute and saves every ten:
what comes of a full disk then, and of the third try on it, no test could wait for. What is saved, and how, is the
product's.
"""

import os
import sys
from dataclasses import replace
from typing import Final

from nri_coloc.cli import main
from nri_coloc.core.settings import ReclaimTuning
from nri_coloc.daemon import survey
from nri_coloc.service.configuration import loading
from nri_coloc.service.configuration.sections import Reclaim

PROGRAM: Final = ("-m", "tests.rig.studious_daemon")
EVERY_S: Final = 0.5

_reclaim: Final = loading._reclaim


def reclaim(section: Reclaim, reserved: int) -> ReclaimTuning:
    """In the place of `settings._reclaim`: every look is a sample."""
    found = _reclaim(section, reserved)
    return replace(found, forecast=replace(found.forecast, sample_s=EVERY_S))


if __name__ == "__main__":
    setattr(loading, "_reclaim", reclaim)  # noqa: B010 - only in this program
    setattr(survey, "PERIOD_S", EVERY_S)  # noqa: B010
    setattr(survey, "COST_SHARE", 1.0)  # noqa: B010 - however dear a look is
    setattr(survey, "SAVED_EVERY_S", 0.0)  # noqa: B010
    setattr(survey, "TRIED_EVERY_S", EVERY_S)  # noqa: B010
    sys.exit(main.main(sys.argv[1:], os.environ))
