"""An executor of eviction orders that tests play turn by turn, against an API server with prepared answers."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nri_coloc.core.evictions import Outcome
from nri_coloc.core.settings import Tuning
from nri_coloc.kubernetes.eviction import Rules
from nri_coloc.kubernetes.executor import Executor
from nri_coloc.kubernetes.watching import Problems, Unreadable
from tests.unit.kubernetes.fake_api import Asked, FakeApi, Reply, serving

OBJECT = "/apis/coloc.nri.io/v1alpha1/colocationnodes/a"
POD = "/api/v1/namespaces/jobs/pods/render"
NEVER, PAST = "2999-01-01T00:00:00Z", "2026-01-01T00:00:00Z"
FOUND: dict[str, Any] = {
    "metadata": {"uid": "u1", "namespace": "jobs", "name": "render", "resourceVersion": "5"},
    "spec": {"nodeName": "a", "containers": [{"name": "main"}]},
    "status": {"phase": "Running", "qosClass": "BestEffort"},
}


def _method(asked: Asked) -> str:
    return "DRY" if asked.query.get("dryRun") else asked.method


class Server:
    """The answers: a list for each method and path, of which the last one repeats."""

    def __init__(self, expires: str = NEVER, reason: str = "io_stall") -> None:
        order = {"id": "o1", "namespace": "jobs", "name": "render", "uid": "u1", "expiresAt": expires}
        order["reason"] = reason
        node: dict[str, Any] = {
            "metadata": {"name": "a", "resourceVersion": "7"},
            "spec": {"evictions": [order]},
        }
        self.node = node
        self.replies: dict[str, list[Reply]] = {
            f"GET {OBJECT}": [Reply(body=node)],
            f"GET {POD}": [Reply(body=FOUND)],
            f"DRY {POD}/eviction": [Reply(201)],
            f"PATCH {POD}/status": [Reply()],
            f"POST {POD}/eviction": [Reply(201)],
            f"PATCH {OBJECT}/status": [Reply()],
        }

    def __call__(self, asked: Asked) -> Reply:
        found = self.replies[f"{_method(asked)} {asked.path}"]
        return found.pop(0) if len(found) > 1 else found[0]


class Ran:
    """An executor after some turns: its outcomes, its errors, and the requests that it sent."""

    def __init__(self, folder: Any, server: Server) -> None:
        self.outcomes: list[Outcome] = []
        self.errors: list[str] = []
        self._node = server.node
        self._serving = serving(folder, server)
        self._api: FakeApi = self._serving.__enter__()
        self.may_evict: Callable[[], bool] = lambda: True
        self.leads = True
        self.executor = Executor(
            self._api.connect(),
            rules=lambda: Rules(may_evict=self.may_evict(), tuning=Tuning()),
            leads=lambda: self.leads,
            carried=lambda _node, _order, result: self.outcomes.append(result.outcome),
            problems=Problems(self.errors.append, Unreadable("ColocationNode", self.errors.append)),
        )

    def set_clock(self, ahead_s: float) -> None:
        """Set the API server's clock, seconds ahead of the controller's."""
        self._api.set_clock(ahead_s)

    def play(self, turns: int) -> None:
        for _ in range(turns):
            self.executor.serve("a")

    def list_after(self, *others: Any) -> None:
        """Give the executor a list of other objects and its own, as its watch does."""
        self.executor.replace(iter([*others, self._node]))

    def note(self, kind: str = "ADDED") -> None:
        """Tell the executor of the object, as its watch does."""
        self.executor.take(kind, self._node)

    def turn(self) -> list[Outcome]:
        """Carry out what is due, and return all outcomes."""
        self.executor.turn()
        return self.outcomes

    def asked(self, method: str, path: str) -> int:
        return sum((_method(each), each.path) == (method, path) for each in self._api.asked)

    def requests(self) -> int:
        """Return the number of all requests."""
        return len(self._api.asked)

    def sent(self) -> list[str]:
        """Return all requests about the pod, in order."""
        return [f"{_method(each)} {each.path}" for each in self._api.asked if each.path.startswith(POD)]

    def notices(self) -> list[dict[str, Any]]:
        return [each.body["metadata"] for each in self._api.asked if each.path == f"{POD}/status"]

    def written(self) -> list[str]:
        """Return the outcomes of the last result that was written."""
        patches = [each.body for each in self._api.asked if each.method == "PATCH"]
        return [each["outcome"] for each in patches[-1]["status"]["results"]]

    def close(self) -> None:
        self._serving.__exit__(None, None, None)


Play = Callable[[Server, int], Ran]
"""Starts an executor against an API server and plays some turns."""


@contextmanager
def playing(folder: Path) -> Iterator[Play]:
    """Yield a function that plays turns; its executors end with the block."""
    rans: list[Ran] = []

    def play(server: Server, turns: int = 1) -> Ran:
        rans.append(Ran(folder, server))
        rans[-1].play(turns)
        return rans[-1]

    yield play
    for each in rans:
        each.close()
