"""One emulated machine from its start on: files for the guest, the emulator, and the guest's records.

The guest appends one JSON line for each scenario to `results`. A scenario on the host waits until its line is there,
the machine has ended, or no event came for too long. A new machine means a new, empty folder.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.cluster import binaries
from tests.rig import RigError, packages
from tests.rig.waiting import poll
from tests.vm import initramfs, kernel, kubelet, programs
from tests.vm.shapes import Shape

PROJECT: Final = Path(__file__).parents[2]
FOLDER: Final = PROJECT / "build/vm"
BOOT_SECONDS: Final = 300
SCENARIO_SECONDS: Final = 900  # emulated, on an idle host, each takes 1 to 60; its own waits end before
# setpriv: the emulator ends with the process that started it, even if that process is killed
EMULATOR: Final = ("setpriv", "--pdeathsig", "KILL", "qemu-system-x86_64")
HUGE_PAGES: Final = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
"""The emulator looks translated code up in one large table. With pages of 4 KiB each look missed the processor's caches
of addresses: 28 % of all its time."""

COMMAND_LINE: Final = (
    "console=ttyS0 quiet panic=-1 psi=1 "
    # hardware that an emulated machine lacks; and no tsc: where the host is busy, it was seen to run 2.5 times too fast
    "mitigations=off nowatchdog no_timer_check random.trust_cpu=on notsc clocksource=hpet "
    # the kernel unmaps pages to see which node uses them, in proportion to a process's time, which runs on while its
    # CPU waits: the busier the host, the more of it. And 2 MiB were cleared where a program wants 4 KiB
    "numa_balancing=disable transparent_hugepage=never"
)
_SERVICE: Final = """\
[Unit]
Description=The scenarios
DefaultDependencies=no
[Service]
ExecStart=/bin/sh @MAIN@
KillMode=process
Delegate=yes
"""


@dataclass(frozen=True, slots=True)
class Record:
    """Hold the guest's record of one scenario.

    report: pytest's own text if it failed.
    spent: see guest/spent.py.
    """

    scenario: str
    passed: bool
    seconds: float
    report: str = ""
    spent: Mapping[str, float] = field(default_factory=dict)


def is_compiled(shape: Shape) -> bool:
    """Return whether a machine of this shape can be switched on without compiling."""
    return not shape.kubelet or all(build.is_cached for build in kubelet.builds())


def fetched() -> tuple[kernel.Kernel, Path]:
    """Return the kernel and busybox, and fetch all packages that machines need; the first time from the mirror."""
    programs.install_missing()
    core = kernel.prepared()
    for name in ("containerd-2", "runc"):
        packages.unpacked(name)  # the guest has no network to fetch them
    return core, packages.unpacked("busybox").program("busybox")


class Machine:
    """Run a machine; always call `close`, also after it has switched itself off."""

    def __init__(self, shape: Shape, scenarios: Sequence[str]) -> None:
        self.shape = shape
        self.folder = FOLDER / shape.name
        self._scenarios = scenarios
        self._process: subprocess.Popen[bytes] | None = None
        self._started = 0.0

    def start(self) -> None:
        """Prepare the machine and switch it on; RigError names what the host lacks."""
        core, busybox = fetched()
        for build in kubelet.builds() if self.shape.kubelet else ():
            binaries.programs(build)  # the guest has no compiler
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self._write_files(core, busybox)
        archive = self.folder / "initramfs"
        archive.write_bytes(initramfs.archive(core, busybox))
        self._started = time.monotonic()
        with (self.folder / "emulator").open("wb") as said:
            self._process = subprocess.Popen(
                self._command(core, archive),
                env=os.environ | HUGE_PAGES,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
            )

    def record(self, scenario: str) -> Record:
        """Return a scenario's record when it ends; RigError if the machine ended or stands still."""
        poll(lambda: scenario in self._records() or self.is_off or self._is_stuck, 3600)
        found = self._records().get(scenario)
        if found is None:
            state = "is off" if self.is_off else "stands still"
            raise RigError(f"the machine {self.shape.name} {state} before the scenario's end\n{self.tail()}")
        return found

    def close(self) -> None:
        """Switch the machine off, at once."""
        if self._process is not None and self._process.poll() is None:
            poll(lambda: self.is_off, 20 if self._records().keys() >= set(self._scenarios) else 0)
            self._process.kill()
            self._process.wait()

    def tail(self, lines: int = 40) -> str:
        """Return the last lines of the emulator, the console and the guest's programs."""
        parts = []
        for name in ("emulator", "console", "log"):
            path = self.folder / name
            text = path.read_text(errors="replace") if path.exists() else ""
            parts.append("\n".join([f"--- {path}", *text.splitlines()[-lines:]]))
        return "\n".join(parts)

    @property
    def is_off(self) -> bool:
        """Return whether the machine has ended, or never ran."""
        return self._process is None or self._process.poll() is not None

    @property
    def _is_stuck(self) -> bool:
        """Return whether too much time has passed since the start, or since the last record."""
        results = self.folder / "results"
        if not results.exists():
            return time.monotonic() - self._started > BOOT_SECONDS + SCENARIO_SECONDS
        return time.time() - results.stat().st_mtime > SCENARIO_SECONDS

    def _records(self) -> dict[str, Record]:
        results = self.folder / "results"
        lines = results.read_text().split("\n")[:-1] if results.exists() else []
        return {record.scenario: record for record in (Record(**json.loads(line)) for line in lines)}

    def _write_files(self, core: kernel.Kernel, busybox: Path) -> None:
        main = Path(__file__).parent / "guest/main.sh"
        environment = {
            "PATH": f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin",
            "HOME": str(Path.home()),
            "PYTHONPATH": str(PROJECT),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # importing them takes seconds there
            "VM_SHAPE": self.shape.name,
            "VM_SYSTEMD": "yes" if self.shape.systemd else "no",
            "VM_MAIN": str(main),
            "VM_PROJECT": str(PROJECT),
            "VM_PYTHON": sys.executable,
            "VM_BUSYBOX": str(busybox),
            "VM_MODULES": str(core.modules),
            "VM_SCENARIO_SECONDS": str(SCENARIO_SECONDS - 20),
        }
        if cache := os.environ.get("XDG_CACHE_HOME"):
            environment["XDG_CACHE_HOME"] = cache
        lines = [f"export {name}={shlex.quote(value)}\n" for name, value in environment.items()]
        (self.folder / "environment").write_text("".join(lines))
        (self.folder / "scenarios").write_text("".join(f"{name}\n" for name in self._scenarios))
        (self.folder / "vm.service").write_text(_SERVICE.replace("@MAIN@", str(main)))

    def _command(self, core: kernel.Kernel, archive: Path) -> list[str]:
        shape = self.shape
        shares = {"host": ("/", ",readonly=on,multidevs=remap"), "vm": (str(self.folder), "")}
        folders = [
            word
            for tag, (path, how) in shares.items()
            for word in ("-virtfs", f"local,path={path},mount_tag={tag},security_model=none{how}")
        ]
        return [
            *(*EMULATOR, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
            # one thread for all CPUs: with one for each, the guest was seen to run into a breakpoint of its own (int3
            # of a static key just being patched), and on two busy CPUs all took three times as long
            *("-machine", "q35,usb=off", "-accel", "tcg,thread=single,tb-size=1024"),
            # without erms the kernel does not copy and clear byte by byte (rep movsb), as emulation does it; la57 is a
            # fifth level of page tables, to be walked whenever an address is looked up. After a cmpxchg16b of the
            # kernel's allocator the flags were seen to hold a part of RAX, and the guest ended in a double fault
            *("-cpu", "max,erms=off,fsrm=off,la57=off,cx16=off"),
            *("-smp", f"{shape.cpus},sockets={shape.sockets},cores={shape.cores},threads={shape.threads}"),
            *("-m", f"{shape.memory_mib}M", *_nodes(shape), *folders),
            *("-serial", f"file:{self.folder / 'console'}"),
            *("-kernel", str(core.image), "-initrd", str(archive), "-append", COMMAND_LINE),
        ]


def _nodes(shape: Shape) -> Iterator[str]:
    size = shape.memory_mib // shape.nodes
    for node in range(shape.nodes):
        yield from ("-object", f"memory-backend-ram,id=memory{node},size={size}M")
        yield from ("-numa", f"node,nodeid={node},cpus={shape.node_cpus(node)},memdev=memory{node}")
