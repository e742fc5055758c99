"""The daemon with an offer however busy the machine was. The rest of its rules are the product's.

An offer covers what the node's pods and its system are expected to use. On a machine of two CPUs a busy quarter of an
hour before can be all that there is, and the product then rightly offers no CPU for hours.
"""

import os
import sys
from dataclasses import replace
from typing import Final

from nri_coloc.cli import main
from nri_coloc.core.settings import ReclaimTuning
from nri_coloc.service.configuration import loading
from nri_coloc.service.configuration.sections import Reclaim

WATERMARK: Final = 3.0
"""The configuration allows two at most. System and pods that had all CPUs are expected to use 2.2 times the CPUs."""

_reclaim: Final = loading._reclaim


def reclaim(section: Reclaim, reserved: int) -> ReclaimTuning:
    """Return the tuning of `loading._reclaim` with the higher watermark."""
    return replace(_reclaim(section, reserved), watermark=WATERMARK)


if __name__ == "__main__":
    setattr(loading, "_reclaim", reclaim)  # noqa: B010 - only in this program
    sys.exit(main.main(["run", *sys.argv[1:]], os.environ))
