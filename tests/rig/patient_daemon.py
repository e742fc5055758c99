"""The real daemon that waits for its own threads as long as a machine takes that runs other things or stands still.

Run instead of `python -m nri_coloc`. The product holds the answer to a start for 0.4 s, until others left the CPUs,
and gives what it puts back at its end two seconds: a runtime or a kubelet waits. A test of what comes in which order
would see nothing of it where a thread has to wait a second for a CPU. How long things take is measured in benchmarks/.
"""

import os
import sys
from typing import Final

from nri_coloc.cli import main
from nri_coloc.daemon import before_answer, restoration, second_chances

PROGRAM: Final = ("-m", "tests.rig.patient_daemon")
PATIENCE_S: Final = 60.0


def be_patient() -> None:
    """For other programs of the rig, too."""
    for module, name in (
        (before_answer, "START_WAIT_S"),
        (second_chances, "LEAVE_WITHIN_S"),
        (restoration, "ENDS_WITHIN_S"),
        (restoration, "SPECS_WITHIN_S"),
    ):
        setattr(module, name, PATIENCE_S)


if __name__ == "__main__":
    be_patient()
    sys.exit(main.main(sys.argv[1:], os.environ))
