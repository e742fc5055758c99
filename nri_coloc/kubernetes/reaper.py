"""Close nodes whose reports stopped, and later lower their amounts to the floor (`silence` decides)."""

import time
from collections.abc import Callable, Mapping
from threading import Event
from typing import Any, Final, NamedTuple

from nri_coloc.kubernetes import objects, presets, requests, silence
from nri_coloc.kubernetes.api import Api, ApiError, ApiRefused, Object
from nri_coloc.kubernetes.presets import Preset
from nri_coloc.kubernetes.requests import Floor
from nri_coloc.kubernetes.silence import Correction, Heard
from nri_coloc.kubernetes.watching import version_of

EVERY_S: Final = 30.0
"""Seconds between two lists of all nodes. A watch would send each report of each node to the controller."""

NODES: Final = "/api/v1/nodes"
_CONFLICT: Final = 409
_LONGEST: Final = 253

Corrected = Callable[[str, Correction], None]
"""Called with the name of a node and the values that were written to it."""


class _Silent(NamedTuple):
    """A silent node.

    found: the object.
    silent_s: seconds without a report.
    """

    found: Object
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
        broken: Callable[[str], None],
    ) -> None:
        self.silent = 0
        self._api = api
        self._preset = preset
        self._leads = leads
        self._corrected = corrected
        self._broken = broken
        self._heard: dict[str, Heard] = {}
        self._listing_since_s: float | None = None

    def run(self, stop: Event) -> None:
        """List and correct nodes every 30 seconds until `stop` is set."""
        while not stop.is_set():
            self.turn(time.monotonic())
            stop.wait(EVERY_S)

    def turn(self, now_s: float) -> None:
        """List all nodes, correct the silent ones."""
        try:
            silent = self._list(now_s)
        except ApiError as error:
            self._listing_since_s = None
            self._broken(str(error))
            return
        self.silent = len(silent)
        for each in silent:
            if self._leads():
                self._correct(each)

    def _list(self, now_s: float) -> list[_Silent]:
        since_s = now_s if self._listing_since_s is None else self._listing_since_s
        heard: dict[str, Heard] = {}
        silent = []
        for page, _ in self._api.pages(NODES):
            for node in page:
                metadata = objects.child(node, "metadata")
                uid = objects.text(metadata, "uid", _LONGEST)
                heard[uid] = silence.hear(self._heard.get(uid), _reported_at(metadata), now_s)
                silent_s = silence.silent_for(heard[uid], since_s, now_s)
                if silent_s >= silence.CLOSE_AFTER_S and self._takes_part(node):
                    silent.append(_Silent(node, silent_s))
        self._heard, self._listing_since_s = heard, since_s
        return silent

    def _takes_part(self, node: Object) -> bool:
        return presets.shown(node, self._preset()) != presets.Shown()

    def _correct(self, silent: _Silent) -> None:
        name = str(silent.found["metadata"]["name"])
        try:
            floor = self._floor(name) if silent.silent_s >= silence.FLOOR_AFTER_S else Floor()
            shown = presets.shown(silent.found, self._preset())
            found = silence.correction(silent.silent_s, shown, floor)
            if found is not None:
                self._api.merge(f"{NODES}/{name}/status", self._patch(silent.found, found))
                self._corrected(name, found)
        except ApiError as error:
            # a conflict: the node reported meanwhile, or its kubelet did, and the next list decides
            if not (isinstance(error, ApiRefused) and error.status == _CONFLICT):
                self._broken(str(error))
        except ValueError as error:
            self._broken(f"node {name} cannot be read: {error}")

    def _floor(self, name: str) -> Floor:
        pods = (
            pod
            for page, _ in self._api.pages("/api/v1/pods", fieldSelector=f"spec.nodeName={name}")
            for pod in page
        )
        demands = (requests.demand(pod, self._preset()) for pod in pods)
        return requests.floor(each for each in demands if each is not None)

    def _patch(self, node: Object, correction: Correction) -> dict[str, Any]:
        written: dict[str, str | None] = {presets.OPEN: None}
        if correction.amounts is not None:
            written = presets.written(self._preset(), correction.amounts, correction.gate)
        return {
            "metadata": {"resourceVersion": version_of(node)},
            "status": {"capacity": written, "allocatable": written},
        }


def _reported_at(metadata: Mapping[str, Any]) -> str:
    """Return the text of the last report. A text that is too long is a report too."""
    found = objects.child(metadata, "annotations").get(presets.REPORTED_AT)
    return found if isinstance(found, str) else ""
