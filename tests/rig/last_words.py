"""The end of a rig's logs below a failure, in every folder of tests: a program that a test starts is known here.

A file that was written since the test's phase began is shown, so a program of an earlier test is silent.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol
from weakref import WeakSet


class Speaker(Protocol):
    """A program that writes logs.

    title: its name above its words.
    logs: its files; they may be gone.
    """

    @property
    def title(self) -> str: ...

    @property
    def logs(self) -> tuple[Path, ...]: ...

    def last_words(self) -> str: ...


_known: WeakSet[Speaker] = WeakSet()


def know(speaker: Speaker) -> None:
    """Show a program's words below a failure, as long as the program's object lives."""
    _known.add(speaker)


def since(at_s: float) -> Iterator[tuple[str, str]]:
    """Yield title and last words of each program that has written since a time, seconds since 1970."""
    for speaker in list(_known):
        if any(path.is_file() and path.stat().st_mtime >= at_s for path in speaker.logs):
            yield speaker.title, speaker.last_words()
