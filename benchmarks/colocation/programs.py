"""The two programs of `go/`, compiled in place and kept in the cache folder; they need the standard library only."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from tests.rig import RigError, go_compiler, packages

SOURCES: Final = Path(__file__).parent / "go"
BUILD_SECONDS: Final = 300
SETTINGS: Final = {"CGO_ENABLED": "0", "GOFLAGS": "-trimpath -buildvcs=false"}


def built() -> Path:
    """Return the folder with `load` and `hog`, static programs; RigError if they cannot be compiled."""
    kept = packages.cache().parent / "colocation"
    kept.mkdir(exist_ok=True)
    folder = kept / _hash()
    with packages.locked(kept / ".lock"):
        if not folder.is_dir():
            _build(folder)
    return folder


def _hash() -> str:
    digest = hashlib.sha256(repr(SETTINGS).encode())
    for path in sorted(SOURCES.rglob("*.*")):
        if path.is_file():
            digest.update(f"{path.relative_to(SOURCES)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _build(target: Path) -> None:
    compiler = go_compiler.found()
    with tempfile.TemporaryDirectory(prefix=".build-", dir=target.parent) as scratch:
        tree = Path(scratch, "bin")
        tree.mkdir()
        done = subprocess.run(
            [compiler.command, "build", "-o", f"{tree}/", "./..."],
            cwd=SOURCES,
            env={**os.environ, **compiler.environment, **SETTINGS},
            capture_output=True,
            text=True,
            timeout=BUILD_SECONDS,
            check=False,
        )
        if done.returncode:
            raise RigError(f"the load and the hog could not be compiled:\n{done.stderr or done.stdout}")
        shutil.rmtree(target, ignore_errors=True)
        tree.rename(target)
