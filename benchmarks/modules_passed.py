"""The modules that one annotation passes from the wire to the reply, and the modules that a resizing tick passes.

    python -m benchmarks.modules_passed

The daemon runs in this process on a simulated node, with a profiler on its threads. Generated code and protocols are
not counted: the rooms of the import contract "protocols are sans-IO". Aims and reasons: decisions 52 and 67.
"""

import tempfile
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from nri_coloc.sim.node import Node
from nri_coloc.sim.spec import ContainerRequest, native
from tests.integration.harness import pod, reclaimed
from tests.integration.test_wiring import Living
from tests.rig.waiting import wait_until

GENERATED = "nri_coloc._pb"
CONTRACT = "protocols are sans-IO"
SIMULATED = "nri_coloc.sim"
READS = "_take"
"""The trunk's function that gets the bytes of a hook."""


def protocols(pyproject: Path) -> tuple[str, ...]:
    """Return the packages that the import contract calls protocols."""
    contracts = tomllib.loads(pyproject.read_text())["tool"]["importlinter"]["contracts"]
    (found,) = (each["source_modules"] for each in contracts if each["name"] == CONTRACT)
    return tuple(found)


NOT_COUNTED = (GENERATED, *protocols(Path(__file__).parents[1] / "pyproject.toml"))


class Passed:
    """Hold the modules of which a thread called a function, since `begin` and until `end` or a call that ends it."""

    def __init__(self, thread: str, until: str = "") -> None:
        self._thread = thread
        self._until = until
        self._counts = False
        self._found: set[str] = set()

    def begin(self) -> None:
        self._found, self._counts = set(), True

    def end(self) -> list[str]:
        self._counts = False
        return sorted(self._found)

    def called(self, frame: FrameType, event: str, _argument: Any) -> None:
        if event != "call" or not self._counts or threading.current_thread().name != self._thread:
            return
        name: str = frame.f_globals.get("__name__", "")
        if frame.f_code.co_name == READS and name.endswith(".trunk"):
            self._found = set()  # until now the thread has worked on the hook before
        if not name.startswith("nri_coloc.") or name.startswith(SIMULATED):
            return
        if not any(name == room or name.startswith(f"{room}.") for room in NOT_COUNTED):
            self._found.add(name)
        if self._until and frame.f_code.co_name == self._until and name.endswith(".connection"):
            self._counts = False


def to_the_reply(node: Node, creation: Passed) -> list[str]:
    pod_id = pod(node, "web", annotations={"coloc.nri.io/cpu-burst": "20"})
    creation.begin()
    node.run_container(pod_id, ContainerRequest("app", native(500, 500)))
    return creation.end()


def of_a_resize(node: Node, living: Living, tick: Passed) -> list[str]:
    """Return the modules of the first tick that resizes the reclaim pool, because online use rises."""
    reclaimed(node)
    lending = living.parts.lending.loop
    wait_until(lambda: lending.ticked_at, 30, "a tick")
    for container_id in list(node.runtime.containers):
        node.set_demand(container_id, 6.0)
    node.start_clock()
    for _ in ticks(living, 3000):
        had = living.parts.ground.node.state.pools.reclaim
        tick.begin()
        next(ticks(living, 1))
        found = tick.end()
        if living.parts.ground.node.state.pools.reclaim != had:
            return found
    raise SystemExit("the reclaim pool was not resized")


def ticks(living: Living, most: int) -> Iterator[int]:
    """Yield after each tick."""
    for number in range(most):
        last = living.parts.lending.loop.ticked_at
        wait_until(lambda known=last: living.parts.lending.loop.ticked_at != known, 30, "a tick")  # type: ignore[misc]  # known is a float
        yield number


def main() -> None:
    creation, tick = Passed("trunk", until="answer"), Passed("lending")

    def profile(*call: Any) -> None:
        creation.called(*call)
        tick.called(*call)

    threading.setprofile(profile)
    with tempfile.TemporaryDirectory() as folder, Node(Path(folder, "node"), cgroup=2) as node:
        living = Living(node, Path(folder))
        living.synchronised()
        for what, found in (
            ("one annotation from the wire to the reply", to_the_reply(node, creation)),
            ("a tick that resizes the reclaim pool", of_a_resize(node, living, tick)),
        ):
            print(f"{what}: {len(found)} modules")
            print("  " + " ".join(name.removeprefix("nri_coloc.") for name in found))
        living.end()


if __name__ == "__main__":
    main()
