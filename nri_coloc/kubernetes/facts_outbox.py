"""Hold the facts about the node's pods until the daemon has them: all at first, later the changes."""

import math
import random
import time
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Final

from nri_coloc._pb import cluster_pb2 as pb
from nri_coloc.core.backoff import Backoff
from nri_coloc.kubernetes import messages
from nri_coloc.kubernetes.facts import ReadFacts

LARGEST: Final = messages.MESSAGE_LIMIT * 3 // 4
"""Bytes of a message at most, so that its frame and the UIDs of ended pods fit too."""

MOST_GONE: Final = 4096
"""UIDs of ended pods that wait for the daemon. With more, a complete list says the same in fewer bytes."""

FACTS_RETRY_S: Final = 80.0
"""The first pause after refused facts, of which jitter leaves a half at least. Three refused calls in a minute would
end the connection (`session.BREACHES_S`)."""

MOST_FACTS_RETRY_S: Final = 300.0


class FactsOutbox:
    """The facts of the pods of this node. Any thread may call each method.

    clock: returns seconds since 1970 by the clock of the API server, which sets the times of deletions.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._mutex = Lock()
        self._facts: dict[str, ReadFacts] = {}
        self._unsent: set[str] = set()
        self._gone: set[str] = set()
        self._is_known = False
        self._begins = False
        self._completes = False

    def begin(self) -> None:
        """Begin a complete list: the daemon may lack any of the facts."""
        with self._mutex:
            self._begin()

    def replace(self, facts: Mapping[str, ReadFacts]) -> None:
        """Take the facts of all pods, by UID."""
        with self._mutex:
            for uid in self._facts.keys() - facts.keys():
                self._drop(uid)
            for each in facts.values():
                self._take(each)
            self._is_known = True

    def take(self, uid: str, facts: ReadFacts | None) -> None:
        """Take the facts of one pod; None for a pod that has ended, or whose object breaks a bound."""
        with self._mutex:
            if facts is None:
                self._drop(uid)
            else:
                self._take(facts)

    def _begin(self) -> None:
        self._begins = self._completes = True
        self._unsent, self._gone = set(self._facts), set()

    def _take(self, read: ReadFacts) -> None:
        uid = read.facts.uid
        if self._facts.get(uid) != read:
            self._facts[uid] = read
            self._unsent.add(uid)
            self._gone.discard(uid)

    def _drop(self, uid: str) -> None:
        if self._facts.pop(uid, None) is not None:
            self._unsent.discard(uid)
            self._gone.add(uid)
            if len(self._gone) > MOST_GONE:
                self._begin()

    def next(self) -> pb.ReportPodsRequest | None:
        """Return the next message to send; None if the daemon has all facts, or the first list is not read yet."""
        with self._mutex:
            if not self._is_known or not (self._begins or self._completes or self._unsent or self._gone):
                return None
            gone = sorted(self._gone)[: messages.MOST_GONE]
            message = pb.ReportPodsRequest(gone=gone, begin=self._begins)
            self._gone.difference_update(gone)
            self._fill(message)
            self._begins = False
            message.complete = self._completes and not self._unsent
            self._completes = self._completes and not message.complete
            return message

    def _fill(self, message: pb.ReportPodsRequest) -> None:
        """Move unsent facts into the message, up to its bounds."""
        size = containers = 0
        now_s = self._clock()
        for uid in sorted(self._unsent)[: messages.MOST_PODS]:
            found = messages.facts_message(self._facts[uid], now_s)
            size, containers = size + found.ByteSize(), containers + len(found.containers)
            if size > LARGEST or containers > messages.MOST_CONTAINERS_OF_CALL:
                return
            message.pods.append(found)
            self._unsent.discard(uid)


class FactsPause:
    """The pause of facts about pods after refused calls on one connection, longer after each."""

    def __init__(self) -> None:
        self._until_s = 0.0
        self._problem = ""
        self._backoff = Backoff(random.random, FACTS_RETRY_S, MOST_FACTS_RETRY_S)

    def is_over(self) -> bool:
        """Return whether facts may be sent now."""
        return time.monotonic() >= self._until_s

    def begins(self, problem: str) -> bool:
        """Begin a pause; return whether the problem is another one than before."""
        self._until_s = time.monotonic() + self._backoff.failed()
        before, self._problem = self._problem, problem
        return problem != before

    def has_no_end(self) -> None:
        """Send no facts until the next connection."""
        self._until_s = math.inf

    def succeeded(self) -> None:
        """Forget earlier refusals: the daemon took all facts."""
        self._problem = ""
        self._backoff.succeeded()
