"""The distribution's containerd, runc, busybox and kernel: downloaded with apt, unpacked beside the system.

Nothing is installed. Each package is fetched through a private apt state (own source list, own
index) from the mirror that this machine's own sources name, only from another suite, and unpacked
into the cache folder. containerd needs no newer libc than Debian 12's; runc does, so runc is this
taken from this machine's own suite.

A package is unpacked in a scratch folder and renamed when it is complete, so a package in the cache can be
used without network. To fetch newer packages, delete the cache folder.
"""

import fcntl
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from tests.rig import RigError
from tests.rig.waiting import tried

KEYRING: Final = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
STAMP: Final = "stamp.json"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Name a package and the suites to look in, in this order ("": this machine's own suite)."""

    package: str
    suites: tuple[str, ...]
    known: str  # the newest upstream version that the rig was seen to work with
    at_least: tuple[int, ...] = ()
    stands_for: str = ""  # beginning of the real package's name, if this one only depends on it


@dataclass(frozen=True, slots=True)
class Unpacked:
    """Describe one unpacked package."""

    folder: Path
    version: str
    suite: str

    def program(self, name: str) -> Path:
        """Return the path of one of its programs."""
        for place in ("usr/bin", "usr/sbin", "bin", "sbin", ""):
            if (self.folder / place / name).is_file():
                return self.folder / place / name
        raise RigError(f"no program {name} in {self.folder} ({self.version} of {self.suite})")


WANTED: Final = {
    "containerd-1.7": Wanted("containerd", ("trixie",), known="1.7.24"),
    "containerd-2": Wanted("containerd", ("testing", "unstable"), known="2.1.9", at_least=(2, 1)),
    "runc": Wanted("runc", ("",), known="1.1.5"),
    "busybox": Wanted("busybox-static", ("",), known="1.35.0"),
    # the plain flavour: the flavour for clouds has no 9p
    "kernel": Wanted(
        "linux-image-amd64", ("bookworm-backports", "trixie"), "6.12.95", (6, 12), stands_for="linux-image-"
    ),
}


def unpacked(name: str) -> Unpacked:
    """Return a package of WANTED: from the cache, or the first time from the mirror."""
    return unpacked_as(name, WANTED[name])


def unpacked_as(name: str, wanted: Wanted) -> Unpacked:
    """Return any package, kept in the cache under `name`."""
    folder = cache() / name
    with locked(cache() / f".{name}.lock"):
        if not (folder / STAMP).is_file():
            tried(lambda: _fetch(wanted, folder))
    stamp = json.loads((folder / STAMP).read_text())
    return Unpacked(folder, stamp["version"], stamp["suite"])


def newer_than_known(name: str) -> str:
    """Return a warning if the package is newer than the newest that the rig was seen to work with; else empty."""
    found, known = unpacked(name), WANTED[name].known
    if upstream(found.version) <= upstream(known):
        return ""
    return f"{name} {found.version} is newer than {known}, the newest that the rig was seen to work with"


def upstream(version: str) -> tuple[int, ...]:
    """Return the numbers of a Debian version: "1:1.7.24~ds1-6" gives (1, 7, 24)."""
    numbers = re.match(r"(?:\d+:)?(\d+(?:\.\d+)*)", version)
    return tuple(int(part) for part in numbers[1].split(".")) if numbers else ()


def cache() -> Path:
    """Return the folder of the cache that the rig keeps packages in."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = base / "nri-coloc" / "rig"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep other processes out while the block lasts."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(wanted: Wanted, target: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=target.parent) as scratch:
        apt = _newest_enough(wanted, Path(scratch))
        package = wanted.package
        deb = apt.download(apt.dependency(package, wanted.stands_for) if wanted.stands_for else package)
        tree = Path(scratch, "tree")
        _run(["dpkg", "-x", str(deb), str(tree)])
        stamp = Unpacked(target, apt.candidate(wanted.package), apt.suite)
        (tree / STAMP).write_text(json.dumps(asdict(stamp), default=str))
        shutil.rmtree(target, ignore_errors=True)
        tree.rename(target)


def _newest_enough(wanted: Wanted, scratch: Path) -> "PrivateApt":
    seen = []
    for suite in wanted.suites:
        apt = PrivateApt(scratch / (suite or "own"), suite or own_suite())
        version = apt.candidate(wanted.package)
        if upstream(version) >= wanted.at_least:
            return apt
        seen.append(f"{version or 'nothing'} in {apt.suite}")
    raise RigError(f"{wanted.package} is too old or missing on the mirror: found {', '.join(seen)}")


class PrivateApt:
    """Run an apt that knows one suite of this machine's mirror and keeps all its files in `folder`."""

    def __init__(self, folder: Path, suite: str) -> None:
        self.suite = suite
        self._folder = folder
        for part in ("lists/partial", "cache/archives/partial"):
            (folder / part).mkdir(parents=True)
        (folder / "source.list").write_text(f"deb {_signed_by()}{mirror()} {suite} main\n")
        self._apt("apt-get", "update", "--error-on=any")

    def candidate(self, package: str) -> str:
        """Return the version on offer, or an empty text."""
        found = re.search(r"Candidate: (\S+)", self._apt("apt-cache", "policy", package))
        return found[1] if found and found[1] != "(none)" else ""

    def dependency(self, package: str, prefix: str) -> str:
        """Return the package with this beginning that the package depends on."""
        found = re.search(rf"Depends: ({re.escape(prefix)}\S+)", self._apt("apt-cache", "depends", package))
        if not found:
            raise RigError(f"{package} of {self.suite} depends on no {prefix}…")
        return found[1]

    def download(self, package: str) -> Path:
        """Return the file of a downloaded package."""
        version = self.candidate(package)
        self._apt("apt-get", "download", f"{package}={version}")
        return next(self._folder.glob("*.deb"))

    def _apt(self, program: str, *arguments: str) -> str:
        settings = {
            "Dir::Etc::sourcelist": self._folder / "source.list",
            "Dir::Etc::sourceparts": "/dev/null",
            "Dir::Etc::preferencesparts": "/dev/null",
            "Dir::State::Lists": self._folder / "lists",
            "Dir::State::status": "/dev/null",  # a package that is installed here must not be a candidate
            "Dir::Cache": self._folder / "cache",
            # an old mirror is good enough here; signatures are checked in any case
            "Acquire::Check-Valid-Until": "false",
            "APT::Sandbox::User": "root",  # apt's own user may not write into our folder
            "Acquire::Languages": "none",
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
            "Acquire::Retries": "3",
        }
        options = [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]
        try:
            return _run([program, *options, *arguments], cwd=self._folder)
        except RigError as error:
            raise RigError(f"nothing could be had from the mirror's suite {self.suite}: {error}") from error


def _signed_by() -> str:
    return f"[signed-by={KEYRING}] " if KEYRING.is_file() else ""


def own_suite(root: Path = Path("/")) -> str:
    """Return the code name of the release that this machine runs."""
    found = re.search(r"^VERSION_CODENAME=(\w+)", (root / "etc/os-release").read_text(), re.MULTILINE)
    if not found:
        raise RigError("this machine's /etc/os-release names no release: the rig needs Debian")
    return found[1]


def mirror(root: Path = Path("/")) -> str:
    """Return the archive that this machine's own apt sources name for its own release."""
    apt, suite = root / "etc/apt", own_suite(root)
    lists = [apt / "sources.list", *sorted(apt.glob("sources.list.d/*.list"))]
    found = [uri for path in lists if path.is_file() for uri in _one_line(path.read_text(), suite)]
    for path in sorted(apt.glob("sources.list.d/*.sources")):
        found += _deb822(path.read_text(), suite)
    if not found:
        raise RigError(f"no source for the suite {suite} in {apt}: where should packages come from?")
    return found[0]


def _one_line(text: str, suite: str) -> Iterator[str]:
    for line in text.splitlines():
        words = re.sub(r"\[[^]]*\]", "", line.partition("#")[0]).split()
        if len(words) > 3 and words[0] == "deb" and words[2] == suite and "main" in words[3:]:
            yield words[1]


def _deb822(text: str, suite: str) -> Iterator[str]:
    uncommented = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    for stanza in re.split(r"\n\s*\n", uncommented):
        fields = dict(re.findall(r"^([\w-]+):((?:.*)(?:\n[ \t].*)*)", stanza, re.MULTILINE))
        usable = "deb" in fields.get("Types", "").split() and fields.get("Enabled", "yes").strip() != "no"
        if usable and suite in fields.get("Suites", "").split() and "main" in fields.get("Components", ""):
            yield fields["URIs"].split()[0]


def _run(command: list[str], cwd: Path | None = None) -> str:
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=600, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RigError(f"{command[0]} could not be run: {error}") from error
    if done.returncode:
        raise RigError(
            f"{command[0]} {command[-1]} failed ({done.returncode}):\n{done.stderr or done.stdout}"
        )
    return done.stdout
