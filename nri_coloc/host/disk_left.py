"""Read how much space and how many inodes are left where pods write: the kubelet's folder, and the images' file system.

statvfs needs no right to any file. In a container on overlay, statvfs of `/` reports the file system of the container's
writable layer (fs/overlayfs/super.c, ovl_statfs), which is the images' file system. So containerd's folder need not be
mounted. Nothing is read on a machine without a kubelet.
"""

import os
from typing import Final

from nri_coloc.core.readings import DiskLeft
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host import files, kubelet

IMAGES: Final = "/var/lib/containerd"
_PODS: Final = f"{kubelet.FOLDER}/pods"


class DiskLeftReader:
    """Reads below `host_root`.

    own_root, own_mounts: root and list of mounts of this process.
    """

    def __init__(
        self, host_root: str = "/", *, own_root: str = "/", own_mounts: str = "/proc/self/mounts"
    ) -> None:
        self._root = host_root.rstrip("/")
        self._own_root = own_root
        self._own_mounts = own_mounts

    def node(self) -> DiskLeft | None:
        """Read the file system of the kubelet's folder: volumes and logs; None without a kubelet."""
        return _left(f"{self._root}{_PODS}", self._root)

    def images(self) -> DiskLeft | None:
        """Read the file system of images and writable layers; None if it is unknown, or without a kubelet."""
        if not os.path.isdir(f"{self._root}{_PODS}"):  # noqa: PTH112 - never raises
            return None
        found = _left(f"{self._root}{IMAGES}", self._root)
        if found is not None or not self._is_on_overlay():
            return found
        node, images = self.node(), _left(self._own_root, self._root)
        # the device number of an overlay is no disk's; equal sizes are one file system
        is_one = node is not None and images is not None and _size(node) == _size(images)
        return images._replace(disk=node.disk) if is_one and node and images else images

    def _is_on_overlay(self) -> bool:
        """Return whether this process is in a container on overlay; its root is the host's if it reads `/`."""
        if not self._root:
            return False
        lines = (files.text(self._own_mounts) or "").splitlines()
        mounts = (line.split(" ") for line in lines)
        return any(mount[1:3] == [self._own_root, "overlay"] for mount in mounts)


def _size(one: DiskLeft) -> tuple[int, int]:
    return one.total, one.inodes


def _left(path: str, root: str) -> DiskLeft | None:
    try:
        found, device = os.statvfs(path), os.stat(path).st_dev  # noqa: PTH116 - beside statvfs
    except OSError:
        return None
    if not found.f_blocks:
        return None
    return DiskLeft(
        total=found.f_blocks * found.f_frsize,
        available=found.f_bavail * found.f_frsize,
        inodes=found.f_files,
        free_inodes=found.f_ffree,
        disk=_disk(f"{root}/sys/dev/block/{os.major(device)}:{os.minor(device)}"),
    )


def _disk(folder: str) -> str:
    """Return the number of the disk of a block device's folder, "" if there is none.

    The kernel counts the I/O of a partition for its disk, whose folder is the partition's parent.
    """
    try:
        is_part = files.text(f"{folder}/partition") is not None
        return (files.text(f"{folder}/../dev" if is_part else f"{folder}/dev") or "").strip()
    except KernelInterfaceError:
        return ""
