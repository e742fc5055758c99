"""`make bench`: every benchmark, or those named on the command line; prints a table, writes build/bench.json.

`side-by-side` (`make bench-hook`) needs Go and runs only when it is named.
"""

import os
import sys

from benchmarks import beside, cost, decision, figures, hook, pushes, real, sampling, side_by_side
from tests.rig import RigError

ALL = {
    "beside": beside.run,
    "cost": cost.run,
    "decision": decision.run,
    "hook": hook.run,
    "pushes": pushes.run,
    "real": real.run,
    "sampling": sampling.run,
}
NEEDS_ROOT = ("pushes", "real")
NAMED = {**ALL, "side-by-side": side_by_side.run}


def main() -> None:
    """Run what was asked for."""
    print(figures.machine())
    for name in sys.argv[1:] or ALL:
        if name in NEEDS_ROOT and os.geteuid() != 0:
            print(f"left out: {name}, which needs root")
            continue
        try:
            results = NAMED[name]()
        except RigError as error:
            sys.exit(f"{name}: {error}")
        figures.show(results)
        figures.write(results)


if __name__ == "__main__":
    main()
