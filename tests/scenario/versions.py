"""The versions of cgroups on which scenarios are played."""

from typing import Final

import pytest

VERSIONS: Final = (pytest.param(1, id="v1", marks=pytest.mark.tier("test")), pytest.param(2, id="v2"))
"""Parameters of a node's fixture. `make test-fast` plays v2 alone: the two versions differ in files and units, and
`tests/unit/host` shows each of these on both."""
