"""Changes that a test makes to the whole process: limits (setrlimit), user and umask.

All threads share them, and processes started meanwhile inherit them. So no lane and no machine starts at that time.
"""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Final

_CHANGING: Final = RLock()


@contextmanager
def limited(what: int, soft: int) -> Iterator[None]:
    """Set a soft limit, such as `resource.RLIMIT_FSIZE`, until the block ends."""
    with _CHANGING:
        former = resource.getrlimit(what)
        resource.setrlimit(what, (soft, former[1]))
        try:
            yield
        finally:
            resource.setrlimit(what, former)


@contextmanager
def as_user(uid: int) -> Iterator[None]:
    """Be another user until the block ends; only root may."""
    with _CHANGING:
        former = os.geteuid()
        os.seteuid(uid)
        try:
            yield
        finally:
            os.seteuid(former)


@contextmanager
def with_umask(mask: int) -> Iterator[None]:
    """Have another umask until the block ends."""
    with _CHANGING:
        former = os.umask(mask)
        try:
            yield
        finally:
            os.umask(former)


@contextmanager
def unchanged() -> Iterator[None]:
    """Keep the process as it is until the block ends; waits for a test that has changed it."""
    with _CHANGING:
        yield
