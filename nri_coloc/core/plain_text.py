"""Texts of other programs, made safe to print: a terminal must not obey them."""

import re
from typing import Final

_WHITE_SPACE: Final = re.compile(r"[^\S ]+")


def plain(text: object) -> str:
    """Return a text on one line: a line break or tab as one space, other control characters as "?"."""
    return "".join(sign if sign.isprintable() else "?" for sign in _WHITE_SPACE.sub(" ", str(text)))
