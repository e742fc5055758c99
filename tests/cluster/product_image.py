"""The product's own image, built by deploy/Dockerfile with buildah on a base that debootstrap makes.

The base replaces `python:3.11-slim-bookworm`, because the tests use no registry of images: it is Debian 12 with its own
Python 3.11. The base is kept in the cache; the image is built again when one of its inputs changed.
"""

import hashlib
import shutil
import tempfile
from pathlib import Path
from typing import Final

from tests.rig import commands, installed, packages

NAME: Final = "nri-coloc:0.1.0"
BASE: Final = "localhost/python-base:1"
PROJECT: Final = Path(__file__).parents[2]
INPUTS: Final = (
    "deploy/Dockerfile",
    "requirements.lock",
    "requirements-dev.lock",
    "pyproject.toml",
    "README.md",
    "LICENSE",
)
NOT_IN_THE_IMAGE: Final = PROJECT / "nri_coloc" / "sim"
"""The simulated node: the Dockerfile removes it before it builds the package."""

TOOLS: Final = {"buildah": "buildah", "debootstrap": "debootstrap"}
CERTIFICATES: Final = "/etc/ssl/certs"
"""Mounted into the build, so pip trusts what this machine trusts."""


def archive() -> Path:
    """Return a docker-archive of the image; build it if the cached one has other inputs."""
    target = _folder() / f"nri-coloc-{_hash()}.tar"
    with packages.locked(_folder() / ".lock"):
        if not target.exists():
            installed.have(TOOLS)
            _build(target)
            for old in set(_folder().glob("nri-coloc-*.tar")) - {target}:
                old.unlink()
    return target


def _folder() -> Path:
    folder = packages.cache().parent / "cluster" / "image"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _hash() -> str:
    digest = hashlib.sha256(BASE.encode())
    for path in [*(PROJECT / name for name in INPUTS), *_sources()]:
        digest.update(str(path.relative_to(PROJECT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _sources() -> list[Path]:
    found = sorted((PROJECT / "nri_coloc").rglob("*.py*"))
    return [p for p in found if "__pycache__" not in p.parts and NOT_IN_THE_IMAGE not in p.parents]


def _build(target: Path) -> None:
    if not _buildah("images", "--quiet", "--filter", f"reference={BASE}"):
        _make_base()
    options = ["--layers", "--isolation=chroot", "--network=host"]
    volume = [f"--volume={CERTIFICATES}:{CERTIFICATES}:ro"]
    base = [f"--build-arg=PYTHON={BASE}"]
    with tempfile.TemporaryDirectory(prefix="context-") as context:
        _copy_context(Path(context))
        file = ["--file", str(PROJECT / "deploy/Dockerfile"), "--tag", NAME, context]
        _buildah("bud", *options, *volume, *base, *file)
    scratch = target.with_suffix(".new")
    scratch.unlink(missing_ok=True)
    _buildah("push", "--quiet", NAME, f"docker-archive:{scratch}:docker.io/library/{NAME}")
    scratch.rename(target)


def _copy_context(folder: Path) -> None:
    """Copy the files that the Dockerfile takes, without bytecode: layers are the same for the same sources."""
    for name in INPUTS:
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(PROJECT / name, place)
    shutil.copytree(PROJECT / "nri_coloc", folder / "nri_coloc", ignore=shutil.ignore_patterns("__pycache__"))


def _make_base() -> None:
    with tempfile.TemporaryDirectory(prefix="base-") as scratch:
        tree = Path(scratch, "tree")
        include = "--include=python3-minimal,python3-venv,ca-certificates"
        suite = packages.own_suite()
        _run(["debootstrap", "--variant=minbase", include, suite, str(tree), packages.mirror()])
        (tree / "usr/bin/python").symlink_to("python3")
        shutil.rmtree(tree / "var/lib/apt/lists")
        container = _buildah("from", "scratch")
        _buildah("add", "--quiet", container, str(tree), "/")
        _buildah("commit", "--quiet", "--rm", container, BASE)


def _buildah(*arguments: str) -> str:
    store = _folder() / "store"
    places = [f"--root={store}", f"--runroot={store}-run", "--storage-driver=overlay"]
    return _run(["buildah", *places, *arguments]).strip()


def _run(command: list[str], environment: dict[str, str] | None = None) -> str:
    settings = [f"{name}={value}" for name, value in (environment or {}).items()]
    return commands.output(["env", *settings, "nice", *command], seconds=1800, title=" ".join(command[:2]))
