"""The archive that the kernel unpacks before there is a root: busybox, a few modules, and `guest/boot.sh`.

Format: cpio "newc" (Documentation/driver-api/early-userspace/buffer-format in the kernel's tree).
"""

import lzma
from pathlib import Path
from typing import Final

from tests.vm.kernel import Kernel

MODULES: Final = ("9pnet_virtio", "9p", "overlay")
_BOOT: Final = Path(__file__).parent / "guest/boot.sh"
_FOLDERS: Final = ("bin", "dev", "proc", "modules", "host", "memory", "root")
_FOLDER, _PROGRAM, _FILE, _DEVICE = 0o040755, 0o100755, 0o100644, 0o020600


def archive(kernel: Kernel, busybox: Path) -> bytes:
    """Return the whole archive; the names of modules carry their place in the order of loading."""
    entries = [_entry(folder, _FOLDER) for folder in _FOLDERS]
    entries.append(_entry("dev/console", _DEVICE, device=(5, 1)))
    entries.append(_entry("bin/busybox", _PROGRAM, busybox.read_bytes()))
    entries.append(_entry("init", _PROGRAM, _BOOT.read_bytes()))
    for number, path in enumerate(kernel.needed(*MODULES)):
        entries.append(_entry(f"modules/{number:02}-{path.name.partition('.')[0]}.ko", _FILE, _plain(path)))
    return b"".join([*entries, _entry("TRAILER!!!", 0)])


def _plain(module: Path) -> bytes:
    data = module.read_bytes()
    return lzma.decompress(data) if module.suffix == ".xz" else data


def _entry(name: str, mode: int, data: bytes = b"", device: tuple[int, int] = (0, 0)) -> bytes:
    named = name.encode() + b"\0"
    # inode, mode, uid, gid, links, mtime, size, device of the file, device that it is, name's length, checksum
    fields = (0, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(named), 0)
    head = b"070701" + b"".join(b"%08x" % field for field in fields) + named
    return _padded(head) + _padded(data)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)
