"""What the program's exit code says."""

DONE, FAILED, WRONG_USAGE = 0, 1, 2

INTERRUPTED = 130
"""A shell's exit code after SIGINT: 128 and the signal's number."""
