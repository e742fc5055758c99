"""Images without a registry: a docker-archive made of one static busybox.

`docker.io/local/pause:1` sleeps for ever, and `docker.io/local/busybox:1` has the same layer. Every
time stamp is zero and every owner root, so the same busybox always gives the same bytes.
"""

import hashlib
import io
import json
import subprocess
import tarfile
from pathlib import Path
from typing import Any, Final

PAUSE: Final = "docker.io/local/pause:1"
BUSYBOX: Final = "docker.io/local/busybox:1"
SLEEP: Final = ("/bin/sleep", "1000000")

_APPLETS: Final = ("sh", "sleep", "cat", "true", "yes", "dd", "taskset", "nproc", "grep", "ls", "kill", "env")
_FOLDERS: Final = ("bin", "etc", "proc", "sys", "dev", "tmp")


def write_archive(busybox: Path, target: Path) -> Path:
    """Return one archive with both images, which `ctr images import` takes."""
    layer = _layer(busybox.read_bytes())
    with tarfile.open(target, "w") as archive:
        _add(archive, "layer.tar", layer)
        manifest = []
        for tag, name in ((PAUSE, "pause.json"), (BUSYBOX, "busybox.json")):
            _add(archive, name, _json(_config(layer)))
            manifest.append({"Config": name, "RepoTags": [tag], "Layers": ["layer.tar"]})
        _add(archive, "manifest.json", _json(manifest))
    return target


def _layer(busybox: bytes) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as layer:
        for name in _FOLDERS:
            _add_entry(layer, name, tarfile.DIRTYPE)
        _add(layer, "bin/busybox", busybox, mode=0o755)
        _add(layer, "etc/passwd", b"root:x:0:0:root:/:/bin/sh\n")
        for name in _APPLETS:
            _add_entry(layer, f"bin/{name}", tarfile.SYMTYPE, target="busybox")
    return content.getvalue()


def _config(layer: bytes) -> dict[str, Any]:
    architecture = subprocess.check_output(["dpkg", "--print-architecture"], text=True).strip()
    return {
        "architecture": architecture,
        "os": "linux",
        "config": {"Entrypoint": list(SLEEP), "Env": ["PATH=/bin"], "WorkingDir": "/"},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()


def _add(archive: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))


def _add_entry(archive: tarfile.TarFile, name: str, kind: bytes, target: str = "") -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode, entry.linkname = kind, 0o755, target
    archive.addfile(entry)
