"""The program's exit codes."""

DONE, FAILED, WRONG_USAGE = 0, 1, 2

INTERRUPTED = 130
"""A shell's exit code after SIGINT: 128 and the signal's number."""
