"""The program's exit codes.

`WRONG_USAGE` is for arguments, and for files that they name. A missing permission is `FAILED`: the same command may
succeed as another user.
"""

DONE, FAILED, WRONG_USAGE = 0, 1, 2

INTERRUPTED = 130
"""A shell's exit code after SIGINT: 128 and the signal's number."""
