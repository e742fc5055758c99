"""host/block_devices.py: the disks on which an I/O weight acts are found."""

from pathlib import Path

import pytest

from nri_coloc.host import block_devices
from nri_coloc.host.block_devices import Disk
from nri_coloc.host.cgroup_layout import CgroupLayout

V1 = CgroupLayout(1)


def disk(root: Path, name: str, scheduler: str = "[none] mq-deadline bfq\n", number: str = "8:0\n") -> None:
    folder = root / "sys/block" / name
    (folder / "queue").mkdir(parents=True)
    (folder / "queue/scheduler").write_text(scheduler)
    (folder / "dev").write_text(number)


def v2(root: Path, cost: str = "") -> CgroupLayout:
    folder = root / "sys/fs/cgroup"
    folder.mkdir(parents=True)
    (folder / "io.cost.qos").write_text(cost)
    return CgroupLayout(2, unified=str(folder))


@pytest.mark.parametrize(
    ("scheduler", "chosen", "weighs"),
    [("[none] bfq", "none", False), ("mq-deadline [bfq] none", "bfq", True), ("none", "", False)],
    ids=["not-selected", "selected", "no-scheduler-at-all"],
)
def test_bfq_makes_a_weight_act_where_it_is_selected(tmp_path, scheduler, chosen, weighs):
    disk(tmp_path, "sda", scheduler)
    (found,) = block_devices.read(str(tmp_path), V1)
    assert found == Disk("sda", chosen, io_cost=False)
    assert found.weighs is weighs


@pytest.mark.parametrize(
    ("cost", "weighs"),
    [
        ("", False),
        ("8:0 enable=0 ctrl=auto\n", False),
        ("8:0 enable=1 ctrl=user rpct=95.00\n", True),
        ("8:16 enable=1 ctrl=auto\n", False),
    ],
    ids=["empty", "switched-off", "switched-on", "another-disk"],
)
def test_io_cost_makes_a_weight_act_where_it_is_switched_on(tmp_path, cost, weighs):
    disk(tmp_path, "sda")
    (found,) = block_devices.read(str(tmp_path), v2(tmp_path, cost))
    assert (found.io_cost, found.weighs) == (weighs, weighs)


def test_devices_on_top_of_others_are_left_out(tmp_path):
    for name in ("vda", "loop0", "dm-0", "zram0", "nvme0n1"):
        disk(tmp_path, name)
    assert [d.name for d in block_devices.read(str(tmp_path), V1)] == ["nvme0n1", "vda"]


def test_a_machine_without_disks_has_none(tmp_path):
    assert block_devices.read(str(tmp_path), V1) == ()


def test_each_disk_has_its_word_and_the_reason():
    disks = (
        Disk("sda", "bfq", io_cost=False),
        Disk("sdb", "none", io_cost=True),
        Disk("vda", "", io_cost=False),
    )
    assert block_devices.words(disks) == "sda yes (bfq), sdb yes (none, io.cost), vda no (no scheduler)"
