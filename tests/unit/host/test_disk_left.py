"""host.disk_left reads the file systems of a kubelet's node, and nothing on other machines."""

import os
from pathlib import Path

import pytest

from nri_coloc.host.disk_left import DiskLeftReader


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "var/lib/kubelet/pods").mkdir(parents=True)
    return tmp_path


def reader(root: Path, mounts: str = "") -> DiskLeftReader:
    (root / "mounts").write_text(mounts)
    return DiskLeftReader(str(root), own_root=str(root), own_mounts=str(root / "mounts"))


def test_the_kubelets_file_system_is_read(root: Path):
    found, known = reader(root).node(), os.statvfs(root)
    assert found is not None
    assert (found.total, found.inodes) == (known.f_blocks * known.f_frsize, known.f_files)
    assert 0 <= found.available <= found.total
    assert 0.0 <= found.inodes_left <= 1.0


def test_the_folder_of_containerd_has_the_images(root: Path):
    (root / "var/lib/containerd").mkdir()
    assert reader(root).images() is not None


@pytest.mark.parametrize(
    ("mounts", "is_known"),
    [
        ("overlay {root} overlay rw,upperdir=/a 0 0\n", True),
        ("/dev/sda1 {root} ext4 rw 0 0\n", False),
        ("overlay {root}/below overlay rw 0 0\n", False),
        ("nonsense\n", False),
        ("", False),
    ],
)
def test_a_container_on_overlay_sees_the_images(root: Path, mounts: str, is_known):
    assert (reader(root, mounts.format(root=root)).images() is not None) is is_known


@pytest.mark.parametrize(("part", "number"), [("", "254:0"), ("1\n", "8:0")], ids=["a disk", "a partition"])
def test_the_disk_of_the_file_system_is_named(root: Path, part: str, number: str):
    device = root.stat().st_dev
    disk = root / "sys/devices/disk"
    folder = disk / "part" if part else disk
    folder.mkdir(parents=True)
    (disk / "dev").write_text(f"{number}\n")
    if part:
        (folder / "partition").write_text(part)
    (root / "sys/dev/block").mkdir(parents=True)
    (root / f"sys/dev/block/{os.major(device)}:{os.minor(device)}").symlink_to(folder)
    found = reader(root).node()
    assert found is not None
    assert found.disk == number


def test_images_on_the_kubelets_disk_have_its_number(root: Path):
    device = root.stat().st_dev
    folder = root / f"sys/dev/block/{os.major(device)}:{os.minor(device)}"
    folder.mkdir(parents=True)
    (folder / "dev").write_text("8:16\n")
    found = reader(root, f"overlay {root} overlay rw 0 0\n").images()
    assert found is not None
    assert found.disk == "8:16"


def test_a_machine_without_kubelet_has_no_readings(tmp_path: Path):
    found = reader(tmp_path, f"overlay {tmp_path} overlay rw 0 0\n")
    assert (found.node(), found.images()) == (None, None)
