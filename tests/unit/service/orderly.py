"""Fake daemon behind the admin socket."""

from nri_coloc.core.evictions import Outcome, Result
from nri_coloc.service.orders import Caller, Compared, LendingBegins, LendingEnds, Repaired, RunningPod


class Orderly:
    """A daemon that only keeps each order, and raises `error` if it is set."""

    def __init__(self) -> None:
        self.asked: list[tuple[object, ...]] = []
        self.error: Exception | None = None
        self.not_kept = ""
        self.result = Result("e1", Outcome.ACCEPTED, "the API server accepted the eviction")
        self.running: tuple[RunningPod, ...] = (RunningPod("shop/batch", "it may run on"),)

    def _note(self, *asked: object) -> None:
        self.asked.append(asked)
        if self.error is not None:
            raise self.error

    def pause_lending(self, caller: Caller, seconds: int, reason: str) -> str:
        self._note("pause", caller, seconds, reason)
        return "noon"

    def resume_lending(self, caller: Caller) -> bool:
        self._note("resume", caller)
        return True

    def lending_off(self, caller: Caller, grace_s: int | None, *, drain: bool) -> LendingEnds:
        self._note("off", caller, grace_s, drain)
        return LendingEnds("lending ends", "noon", self.not_kept, self.running, ("/yarn",))

    def lending_on(self, caller: Caller) -> LendingBegins:
        self._note("on", caller)
        return LendingBegins(True, "the schedule has no windows", self.not_kept)

    def reload(self, caller: Caller) -> str:
        self._note("reload", caller)
        return "line 7 is wrong"

    def repair(self, caller: Caller) -> Repaired:
        self._note("repair", caller)
        return Repaired(3, ("shop/web: found cpu.shares 5",))

    def evict(self, caller: Caller, namespace: str, pod: str, reason: str) -> Result:
        self._note("evict", caller, namespace, pod, reason)
        return self.result

    def compare(self, caller: Caller) -> Compared:
        self._note("compare", caller)
        return Compared(complete=False, detail="two are missing")
