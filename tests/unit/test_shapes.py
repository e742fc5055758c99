"""Folders of scenarios and shapes of machines belong together, and a machine's parts add up."""

import lzma
import re
from pathlib import Path

import pytest

from tests.rig import RigError
from tests.vm import initramfs
from tests.vm.conftest import SCENARIOS
from tests.vm.kernel import Kernel
from tests.vm.machine import PROJECT
from tests.vm.shapes import SHAPES, Shape


def test_every_folder_of_scenarios_has_its_machine():
    assert {path.parent.name for path in SCENARIOS.rglob("test_*.py")} == SHAPES.keys()


def test_the_documentations_example_is_a_scenario_that_is_played():
    (example,) = re.findall(r"```python\n(.*?)```", (PROJECT / "docs/testing.md").read_text(), re.DOTALL)
    assert example == (SCENARIOS / "two_sockets/test_memory_nodes.py").read_text()


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_every_cpu_and_all_memory_belong_to_a_node(shape: Shape):
    ranges = [shape.node_cpus(node) for node in range(shape.nodes)]
    assert (ranges[0].partition("-")[0], ranges[-1].partition("-")[2]) == ("0", str(shape.cpus - 1))
    assert shape.cpus % shape.nodes == shape.memory_mib % shape.nodes == 0


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    """Return a kernel with five modules, of which three are wanted and need the others."""
    needs = {"fs/9p.ko.xz": "net/9pnet.ko.xz fs/netfs.ko.xz", "net/9pnet_virtio.ko.xz": "net/9pnet.ko.xz"}
    lines = [
        f"{file}: {needs.get(file, '')}"
        for file in (*needs, "net/9pnet.ko.xz", "fs/netfs.ko.xz", "overlay.ko")
    ]
    (tmp_path / "modules.dep").write_text("\n".join(lines))
    for line in lines:
        file = tmp_path / line.partition(":")[0]
        file.parent.mkdir(exist_ok=True)
        name = file.name.encode()
        file.write_bytes(lzma.compress(name) if file.suffix == ".xz" else name)
    return Kernel(tmp_path / "vmlinuz", "6.12", tmp_path)


def test_modules_come_after_what_they_need(kernel: Kernel):
    names = [path.name.partition(".")[0] for path in kernel.needed(*initramfs.MODULES)]
    assert names == ["9pnet", "9pnet_virtio", "netfs", "9p", "overlay"]


def test_a_kernel_without_a_module_is_named(kernel: Kernel):
    with pytest.raises(RigError, match=r"6\.12 has no modules ext9"):
        kernel.needed("ext9")


def test_the_archive_holds_plain_modules_in_the_order_of_loading(kernel: Kernel):
    archive = initramfs.archive(kernel, kernel.modules / "overlay.ko")
    places = [
        archive.index(f"modules/0{n}-{name}.ko\0".encode())
        for n, name in enumerate(("9pnet", "9pnet_virtio"))
    ]
    assert places == sorted(places)
    assert b"9pnet.ko.xz" in archive  # the module's content, which its file holds compressed
    assert len(archive) % 4 == 0
