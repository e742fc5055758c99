"""The program's way in and out: arguments in, an exit code out (`exit_codes`).

An operator's mistake is one sentence on stderr, never a traceback, and Ctrl-C is no mistake. It may come while the
program is still being loaded, which takes a good part of a second: so everything is imported where it is caught.
Only an error in the program leaves a traceback.
"""

import os
import sys
from collections.abc import Mapping, Sequence

from nri_coloc.cli.exit_codes import FAILED, INTERRUPTED, WRONG_USAGE


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run one command; raises only what is a mistake of ours."""
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
        return _failed(error, WRONG_USAGE)
    except streams.ReaderGone:
        return FAILED
    except ColocError as error:
        return _failed(error, FAILED)
    except OSError as error:  # errors that no nearer code has words for
        return _failed(_refused(error), FAILED)


def _failed(why: object, code: int) -> int:
    print(f"nri-coloc: {why}", file=sys.stderr)
    return code


def _refused(error: OSError) -> str:
    """Say what the system refused, and where if it tells."""
    where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
    cure = "; run it as root, or as a user with access" if isinstance(error, PermissionError) else ""
    return f"{where}{error.strerror or error}{cure}"


def entry() -> None:
    """Be the console script."""
    sys.exit(main(sys.argv[1:], os.environ))
