"""Programs of a Kubernetes node: compiled once from the Go module proxy, kept in the cache by version.

`go/versions/*.mod` and `*.sum` pin every module. A program's folder in the cache is named by a hash of its module
files, sources and settings, so a second run needs neither a compiler nor the network.
"""

import hashlib
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.rig import RigError, go_compiler, installed, packages
from tests.rig.packages import Wanted
from tests.rig.waiting import tried

SOURCES: Final = Path(__file__).parent / "go"
BUILD_SECONDS: Final = 3600
FLAGS: Final = "-mod=readonly -modcacherw -trimpath -buildvcs=false"
DEBIANS_CONTAINERD: Final = "debian"
RUNC: Final = "1.5.2"
"""Maps CPU shares to a weight by the formula of runc >= 1.3.2; Debian 12's 1.1.5 has the former one."""

C_PACKAGES: Final = {
    "gcc": "gcc",
    "pkg-config": "pkg-config",
    "/usr/include/stdio.h": "libc6-dev",
    "/usr/include/seccomp.h": "libseccomp-dev",
}
"""What compiles the C part of runc: containerd asks it for seccomp, and that is a library."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Name a version of Kubernetes and the containerd that runs beside it ("debian": Debian testing's package)."""

    kubernetes: str
    containerd: str

    def __str__(self) -> str:
        return f"kubernetes-{self.kubernetes}-containerd-{self.containerd}"


PAIRS: Final = (Pair("1.35.4", DEBIANS_CONTAINERD), Pair("1.37.2", "2.4.2"))
"""The oldest Kubernetes and the newest that the module proxy serves, each with the containerd of its time."""

MATRIX: Final = tuple(Pair(one.kubernetes, other.containerd) for one in PAIRS for other in PAIRS)
"""Every combination of them."""


@dataclass(frozen=True, slots=True)
class Build:
    """Describe one `go build`: `module_file` below go/versions, the packages it compiles, and the settings."""

    module_file: str
    packages: tuple[str, ...]
    tags: tuple[str, ...] = ()
    linker: str = "-s -w"
    needs_c: bool = False

    @property
    def folder(self) -> Path:
        """Return the folder of its programs."""
        return _cache() / f"{self.module_file}-{self._hash}"

    @property
    def _hash(self) -> str:
        digest = hashlib.sha256(repr((self, FLAGS)).encode())
        modules = [SOURCES / "versions" / f"{self.module_file}{ending}" for ending in (".mod", ".sum")]
        for path in [*modules, *sorted(SOURCES.glob("*.go"))]:
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
        return digest.hexdigest()[:16]

    @property
    def is_cached(self) -> bool:
        """Return whether the programs are there, so that nothing has to be compiled."""
        return self.folder.is_dir()


def kubernetes(version: str) -> Build:
    """Return the build of `kube`, which is kubelet, API server, controller manager, scheduler and kubectl."""
    minor = version.split(".")[1]
    said = {"gitVersion": f"v{version}", "gitMajor": "1", "gitMinor": minor, "gitTreeState": "clean"}
    names = " ".join(f"-X k8s.io/component-base/version.{name}={value}" for name, value in said.items())
    return Build(f"kubernetes-{version}", (".",), linker=f"-s -w {names}")


def containerd(version: str) -> Build:
    """Return the build of containerd, its shim and `ctr`."""
    module = "github.com/containerd/containerd/v2"
    commands = tuple(f"{module}/cmd/{name}" for name in ("containerd", "containerd-shim-runc-v2", "ctr"))
    tags = ("no_btrfs", "no_devmapper", "no_zfs", "netgo", "osusergo")
    linker = f"-s -w -X {module}/version.Version={version}"
    return Build(f"containerd-{version}", commands, tags, linker)


def runc(version: str = RUNC) -> Build:
    """Return the build of runc; its start-up code is C."""
    return Build(f"runc-{version}", ("github.com/opencontainers/runc",), tags=("seccomp",), needs_c=True)


def builds_of(pair: Pair) -> tuple[Build, ...]:
    """Return the builds that a pair needs."""
    own = () if pair.containerd == DEBIANS_CONTAINERD else (containerd(pair.containerd),)
    return (kubernetes(pair.kubernetes), runc(), *own)


def is_cached(pair: Pair) -> bool:
    """Return whether all programs of a pair are there."""
    return all(build.is_cached for build in builds_of(pair))


def in_time() -> tuple[Pair, ...]:
    """Return the pairs whose programs are cached, or else the first pair.

    The programs of one pair take half an hour to compile on two CPUs.
    """
    return tuple(pair for pair in PAIRS if is_cached(pair)) or PAIRS[:1]


def programs(build: Build) -> Path:
    """Return the folder of a build's programs; compile them first where they are not cached."""
    with packages.locked(_cache() / f".{build.module_file}.lock"):
        if not build.is_cached:
            if build.needs_c:
                installed.have(C_PACKAGES)
            tried(lambda: _compile(build))
    return build.folder


def containerd_of(pair: Pair) -> Path:
    """Return the folder with a pair's containerd, shim and `ctr`."""
    if pair.containerd == DEBIANS_CONTAINERD:
        return packages.unpacked("containerd-2").program("containerd").parent
    return programs(containerd(pair.containerd))


def etcd() -> Path:
    """Return the path of Debian's etcd."""
    return packages.unpacked_as("etcd", Wanted("etcd-server", ("trixie", ""), known="3.5.16")).program("etcd")


def cni() -> Path:
    """Return the folder of Debian's CNI plugins."""
    unpacked = packages.unpacked_as("cni", Wanted("containernetworking-plugins", ("",), known="1.1.1"))
    return unpacked.folder / "usr/lib/cni"


def _cache() -> Path:
    folder = packages.cache().parent / "cluster"
    folder.mkdir(exist_ok=True)
    return folder


def _compile(build: Build) -> None:
    with tempfile.TemporaryDirectory(prefix=".build-", dir=_cache()) as scratch:
        tree = Path(scratch, "bin")
        tree.mkdir()
        flags = [f"-modfile=versions/{build.module_file}.mod", f"-tags={','.join(build.tags)}"]
        compiler = [
            "nice",
            "-n",
            "19",
            go_compiler.found().command,
            "build",
            *flags,
            "-ldflags",
            build.linker,
        ]
        _run([*compiler, "-o", f"{tree}/", *build.packages], build)
        shutil.rmtree(build.folder, ignore_errors=True)
        tree.rename(build.folder)


def _run(command: list[str], build: Build) -> None:
    environment = {
        **go_compiler.found().environment,
        "CGO_ENABLED": str(int(build.needs_c)),
        "GOFLAGS": FLAGS,
    }
    try:
        done = subprocess.run(
            command,
            cwd=SOURCES,
            env=environment,
            capture_output=True,
            text=True,
            timeout=BUILD_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RigError(f"{build.module_file} could not be compiled: {error}") from error
    if done.returncode:
        raise RigError(f"{build.module_file} could not be compiled:\n{done.stderr or done.stdout}")
