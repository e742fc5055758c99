"""The companion with short times: seconds where the product waits half a minute. Its rules are the product's."""

import sys

from nri_coloc.cli import main
from nri_coloc.kubernetes import reporting

SHORT = {"DWELL_S": 2.0, "OPEN_AFTER_S": 4.0, "SPACING_S": 2.0, "SILENT_AFTER_S": 15.0, "SETTLE_S": 1.0}

if __name__ == "__main__":
    for name, seconds in SHORT.items():
        setattr(reporting, name, seconds)
    sys.exit(main.main(["cluster", *sys.argv[1:]], {}))
