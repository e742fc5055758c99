"""Run the controller: one of its replicas leads, carries out eviction orders and corrects silent nodes.

The others watch too and change nothing, so that the next leader knows at once which nodes are silent.
"""

import time
from collections.abc import Callable
from threading import Event
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, ProcessCollector

from nri_coloc.core.evictions import Outcome, Result
from nri_coloc.core.texts import PlainLog
from nri_coloc.core.token_bucket import Rate
from nri_coloc.kubernetes import executor
from nri_coloc.kubernetes.api import Api
from nri_coloc.kubernetes.eviction import EVICTED, Order, Rules
from nri_coloc.kubernetes.executor import Executor
from nri_coloc.kubernetes.leadership import Leadership
from nri_coloc.kubernetes.log_limit import ORDERS, BoundedLog, LogLimit
from nri_coloc.kubernetes.presets import Preset
from nri_coloc.kubernetes.reaper import Reaper
from nri_coloc.kubernetes.silence import Correction
from nri_coloc.kubernetes.watching import Collection, Problems, Unreadable, Watch
from nri_coloc.kubernetes.workers import Workers

PROBLEMS: Final = Rate(burst=4, every_s=120.0)
"""Log lines about the problems of executor or reaper. While the API server refuses, each node may cause one a turn."""


class Controller:
    """All parts of one replica.

    registry: its metrics.
    """

    def __init__(
        self,
        api: Api,
        *,
        identity: str,
        rules: Callable[[], Rules],
        preset: Callable[[], Preset],
        log: PlainLog,
    ) -> None:
        self._log = log
        self._log_limit = LogLimit(ORDERS)
        self._api = api
        self._workers = Workers()
        self._is_ending = False
        self._leadership = Leadership(api, identity, self._led)
        leads = lambda: self._leadership.leads  # noqa: E731 - a property, asked again each time
        objects, nodes = (Unreadable(kind, self._left_out) for kind in ("ColocationNode", "node"))
        of_objects, of_nodes = (
            Problems(self._broken(BoundedLog(log, PROBLEMS)), each) for each in (objects, nodes)
        )
        self._executor = Executor(api, rules=rules, leads=leads, carried=self._carried, problems=of_objects)
        self._reaper = Reaper(api, preset=preset, leads=leads, corrected=self._corrected, problems=of_nodes)
        collection = Collection(executor.COLLECTION)
        self._watch = Watch(api, collection, self._executor, Problems(self._broken(log), objects))
        self.registry, self._evictions, self._corrections = _metrics(leads, lambda: self._reaper.silent)

    def problem(self) -> str:
        """Return why this replica is not ready; empty if it is. A replica that waits for the Lease is ready."""
        return self._workers.problem or self._leadership.problem or self._watch.problem

    def run(self, stop: Event) -> None:
        """Work until `stop` is set, release the Lease, and end all threads and connections."""
        self._workers.start("watch", self._watch.run, stop)
        self._workers.start("executor", self._executor.run, stop)
        self._workers.start("reaper", self._reaper.run, stop)
        try:
            self._leadership.run(stop)
        finally:
            self._is_ending = True
            stop.set()
            if self._workers.problem:
                self._log.warning("the controller ends to start again", because=self._workers.problem)
            self._api.close()
            self._workers.end()

    # ---- reports of the parts ----

    def _led(self, leads: bool) -> None:  # noqa: FBT001 - the only fact
        if leads:
            self._log.info("leads")
        else:
            because = self._leadership.problem or "another replica holds the Lease"
            self._log.warning("does not lead any more", because=because)

    def _carried(self, node: str, order: Order, result: Result) -> None:
        self._evictions.labels(str(result.outcome)).inc()
        left_out = self._log_limit.left_out(node, time.monotonic())
        if left_out is None and result.detail != EVICTED:  # the rate of evictions limits the lines about them
            return
        counted = {"left_out": left_out} if left_out else {}
        self._log.info(
            "eviction order",
            node=node,
            pod="unknown" if order.problem else f"{order.namespace}/{order.name}",
            order=order.id,
            by_operator=order.by_operator,
            outcome=str(result.outcome),
            detail=result.detail,
            **counted,
        )

    def _corrected(self, node: str, correction: Correction) -> None:
        is_lowered = correction.amounts is not None
        self._corrections.labels("lowered" if is_lowered else "closed").inc()
        self._log.warning(
            "silent node lowered to its floor" if is_lowered else "silent node closed",
            node=node,
            silent_s=round(correction.silent_s),
            because="its annotation coloc.nri.io/reported-at did not change; look at companion and daemon there",
        )

    def _broken(self, log: PlainLog | BoundedLog) -> Callable[[str], None]:
        """Return the report of one thread's problems."""

        def report(problem: str) -> None:
            if not self._is_ending:
                log.warning("work of the controller failed; trying again", because=problem)

        return report

    def _left_out(self, problem: str) -> None:
        self._log.warning("an object of the API server was left out", because=problem)


class _Metrics(NamedTuple):
    """The metrics of one replica. The counters are in the registry too."""

    registry: CollectorRegistry
    evictions: Counter
    corrections: Counter


def _metrics(leads: Callable[[], bool], silent: Callable[[], int]) -> _Metrics:
    """Return the metrics of a replica.

    leads: returns whether it leads.
    silent: returns the number of silent nodes.
    """
    registry = CollectorRegistry()
    evictions = Counter(
        "nri_coloc_controller_evictions",
        "Eviction orders by their outcome.",
        ["outcome"],
        registry=registry,
    )
    for outcome in Outcome:
        evictions.labels(str(outcome))
    corrections = Counter(
        "nri_coloc_controller_corrections",
        "Silent nodes that were closed, and whose amounts were lowered.",
        ["kind"],
        registry=registry,
    )
    leader = Gauge("nri_coloc_controller_leader", "1 if this replica leads.", registry=registry)
    leader.set_function(leads)
    silent_nodes = Gauge(
        "nri_coloc_controller_silent_nodes",
        "Nodes that advertise lent resources and have not reported for 3 minutes.",
        registry=registry,
    )
    silent_nodes.set_function(silent)
    ProcessCollector(registry=registry)
    return _Metrics(registry, evictions, corrections)
