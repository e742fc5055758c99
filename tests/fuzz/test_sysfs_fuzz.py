"""Any file or message is accepted, or refused with a documented error.

The parsers take every input; whole trees, which cost files, take a hundredth. The seed is fixed, so that a failure
comes back; each input is in the failure's own text.
"""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nri_coloc.core import cpuset
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host import cgroup_layout, sysfs
from nri_coloc.sim import machines

PIECES = (
    "0-3,8\n",
    ",",
    "-",
    "4095",
    "8192",
    "99999999999999999999",
    "(null)\n",
    "\n",
    "\0",
    "\udcff",
    "é",
    " ",
    "MemTotal:",
    " 1024 kB\n",
    "Node 0 ",
    "0::/kubepods",
    "3:cpu,cpuacct:/",
    ":",
    "/",
    "..",
    ".",
    ".slice",
    "kubepods-besteffort-pod1.slice",
    ":cri-containerd:",
    "\\x2d",
    "name=systemd",
    " (deleted)",
    "a" * 300,
    "Unified\n",
    "9" * 5000,
)  # fmt: skip - a pile of scraps, not a table


@pytest.fixture
def inputs(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("--fuzz-inputs", default=2000))


def scraps(count: int, seed: int) -> Iterator[str]:
    """Yield texts of valid pieces, broken ones and noise."""
    source = random.Random(seed)
    for _ in range(count):
        text = "".join(source.choices(PIECES, k=source.randint(0, 6)))
        if text and source.random() < 0.5:
            at = source.randrange(len(text))
            text = text[:at] + chr(source.randrange(0x250)) + text[at + source.randint(0, 2) :]
        yield text


def leaves_no_trace_of_escape(path: str) -> bool:
    components = path.split("/")
    return not path.startswith("/") and ".." not in components and "\0" not in path and "." not in components


def test_a_cpulist_is_a_set_in_bounds_or_a_value_error(inputs):
    for text in scraps(inputs, seed=1):
        try:
            mask = cpuset.parse(text)
        except ValueError:
            continue
        assert 0 <= mask < 1 << (cpuset.MAX_CPU_ID + 1), text
        assert cpuset.parse(cpuset.render(mask)) == mask, text


@pytest.mark.parametrize(
    "turn", [cgroup_layout.container_path, cgroup_layout.pod_path], ids=["container", "pod"]
)
def test_a_cgroup_notation_stays_below_the_root_or_fails(turn: Callable[[str], str], inputs):
    for text in scraps(inputs, seed=2):
        try:
            path = turn(text)
        except ValueError:
            continue
        assert leaves_no_trace_of_escape(path), text


def test_a_broken_tree_is_a_machine_or_an_error(tmp_path: Path, inputs):
    machines.plant(machines.MACHINES["8cpu"], tmp_path)
    files = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    source = random.Random(4)
    for text in scraps(max(inputs // 100, 1), seed=5):
        victims = source.sample(files, k=source.randint(1, 3))
        kept = [path.read_bytes() for path in victims]
        for path in victims:
            path.write_bytes(text.encode("utf-8", "surrogateescape"))
        blamed = _blamed(tmp_path, text)
        assert blamed is None or blamed in map(str, victims), text
        for path, content in zip(victims, kept, strict=True):
            path.write_bytes(content)


def _blamed(root: Path, text: str) -> str | None:
    """Return the path that an error names when the tree is read."""
    try:
        machine = sysfs.read(str(root))
    except KernelInterfaceError as error:
        return error.path
    assert machine.online == sum(machine.cores) == sum(node.cpus for node in machine.nodes), text
    return None
