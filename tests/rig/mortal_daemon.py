"""The real daemon that kills itself, with no chance to tidy up, at one named step of its work.

Run instead of `python -m nri_coloc`. The first argument is a file with the step at which the daemon dies, such as
"StartContainer/journalled". It is read again whenever such work begins. In a hook the daemon dies for a pod with the
annotation DOOMED and for no other. Everything else is the product, untouched. A SIGKILL to itself acts as a kill from
outside does, but at an exact moment.
"""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NoReturn

from nri_coloc.cli import main
from nri_coloc.core.decisions import Outcome
from nri_coloc.core.state import NodeState
from nri_coloc.forecast.forecast_file import ForecastFile
from nri_coloc.hooks.creation import Creation
from nri_coloc.hooks.trunk import Hooks, Trunk
from nri_coloc.host import files
from nri_coloc.host.journal import Journal
from nri_coloc.lending.relocation import Relocation
from nri_coloc.nri import events
from nri_coloc.nri.calls import HookKind
from nri_coloc.placing import node as brain
from nri_coloc.repair.actuator import Actuator
from nri_coloc.runtime.connection import Connection
from nri_coloc.runtime.pusher import Pusher
from tests.rig.told import texts

PROGRAM: Final = ("-m", "tests.rig.mortal_daemon")
DOOMED: Final = "rig.test/doomed"

HOOKS: Final[dict[str, tuple[str, ...]]] = {
    "Configure": ("asked", "answered"),
    "Synchronize": ("asked", "answered", "decided", "journalled", "written"),
    "RunPodSandbox": ("asked", "decided", "journalled", "written", "answering", "answered"),
    "CreateContainer": ("asked", "decided", "answered", "written", "foreseen"),
    "PostCreateContainer": ("asked", "answered"),
    "StartContainer": ("asked", "decided", "journalled", "written", "waiting", "answering", "answered"),
    "PostStartContainer": ("asked", "answered", "decided"),
    "UpdateContainer": ("asked", "decided", "written", "answering", "answered"),
    "PostUpdateContainer": ("asked", "answered", "written"),
    "StopContainer": ("asked", "decided", "answered", "written"),
    "RemoveContainer": ("asked", "decided", "answered"),
    "StopPodSandbox": ("asked", "answered", "decided"),
    "RemovePodSandbox": ("asked", "answered", "decided"),
}
"""Every hook and what there is to die at, in the order in which it comes.

`asked`: nothing is decided. `decided`: it is, and nobody knows; where nothing is written first the answer is next.
`journalled`: what a file held is in the journal, the value is not in the file. `written`: one file is, the next is not.
`waiting`: a start waits for its CPUs. `answering`: all is written, the answer has not left. `answered`: it has, nothing
is done after it. `foreseen`: it has, nothing is decided."""

NEVER_HEARD: Final = frozenset({"UpdatePodSandbox", "PostUpdatePodSandbox"})
"""Hooks that no runtime of the rig knows (NRI 0.10 has them first): we answer them and do nothing."""

PUSH: Final = ("push/asked", "push/recognised", "push/answered")
"""Before the call leaves; while the runtime, which has its lock, waits for our own hook; before we note the result."""

SHRINK: Final = "shrink/written"
"""Between two files of a box that gives CPUs back."""

SAVE: Final = "save/written"
"""What was learnt is on the disk beside the former checkpoint, and not in its place."""


def die() -> NoReturn:
    """Kill this process with SIGKILL."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("no process survives this")


class Fate:
    """Decide whether the present work is the last, and at which moment of it the daemon dies."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._moment = ""
        self._doomed = False
        self._pushed: dict[str, bool] = {}

    def begin(self, work: str) -> None:
        """Note that a piece of work begins."""
        named, _, moment = self._file.read_text().partition("/")
        if named == work:
            self._moment = moment
            self.reach("asked")

    def reach(self, moment: str) -> None:
        """Die if this moment is the chosen one."""
        if moment == self._moment:
            die()

    # ---- where work begins: each method replaces one of the product's ----

    def serve(self, hooks: Hooks, hook: events.Hook, *others: Any) -> None:
        """Replace `Hooks.serve`; an update begins once it is known to be no push of our own."""
        self._doomed = DOOMED in texts(hook.pod.annotations)
        if self._doomed and hook.kind is not HookKind.UPDATE_CONTAINER and not self._of_push(hook):
            self.begin(hook.kind.value)
        _serve(hooks, hook, *others)
        if (
            self._moment != "written"
        ):  # cgroups are also moved after the answer; all other moments have passed or never come
            self._moment = ""

    def _of_push(self, hook: events.Hook) -> bool:
        """Return whether the hook reports an update that was our own; updates of others may come in between."""
        if hook.kind is not HookKind.POST_UPDATE_CONTAINER or hook.container is None:
            return False
        return self._pushed.get(hook.container.id, False)

    def configure(self, trunk: Trunk, *others: Any) -> None:
        """Replace `Trunk._configure`: its answer is sent with nothing between."""
        self.begin("Configure")
        _configure(trunk, *others)
        self.reach("answered")

    def synchronize(self, trunk: Trunk, *others: Any) -> None:
        """Replace `Trunk._synchronize`."""
        self.begin("Synchronize")
        _synchronize(trunk, *others)

    def push(self, pusher: Pusher, *others: Any) -> None:
        """Replace `Pusher._send`."""
        self.begin("push")
        _push(pusher, *others)
        self.reach("answered")

    def carry_out(self, relocation: Relocation, outcome: Outcome, before: NodeState) -> None:
        """Replace `Relocation.carry_out`."""
        if outcome.state.pools.reclaim.bit_count() < before.pools.reclaim.bit_count():
            self.begin("shrink")
        _carry_out(relocation, outcome, before)

    def save(self, file: ForecastFile, *others: Any) -> None:
        """Replace `ForecastFile.save`."""
        self.begin("save")
        _save(file, *others)

    # ---- the moments ----

    def answer(self, connection: Connection, *others: Any) -> None:
        """Replace `Connection.answer`."""
        self.reach("answering")
        _answer(connection, *others)
        self.reach("answered")

    def note(self, journal: Journal, file: str, *others: Any) -> None:
        """Replace `Journal.note`; a file that the journal holds already is not written again."""
        holds = journal.original(file) is not None
        _note(journal, file, *others)
        if not holds:
            self.reach("journalled")

    def recognises(self, pusher: Pusher, container_id: str, *others: Any) -> bool:
        """Replace `Pusher.recognises`, which is called first for every update."""
        found = self._pushed[container_id] = _recognises(pusher, container_id, *others)
        if found:
            self.reach("recognised")
        elif self._doomed:
            self.begin("UpdateContainer")
        return found

    def before(self, moment: str, work: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function with a moment before it."""

        def woven(*arguments: Any, **named: Any) -> Any:
            self.reach(moment)
            return work(*arguments, **named)

        return woven

    def after(self, work: Callable[..., Any], moment: str) -> Callable[..., Any]:
        """Return the function with a moment after it."""

        def woven(*arguments: Any, **named: Any) -> Any:
            found = work(*arguments, **named)
            self.reach(moment)
            return found

        return woven


_serve: Final[Callable[..., None]] = Hooks.serve
_configure: Final[Callable[..., None]] = Trunk._configure
_synchronize: Final[Callable[..., None]] = Trunk._synchronize
_push: Final[Callable[..., None]] = Pusher._send
_carry_out: Final[Callable[..., None]] = Relocation.carry_out
_save: Final[Callable[..., None]] = ForecastFile.save
_answer: Final[Callable[..., None]] = Connection.answer
_note: Final[Callable[..., None]] = Journal.note
_recognises: Final[Callable[..., bool]] = Pusher.recognises


def _weave(fate: Fate) -> None:
    """Replace the steps in the product's own classes."""
    places: tuple[tuple[Any, str, Callable[..., Any]], ...] = (
        (Hooks, "serve", fate.serve),
        (Trunk, "_synchronize", fate.synchronize),
        (Trunk, "_configure", fate.configure),
        (Pusher, "_send", fate.push),
        (Relocation, "carry_out", fate.carry_out),
        (ForecastFile, "save", fate.save),
        (Connection, "answer", fate.answer),
        (Journal, "note", fate.note),
        (Pusher, "recognises", fate.recognises),
        (Actuator, "await_departure", fate.before("waiting", Actuator.await_departure)),
        (Creation, "_decide_answered", fate.before("foreseen", Creation._decide_answered)),
        (Path, "replace", fate.before("written", Path.replace)),
    )
    for owner, name, step in places:
        setattr(owner, name, _as_method(step))
    setattr(brain, "step", fate.after(brain.step, "decided"))  # noqa: B010 - only in this program
    setattr(files, "write", fate.after(files.write, "written"))  # noqa: B010


def _as_method(step: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Any, *arguments: Any, **named: Any) -> Any:
        return step(self, *arguments, **named)

    return method


if __name__ == "__main__":
    _weave(Fate(Path(sys.argv[1])))
    sys.exit(main.main(sys.argv[2:], os.environ))
