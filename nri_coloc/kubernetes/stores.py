"""The newest objects that the companion watches, reduced to the values that a report needs."""

from collections.abc import Callable, Iterator
from threading import Lock
from typing import NamedTuple

from nri_coloc.kubernetes import facts, objects, presets, requests
from nri_coloc.kubernetes.api import ApiError, Object
from nri_coloc.kubernetes.facts import ReadFacts
from nri_coloc.kubernetes.facts_outbox import FactsOutbox
from nri_coloc.kubernetes.presets import Preset, Shown
from nri_coloc.kubernetes.requests import Demand, Floor
from nri_coloc.kubernetes.watching import Unreadable, version_of

_MOST_PODS = 10_000
"""Pods of one node at most, without ended ones; Kubernetes supports 110, and some clusters a few hundred."""
_LONGEST_UID = 64
_U64_DIGITS = 20
_MISSING = "the API server has no Node of this name; is --node the name that `kubectl get nodes` shows?"


class NodePods:
    """The pods of one node, as a follower of a watch.

    A pod whose requests cannot be read keeps the last ones that could: the report must not fall below them. Without
    earlier ones it counts as 0.

    floor: sums of their requests; None before the first list.
    changed: called after each change of the sums.
    facts: gets the facts about each pod.
    unreadable: reports pods that cannot be read.
    """

    def __init__(
        self,
        preset: Preset,
        changed: Callable[[], None],
        *,
        facts: FactsOutbox,
        unreadable: Unreadable,
    ) -> None:
        self.floor: Floor | None = None
        self._unreadable = unreadable
        self._preset = preset
        self._changed = changed
        self._facts = facts
        self._demands: dict[str, Demand] = {}

    def replace(self, found: Iterator[Object]) -> None:
        """Take all pods of the node; raise ApiError if they are too many."""
        demands: dict[str, Demand] = {}
        facts_by_uid: dict[str, ReadFacts] = {}
        # no variable keeps a pod while the next page is read
        for uid, demand, told in filter(None, map(self._read_or_tell, found)):
            if demand is not None:
                demands[uid] = demand
                _check_number(len(demands))
            if told is not None:
                facts_by_uid[uid] = told
        self._demands = demands
        self._facts.replace(facts_by_uid)
        self._add_up()

    def _read_or_tell(self, pod: Object) -> tuple[str, Demand | None, ReadFacts | None] | None:
        try:
            return self._read(pod)
        except ValueError as error:
            self._unreadable.found(pod, error)
            return None

    def _read(self, pod: Object) -> tuple[str, Demand | None, ReadFacts | None]:
        uid, demand = _uid(pod), requests.demand(pod, self._preset)
        if demand is not None and not demand.is_readable:
            self._unreadable.found(pod, "its requests; the last ones that could be read count on")
            demand = self._demands.get(uid, demand)
        return uid, demand, None if demand is None else self._facts_of(pod)

    def _facts_of(self, pod: Object) -> ReadFacts | None:
        try:
            return facts.read(pod, self._preset)
        except ValueError:  # a pod that breaks a bound has no facts
            return None

    def take(self, kind: str, found: Object) -> None:
        """Take one change; raise ApiError if the pods are too many, UnreadableError for a pod without a UID."""
        uid, demand, told = self._read(found)
        if kind == "DELETED":
            demand = told = None
        elif demand is not None:
            _check_number(len(self._demands) + (uid not in self._demands))
        self._facts.take(uid, told)
        if demand == self._demands.get(uid):
            return
        if demand is None:
            del self._demands[uid]
        else:
            self._demands[uid] = demand
        self._add_up()

    def _add_up(self) -> None:
        self.floor = requests.floor(self._demands.values())
        self._changed()


class NodeView(NamedTuple):
    """The node object, as far as a report depends on it.

    uid: changes when the node is made again.
    max_pods: number of pods that the node may have.
    reported_at: time of the last report, as its writer wrote it; empty for none.
    """

    uid: str
    max_pods: int
    shown: Shown
    reported_at: str = ""


class ThisNode:
    """The node object, as a follower of a watch. An object that cannot be read changes nothing.

    view: the newest that could be read; None while there is no such node.
    problem: why there is no view, "" if there is one.
    changed: called after each change.
    missing: called with the problem, once for each time that the node is missing.
    """

    def __init__(self, preset: Preset, changed: Callable[[], None], missing: Callable[[str], None]) -> None:
        self.view: NodeView | None = None
        self.problem = ""
        self._preset = preset
        self._changed = changed
        self._missing = missing
        self._lock = Lock()
        self._version = 0

    @property
    def uid(self) -> str:
        """Return the UID of the Node object; empty while there is none."""
        view = self.view
        return "" if view is None else view.uid

    def replace(self, found: Iterator[Object]) -> None:
        """Take the list, which has one node or none; raise ApiError if the node cannot be read."""
        node = next(found, None)  # a server that ignores the selector may list all nodes
        try:
            view = None if node is None else self._read(node)
        except ValueError as error:
            raise ApiError(f"the Node object cannot be read: {error}") from error
        self._set(view, 0 if node is None else _version(node))

    def take(self, kind: str, found: Object) -> None:
        """Take one change, unless an answer to a PATCH was newer; raise ValueError if the node cannot be read."""
        view, version = None if kind == "DELETED" else self._read(found), _version(found)
        if not (view and self.view and view.uid == self.view.uid and 0 < version < self._version):
            self._set(view, version)

    def _set(self, view: NodeView | None, version: int) -> None:
        was, now = self.problem, _MISSING if view is None else ""
        with self._lock:
            self.view, self.problem = view, now
            self._version = version
        if now and not was:
            self._missing(now)
        self._changed()

    def answered(self, found: Object) -> None:
        """Take the object of an answer to a PATCH, unless the node changed, was deleted or made again meanwhile."""
        view, version = self._read(found), _version(found)
        with self._lock:
            if self.view is not None and self.view.uid == view.uid and version >= self._version:
                self.view, self._version = view, version

    def _read(self, node: Object) -> NodeView:
        allocatable = objects.child(node, "status", "allocatable")
        return NodeView(
            uid=_uid(node),
            max_pods=min(_MOST_PODS, objects.amount(allocatable.get("pods", 0))),
            shown=presets.shown(node, self._preset),
            reported_at=presets.reported_at(objects.child(node, "metadata")),
        )


def _version(found: Object) -> int:
    """Return the resourceVersion as a number, which Kubernetes lets clients compare (KEP-5504); 0 if it is none."""
    text = version_of(found)
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _U64_DIGITS else 0


def _check_number(pods: int) -> None:
    if pods > _MOST_PODS:
        raise ApiError(f"the API server has more than {_MOST_PODS} pods of this node")


def _uid(found: Object) -> str:
    """Return the UID, which each object of the API server has."""
    uid = objects.text(objects.child(found, "metadata"), "uid", _LONGEST_UID)
    if not uid:
        raise objects.UnreadableError("metadata.uid: is missing")
    return uid
