"""The Go programs of tests/conformance/go, compiled with one version of NRI, kept in the cache folder.

Files in the cache are named by a hash of sources, version and settings, so a second run needs neither
a compiler nor the network. The modules come through the ordinary `go` client; their sums are checked in.
"""

import hashlib
import shutil
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from nri_coloc.nri.version import NriVersion
from tests.rig import RigError, go_compiler, packages
from tests.rig.waiting import tried

SOURCES: Final = Path(__file__).parents[1] / "conformance/go"
BUILD_SECONDS: Final = 600
SETTINGS: Final = {
    "CGO_ENABLED": "0",  # no C compiler is needed, and the programs run on any libc
    "GOFLAGS": "-mod=readonly -modcacherw -trimpath -buildvcs=false",
}
# WebAssembly plugins are a build-time choice of the runtime; compiling their engine takes half a minute
TAGS: Final = ("nri_no_wasm",)


@dataclass(frozen=True, slots=True)
class Edition:
    """Name one version of NRI, and the containerd that has it (its own version is reported to the plugin)."""

    nri: str
    containerd: str

    @property
    def number(self) -> NriVersion:
        """Return the version as numbers, to compare."""
        major, minor, patch = map(int, self.nri.split("."))
        return major, minor, patch

    @property
    def tags(self) -> tuple[str, ...]:
        """Return the build tags that choose the files for this version."""
        return (*TAGS, "nri_0_10") if self.number >= (0, 10, 0) else TAGS


EDITIONS: Final = (
    Edition("0.6.1", "1.7.24"),
    Edition("0.8.0", "2.1.9"),
    Edition("0.10.0", "2.2.0"),
    Edition("0.11.0", "2.2.1"),
    Edition("0.12.0", "2.3.4"),
    Edition("0.12.5", "2.4.0"),
)
NEWEST: Final = EDITIONS[-1]


@dataclass(frozen=True, slots=True)
class Programs:
    """Hold the paths of the built programs."""

    runtime: Path
    emptyplugin: Path


def built(edition: Edition) -> Programs:
    """Return the programs of this version: built now, or from the cache."""
    folder = _cache() / f"{edition.nri}-{_hash(edition)}"
    with packages.locked(_cache() / ".lock"):
        if not folder.is_dir():
            _build(edition, folder)
    return Programs(folder / "runtime", folder / "emptyplugin")


def build_all() -> None:
    """Build for every version, and stop at the first failure.

    A test that needs a missing version gets the error when it asks for it.
    """
    with suppress(RigError):
        for edition in EDITIONS:
            built(edition)


def _cache() -> Path:
    folder = packages.cache().parent / "conformance"
    folder.mkdir(exist_ok=True)
    return folder


def _hash(edition: Edition) -> str:
    digest = hashlib.sha256(repr((edition, edition.tags, SETTINGS)).encode())
    modules = [SOURCES / f"versions/{edition.nri}{ending}" for ending in (".mod", ".sum")]
    for path in [*modules, *sorted(SOURCES.rglob("*.go"))]:
        digest.update(f"{path.relative_to(SOURCES)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _build(edition: Edition, target: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=".build-", dir=target.parent) as scratch:
        tree = Path(scratch, "bin")
        tree.mkdir()
        arguments = [f"-modfile=versions/{edition.nri}.mod", f"-tags={','.join(edition.tags)}"]
        command = ["nice", go_compiler.found().command, "build", *arguments, "-o", f"{tree}/", "./..."]
        tried(lambda: _run(command))  # it fetches modules, and a newer compiler if one asks for it
        shutil.rmtree(target, ignore_errors=True)
        tree.rename(target)


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(
            command,
            cwd=SOURCES,
            env={**go_compiler.found().environment, **SETTINGS},
            capture_output=True,
            text=True,
            timeout=BUILD_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RigError(f"{command[1]} could not be run: {error}") from error
    if done.returncode:
        raise RigError(f"{' '.join(command[1:3])} failed ({done.returncode}):\n{done.stderr or done.stdout}")
