"""The rig finds its packages at the mirror in a machine's apt sources, in both of their forms."""

from pathlib import Path

import pytest

from tests.rig import RigError, packages

ONE_LINE = """\
# deb http://commented.test/debian bookworm main
deb [arch=amd64 signed-by=/some/key.gpg] http://foreign.test/apt stable-bookworm main
deb-src http://source.test/debian bookworm main
deb [arch=amd64] http://mirror.test/debian bookworm main contrib  # ours
"""
DEB822 = """\
# the distribution
Types: deb deb-src
# a comment inside
URIs: http://mirror.test/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /some/key.gpg

Types: deb
URIs: http://security.test/debian-security
Suites: bookworm-security
Components: main
"""
DISABLED = "Types: deb\nEnabled: no\nURIs: http://off.test/debian\nSuites: bookworm\nComponents: main\n\n"


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("sources.list", ONE_LINE),
        ("sources.list.d/debian.list", ONE_LINE),
        ("sources.list.d/debian.sources", DEB822),
        ("sources.list.d/debian.sources", DISABLED + DEB822),
    ],
    ids=["one line", "one line in a part", "deb822", "deb822 after a disabled one"],
)
def test_the_mirror_is_read_from_the_machines_sources(tmp_path: Path, file: str, text: str):
    assert packages.mirror(_machine(tmp_path, file, text)) == "http://mirror.test/debian"


def test_a_machine_without_a_usable_source_is_told_so(tmp_path: Path):
    with pytest.raises(RigError, match="no source for the suite bookworm"):
        packages.mirror(_machine(tmp_path, "sources.list", ""))


@pytest.mark.parametrize(
    ("version", "numbers"),
    [("1.7.24~ds1-6+deb13u1", (1, 7, 24)), ("1:1.35.0-4", (1, 35, 0)), ("2.1.9+ds1-5", (2, 1, 9)), ("", ())],
    ids=["repacked", "epoch", "plus", "nothing"],
)
def test_a_debian_version_gives_its_upstream_numbers(version: str, numbers: tuple[int, ...]):
    assert packages.upstream(version) == numbers


def _machine(root: Path, file: str, text: str) -> Path:
    (root / "etc/apt/sources.list.d").mkdir(parents=True)
    (root / "etc/os-release").write_text('NAME="Debian GNU/Linux"\nVERSION_CODENAME=bookworm\n')
    (root / "etc/apt" / file).write_text(text)
    return root
