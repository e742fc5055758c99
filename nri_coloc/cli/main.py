"""The program's way in and out: arguments in, an exit code out (`exit_codes`).

An operator's mistake is one sentence on stderr, never a traceback, and Ctrl-C is no mistake. It may come while the
program is still being loaded, which takes a good part of a second: so everything is imported where it is caught.
"""

import os
import sys
from collections.abc import Mapping, Sequence

from nri_coloc.cli.exit_codes import FAILED, INTERRUPTED, WRONG_USAGE


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run one command; never raises."""
    if not arguments and "NRI_PLUGIN_SOCKET" in environment:
        arguments = ["run"]
    try:
        return _judged(arguments, environment)
    except KeyboardInterrupt:
        return INTERRUPTED


def _judged(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    from nri_coloc.cli import commands
    from nri_coloc.errors import ColocError, SettingsError

    try:
        code = commands.run(arguments, environment)
        sys.stdout.flush()  # or a reader who has left would be noticed only after us, by the interpreter
    except SettingsError as error:
        print(f"nri-coloc: {error}", file=sys.stderr)
        return WRONG_USAGE
    except ColocError as error:
        print(f"nri-coloc: {error}", file=sys.stderr)
        return FAILED
    except BrokenPipeError:
        # whoever read our output has seen enough; the interpreter's own flush at exit must not complain either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    return code


def entry() -> None:
    """Be the console script."""
    sys.exit(main(sys.argv[1:], os.environ))
