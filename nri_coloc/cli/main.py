"""The program's entry point: arguments in, an exit code out (`exit_codes`).

An operator's mistake prints one sentence on stderr, never a traceback, and Ctrl-C is no mistake. Ctrl-C may arrive
while the program is loaded, which takes a good part of a second. So all modules are imported inside the block that
catches it.
Only an error in the program prints a traceback.
"""

import os
import sys
from collections.abc import Mapping, Sequence

from nri_coloc.cli.exit_codes import FAILED, INTERRUPTED, WRONG_USAGE


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run one command and return its exit code; only a fault of the program itself is raised."""
    if not arguments and "NRI_PLUGIN_SOCKET" in environment:
        arguments = ["run"]
    try:
        from nri_coloc.cli import streams

        with streams.complaining():
            return _judged(arguments, environment)
    except KeyboardInterrupt:
        return INTERRUPTED


def _judged(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    from nri_coloc.cli import commands, streams
    from nri_coloc.errors import ColocError, SettingsError

    try:
        with streams.output():
            return commands.run(arguments, environment)
    except SettingsError as error:
        return _failed(error, FAILED if isinstance(error.__cause__, PermissionError) else WRONG_USAGE)
    except streams.ReaderGone:
        return FAILED
    except ColocError as error:
        return _failed(error, FAILED)
    except OSError as error:  # errors that no nearer code has words for
        return _failed(_refused(error), FAILED)


def _failed(why: object, code: int) -> int:
    from nri_coloc.core.texts import plain

    # the words may be another program's, and a terminal must not obey them; an invalid file has a line for each problem
    print(*map(plain, f"nri-coloc: {why}".split("\n")), sep="\n", file=sys.stderr)
    return code


def _refused(error: OSError) -> str:
    """Return the system's error as a sentence, with the file if it is known."""
    where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
    cure = "; run it as root, or as a user with access" if isinstance(error, PermissionError) else ""
    return f"{where}{error.strerror or error}{cure}"


def entry() -> None:
    """Run the console script."""
    sys.exit(main(sys.argv[1:], os.environ))
