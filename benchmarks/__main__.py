"""`make bench`: every benchmark, or those named on the command line; prints a table, writes build/bench.json."""

import sys

from benchmarks import decision, figures, hook

ALL = {"decision": decision.run, "hook": hook.run}


def main() -> None:
    """Run what was asked for."""
    print(figures.machine())
    for name in sys.argv[1:] or ALL:
        results = ALL[name]()
        figures.show(results)
        figures.write(results)


if __name__ == "__main__":
    main()
