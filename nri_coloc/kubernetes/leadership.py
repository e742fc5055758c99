"""Hold the Lease by which one replica of the controller leads (`lease` decides)."""

import random
import time
from collections.abc import Callable
from datetime import UTC, datetime
from http import HTTPStatus
from threading import Event
from typing import Final

from nri_coloc.core.backoff import Backoff
from nri_coloc.kubernetes import lease
from nri_coloc.kubernetes.api import Api, ApiError, ApiRefused, Object

NAME: Final = "nri-coloc-controller"
_LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
"""The namespace of deploy/cluster: its role and its policies name it too."""


class Leadership:
    """Take and renew the Lease; `run` is the work of a thread.

    problem: the reason why the last try failed; empty if it did not.
    """

    def __init__(self, api: Api, identity: str, changed: Callable[[bool], None]) -> None:
        self.problem = ""
        self._api = api
        self._identity = identity
        self._changed = changed
        self._seen: lease.Seen | None = None
        self._renewed_s: float | None = None
        self._led = False
        self._backoff = Backoff(random.random)

    @property
    def leads(self) -> bool:
        """Return whether this replica may act now."""
        return lease.leads(self._renewed_s, time.monotonic())

    def run(self, stop: Event) -> None:
        """Try until `stop` is set, then release the Lease."""
        while not stop.is_set():
            stop.wait(self.turn())
        self._release()

    def turn(self) -> float:
        """Try once to take or renew the Lease; return the seconds until the next try."""
        now_s = time.monotonic()
        try:
            found = self._found()
            self._seen = lease.seen(self._seen, found, now_s)
            if lease.may_take(self._seen, self._identity, now_s):
                self._seen = lease.seen(self._seen, self._write(found, self._seen), now_s)
                self._renewed_s = now_s
            else:  # of another replica, also if an operator deleted or changed the Lease
                self._renewed_s = None
            pause_s = self._succeeded()
        except ApiError as error:
            asked_s = error.retry_after_s if isinstance(error, ApiRefused) else 0.0
            pause_s = self._failed(str(error), asked_s)
        except ValueError as error:
            pause_s = self._failed(f"the Lease cannot be read: {error}; delete it")
        if self.leads != self._led:
            self._led = self.leads
            self._changed(self._led)
        return pause_s

    def _succeeded(self) -> float:
        self.problem = ""
        self._backoff.succeeded()
        return lease.RETRY_S

    def _failed(self, problem: str, asked_s: float = 0.0) -> float:
        """Return the seconds until the next try, after an error. The first ones are short: a leader has 10 s in all."""
        self.problem = problem
        return self._backoff.failed(asked_s)

    def _found(self) -> Object:
        try:
            return self._api.get(f"{_LEASES}/{NAME}")
        except ApiRefused as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return {}
            raise

    def _write(self, found: Object, seen: lease.Seen) -> Object:
        """Write this replica into the Lease. With the resourceVersion, the second of two writers is refused."""
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": found.get("metadata") or {"name": NAME},
            "spec": (found.get("spec") or {}) | lease.spec(seen, self._identity, _now()),
        }
        if found:
            return self._api.replace(f"{_LEASES}/{NAME}", body)
        return self._api.create(_LEASES, body)

    def _release(self) -> None:
        """Give the Lease up, so that another replica need not wait for its end. After an error it must wait."""
        if not self.leads:
            return
        try:
            found = self._found()
            if lease.seen(None, found, time.monotonic()).holder == self._identity:
                found["spec"] |= {"holderIdentity": "", "renewTime": _now()}
                self._api.replace(f"{_LEASES}/{NAME}", found)
        except (ApiError, ValueError) as error:
            self.problem = str(error)
        self._renewed_s = None


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
