"""Ctrl-C ends the tests without a traceback while they are loaded."""

import os
import signal
import subprocess
import sys

PROGRAM = """
import os, signal, sys

class Finder:
    def find_spec(self, name, path, target=None):
        if name == "hypothesis":
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs begin without
sys.meta_path.insert(0, Finder())
import tests.conftest
"""


def test_ctrl_c_while_tests_are_loaded_is_quiet():
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")
