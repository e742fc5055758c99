"""End the tests at Ctrl-C without a traceback, also while pytest loads them: import this module before slow ones.

Later pytest itself reports an interrupt in one line.
"""

import signal

signal.signal(signal.SIGINT, signal.SIG_DFL)


def raise_them() -> None:
    """Raise KeyboardInterrupt at Ctrl-C from now on.

    A background job of a shell ignores Ctrl-C, and so would the programs that tests interrupt.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
