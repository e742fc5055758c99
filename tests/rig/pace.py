"""The pace of this machine now: the CPU time of a fixed piece of Python work.

A limit of CPU time in pieces holds on a slow machine too, and beside other work, which takes cycles from both.
"""

import json
import time
from statistics import median
from typing import Final

from tests.rig import tenants

_TEXT: Final = tenants.dense(8192)
_TIMES: Final = 120


def piece_s() -> float:
    """Return the CPU seconds of one piece; some 10 ms on an idle core of the machine in docs/benchmarks.md."""
    return median(_once_s() for _ in range(3))


def _once_s() -> float:
    began = time.thread_time()
    for _ in range(_TIMES):
        sum(len(name) for name in sorted(json.loads(_TEXT)))
    return time.thread_time() - began
