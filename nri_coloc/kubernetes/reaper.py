"""Close nodes whose reports stopped, and later lower their amounts to the floor (`silence` decides)."""

import random
import time
from collections.abc import Callable
from http import HTTPStatus
from math import inf
from threading import Event
from typing import Any, Final, NamedTuple

from nri_coloc.core.backoff import Backoff
from nri_coloc.kubernetes import objects, presets, requests, silence
from nri_coloc.kubernetes.api import PODS_PAGE, Api, ApiError, ApiRefused, Object
from nri_coloc.kubernetes.presets import Amounts, Preset, Shown
from nri_coloc.kubernetes.requests import Floor
from nri_coloc.kubernetes.silence import EVERY_S, Correction, Heard, Lists
from nri_coloc.kubernetes.watching import Problems, version_of

NODES: Final = "/api/v1/nodes"
_CHANGED: Final = (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)
"""Statuses of a node that was deleted, made again or changed after the list."""

_LONGEST: Final = 253

Corrected = Callable[[str, Correction], None]
"""Called with the name of a node and the values that were written to it."""


class _Silent(NamedTuple):
    """A silent node.

    version: resourceVersion of its object.
    silent_s: seconds without a report.
    """

    name: str
    version: str
    shown: Shown
    silent_s: float


class Reaper:
    """`run` is the work of a thread.

    silent: number of silent nodes at the last list.
    """

    def __init__(
        self,
        api: Api,
        *,
        preset: Callable[[], Preset],
        leads: Callable[[], bool],
        corrected: Corrected,
        problems: Problems,
    ) -> None:
        self.silent = 0
        self._api = api
        self._preset = preset
        self._leads = leads
        self._corrected = corrected
        self._problems = problems
        self._lists = Lists()
        self._floor_s: dict[str, float] = {}
        self._backoff = Backoff(random.random, EVERY_S, EVERY_S)

    def run(self, stop: Event) -> None:
        """List and correct nodes every 30 seconds until `stop` is set."""
        while not stop.is_set():
            stop.wait(self.turn(time.monotonic()))

    def turn(self, now_s: float) -> float:
        """List all nodes, correct the silent ones; return the seconds until the next turn.

        A busy API server ends the turn, and so does the time of the next list. The next turn has another order, so
        that no node that fails keeps others waiting for good.
        """
        try:
            self._turn(now_s)
        except ApiError as error:
            self._problems.broken(str(error))
            return self._backoff.failed(error.retry_after_s if isinstance(error, ApiRefused) else 0.0)
        except Exception as error:  # noqa: BLE001 - the thread must live for the nodes of the next list
            self._problems.broken(f"nodes cannot be listed: {type(error).__name__}: {error}")
        return EVERY_S

    def _turn(self, now_s: float) -> None:
        silent = self._list(now_s)
        self.silent = len(silent)
        self._floor_s = {each.name: self._floor_s[each.name] for each in silent if each.name in self._floor_s}
        random.shuffle(silent)
        end_s = time.monotonic() + EVERY_S
        for each in silent:
            if not self._leads():
                return
            self._correct(each, now_s)
            if time.monotonic() >= end_s:
                return

    def _list(self, now_s: float) -> list[_Silent]:
        lists = silence.begin(self._lists, now_s)
        heard: dict[str, Heard] = {}
        silent = []
        for page, _ in self._api.pages(NODES):
            while page:
                node = page.pop()
                try:
                    metadata = objects.child(node, "metadata")
                    uid = objects.text(metadata, "uid", _LONGEST)
                    reported_at = presets.reported_at(metadata)
                    heard[uid] = silence.hear(lists.heard.get(uid), reported_at, lists.clock_s)
                    silent_s = lists.clock_s - heard[uid].since_s
                    if silent_s >= silence.CLOSE_AFTER_S and (found := self._silent(node, silent_s)):
                        silent.append(found)
                except ValueError as error:
                    self._problems.unreadable.found(node, error)
        self._lists = lists._replace(heard=heard)
        return silent

    def _silent(self, node: Object, silent_s: float) -> _Silent | None:
        """Return the silence of a node that shows lent amounts or is open; None for a node that shows neither."""
        shown = presets.shown(node, self._preset())
        name = objects.text(objects.child(node, "metadata"), "name", _LONGEST)
        return None if shown == Shown() else _Silent(name, version_of(node), shown, silent_s)

    def _correct(self, silent: _Silent, now_s: float) -> None:
        """Correct a node; raise ApiRefused if the API server is too busy for the others."""
        name, shown = silent.name, silent.shown
        try:
            is_long = silent.silent_s >= silence.FLOOR_AFTER_S and shown.amounts not in (None, Amounts())
            is_due = is_long and now_s - self._floor_s.get(name, -inf) >= silence.FLOOR_EVERY_S
            found = silence.correction(silent.silent_s, shown, self._floor(name) if is_due else None)
            if found is not None:
                self._api.merge(f"{NODES}/{name}/status", self._patch(silent.version, found))
                self._corrected(name, found)
            if is_due:
                self._floor_s[name] = now_s
        except ApiError as error:
            status = error.status if isinstance(error, ApiRefused) else 0
            if status == HTTPStatus.TOO_MANY_REQUESTS:
                raise
            # changed: the node reported meanwhile, or its kubelet did, and the next list decides
            if status not in _CHANGED:
                self._problems.broken(str(error))
        except Exception as error:  # noqa: BLE001 - one node's problem
            self._problems.broken(f"node {name} cannot be corrected: {type(error).__name__}: {error}")

    def _floor(self, name: str) -> Floor:
        preset, demands = self._preset(), []
        for page, _ in self._api.pages("/api/v1/pods", PODS_PAGE, fieldSelector=requests.selector(name)):
            while page:
                demands.append(requests.demand(page.pop(), preset))
        return requests.floor(each for each in demands if each is not None)

    def _patch(self, version: str, correction: Correction) -> dict[str, Any]:
        written: dict[str, str | None] = {presets.OPEN: None}
        if correction.amounts is not None:
            written = presets.written(self._preset(), correction.amounts, correction.gate)
        return {
            "metadata": {"resourceVersion": version},
            "status": {"capacity": written, "allocatable": written},
        }
