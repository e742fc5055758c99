"""Keep the facts that companions report about pods: a bounded number, over all connections. It does no I/O.

Facts of an earlier connection hold until a list is complete: then the facts that this list did not repeat are dropped.
Beyond the bound on containers the pod with the most containers is kept without them, so that it confirms no loan and
small pods keep theirs.
"""

from typing import Final, NamedTuple

from nri_coloc.core.pod_facts import NO_FACTS, Facts, PodFacts

MOST_PODS: Final = 1024
MOST_CONTAINERS: Final = 8192


class Reported(NamedTuple):
    """The content of one call.

    gone: UIDs of pods that have ended.
    begins, completes: the call is the first, or the last, of a complete list.
    """

    pods: tuple[Facts, ...]
    gone: tuple[str, ...] = ()
    begins: bool = False
    completes: bool = False


class KeptFacts:
    """The facts of all pods; belongs to the thread of the socket.

    newest: all facts; another object after each change.
    """

    def __init__(self) -> None:
        self.newest: PodFacts = NO_FACTS
        self._by_uid: dict[str, Facts] = {}
        self._containers = 0
        self._listed: set[str] | None = None

    def connected(self) -> None:
        """Begin a connection: a list that the connection before did not complete does not count."""
        self._listed = None

    def take(self, reported: Reported) -> int:
        """Take the facts of a call and return the number of pods that could not be kept, or lost their containers.

        Raise ValueError if the call completes a list that did not begin. Then nothing changes.
        """
        if reported.completes and not reported.begins and self._listed is None:
            raise ValueError("complete: no list has begun")
        before = dict(self._by_uid)
        if reported.begins:
            self._listed = set()
        for uid in reported.gone:
            self._drop(uid)
        not_kept = sum([not self._keep(each) for each in reported.pods])
        if reported.completes:
            self._complete()
        if self._by_uid != before:
            self.newest = PodFacts(self._by_uid)
        return not_kept

    def _keep(self, facts: Facts) -> bool:
        """Keep facts; return whether all fit. Facts that do not fit are no reason to keep older ones of the pod."""
        self._drop(facts.uid)
        if len(self._by_uid) >= MOST_PODS:
            return False
        self._by_uid[facts.uid] = facts
        self._containers += len(facts.containers)
        if self._listed is not None:
            self._listed.add(facts.uid)
        if self._containers > MOST_CONTAINERS:
            self._drop_most_containers()
            return False
        return True

    def _drop_most_containers(self) -> None:
        """Drop the containers of the pod with the most; among equal ones, of the latest."""
        largest = max(reversed(self._by_uid.values()), key=lambda each: len(each.containers))
        self._containers -= len(largest.containers)
        self._by_uid[largest.uid] = largest._replace(containers=())

    def _drop(self, uid: str) -> None:
        found = self._by_uid.pop(uid, None)
        if found is not None:
            self._containers -= len(found.containers)
        if self._listed is not None:
            self._listed.discard(uid)

    def _complete(self) -> None:
        listed, self._listed = self._listed or set(), None
        for uid in self._by_uid.keys() - listed:
            self._drop(uid)
