"""host/journal.py: threads write one pod between each other's steps, the process is killed, and `restore` knows all.

A step is one read or write of a file. Wherever a thread does not hold the writer's lock, another one may come first.
"""

import tempfile
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nri_coloc.core.knobs import Knobs
from nri_coloc.host import files, knob_files
from nri_coloc.host.bandwidth_files import SHOWN_S, PodBandwidth, Share
from nri_coloc.host.knob_files import FileValue, Later, Target
from tests.rig import examples
from tests.rig.journals import restored
from tests.unit.host.host import Host

OWN: Final = 50_000
GIB: Final = 1 << 30
FOUND: Final = {
    1: {
        "cpu.shares": "1024",
        "cpu.cfs_quota_us": f"{OWN}",
        "cpu.cfs_period_us": "100000",
        "cpu.cfs_burst_us": "0",
        "memory.limit_in_bytes": f"{8 * GIB}",
        "memory.memsw.limit_in_bytes": f"{9 * GIB}",
        "memory.usage_in_bytes": f"{GIB}",
        "cpuset.cpus": "0-7",
    },
    2: {
        "cpu.weight": "39",
        "cpu.max": f"{OWN} 100000",
        "cpu.max.burst": "0",
        "memory.high": "max",
        "memory.max": f"{8 * GIB}",
        "memory.swap.max": "max",
        "memory.low": "0",
        "memory.current": f"{GIB}",
        "cpuset.cpus": "0-7",
        "cpuset.cpus.effective": "0-7",
    },
}
PUSHES: Final = (
    Knobs(quota=20_000),
    Knobs(quota=-1),
    Knobs(quota=30_000, period=100_000),
    Knobs(shares=512),
    Knobs(shares=2048, memory_limit=4 * GIB, cpus="2-3"),
    Knobs(shares=256, memory_limit=2 * GIB),
)
RAISES: Final = (None, 60_000, 80_000, 40_000)
LIMITS: Final = (GIB // 2, 3 * GIB, 5 * GIB)


class Killed(BaseException):
    """The end of the process."""


class Threads:
    """The daemon's threads on one pod; each draws what comes next from `orders`."""

    def __init__(self, root: Path, version: int, orders: Random) -> None:
        self.host = Host(root, version)
        for path in ("pod", "pod/app"):
            for name, text in FOUND[version].items():
                file = self.host.file(name, path)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(f"{text}\n")
        self.writer = self.host.writer
        self.orders = orders
        self.left = orders.randrange(1, 150)
        self.running: set[str] = set()
        self.later: list[Later] = []
        self.now = 0.0
        self.read, self.write = files.read, files.write

    def one(self) -> None:
        """Let a thread that waits for orders carry one out."""
        thread = self.orders.choice(("pusher", "quotas", "actuator", "memory", "sweep"))
        if thread not in self.running:
            self.running.add(thread)
            getattr(self, thread)()
            self.running.discard(thread)

    def chance(self) -> bool:
        return self.orders.random() < 0.5

    def step(self) -> None:
        """Come to a step of a thread: the process may be killed here, and another thread may be faster."""
        self.left -= 1
        if self.left <= 0:
            raise Killed
        if not self.writer._lock.locked() and len(self.running) < 4 and self.chance():
            self.one()

    def seen(self, path: str) -> str | None:
        self.step()
        return self.read(path)

    def written(self, path: str, text: str) -> bool:
        self.step()
        return self.write(path, text)

    # ---- the threads ----

    def pusher(self) -> None:
        changes = self.orders.choice(PUSHES)
        self.writer.remember("pod/app", changes)
        self.step()
        if self.chance():  # else the runtime refuses
            for name, text in self.of_spec(changes):
                self.host.file(name, "pod/app").write_text(f"{text}\n")
                self.step()
        self.writer.arrived()

    def of_spec(self, changes: Knobs) -> list[tuple[str, str]]:
        """Return what the runtime writes."""
        found = [(each.name, each.text) for each in knob_files.in_spec(changes, self.host.version)]
        if changes.quota is not None and self.host.version == 1:
            found.append(("cpu.cfs_quota_us", str(changes.quota)))
        elif changes.quota is not None:
            found.append(("cpu.max", f"{'max' if changes.quota < 0 else changes.quota} 100000"))
        return found + ([] if changes.cpus is None else [("cpuset.cpus", changes.cpus)])

    def quotas(self) -> None:
        quota, burst = self.orders.choice(RAISES), self.orders.choice((None, 10_000))
        share = Share(OWN, quota, burst, is_changed=self.chance())
        self.now += SHOWN_S
        self.writer.bandwidth(PodBandwidth("pod", {"pod/app": share}), self.now)

    def actuator(self) -> None:
        orders = self.orders.choice(PUSHES)
        if self.chance():
            values = knob_files.in_spec(orders, self.host.version)
            path = "pod/app"
        else:
            values = knob_files.in_spec(Knobs(shares=orders.shares), self.host.version)
            if self.host.version == 2:
                values = (*values, FileValue("memory", "memory.high", str(GIB // 4)))
            path = "pod"
        self.later += self.writer.apply(Target(path, 0, values, journalled=True)).later

    def memory(self) -> None:
        if self.later and self.chance():
            self.later.pop(0).write()
        elif self.chance():
            limit = self.orders.choice(LIMITS)
            self.writer.bound("pod", knob_files.memory_bounds(limit // 2, limit, self.host.version))
        else:
            self.writer.unbound("pod")

    def sweep(self) -> None:
        what = (
            self.writer.held_back,
            self.writer.tidy,
            partial(self.writer.unbound, "pod"),
            partial(self.writer.put_back, "pod", frozenset(), ()),
            partial(self.writer.protect, "pod", "memory.low", GIB),
            partial(self.writer.protect, "pod", "memory.low", 0),
        )
        self.orders.choice(what)()

    # ---- the end ----

    def wrong(self) -> list[tuple[str, str, str]]:
        """Restore by the journal that was left; return the files with another value than before us."""
        restored(self.host.journal_path, self.host.root, self.host.version)
        texts = FOUND[self.host.version]
        shown = ((path, name, self.host.text(name, path)) for path in ("pod", "pod/app") for name in texts)
        return [(path, name, text) for path, name, text in shown if text != texts[name]]


@pytest.mark.parametrize("version", [1, 2])
@settings(max_examples=examples.times(1))
@given(seed=st.integers(0, 1 << 32))
def test_a_kill_between_any_two_steps_loses_no_original_value(version, seed):
    with tempfile.TemporaryDirectory() as folder:
        threads = Threads(Path(folder), version, Random(seed))
        with pytest.MonkeyPatch.context() as patch, suppress(Killed):
            patch.setattr(files, "read", threads.seen)
            patch.setattr(files, "write", threads.written)
            while True:
                threads.one()
        assert threads.wrong() == []
