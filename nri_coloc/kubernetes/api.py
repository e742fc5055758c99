"""Call the API server of Kubernetes: requests with time limits, lists in pages, watches, and errors in plain words.

lightkube reads the credentials (a kubeconfig, or the pod's service account with its rotated token) and authenticates.
Objects stay parsed JSON: lightkube's models of all kinds would cost memory, and the modules of this room read few
fields. This module imports lightkube in `connect` only, so that other programs never load it.
"""

import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final

from nri_coloc.errors import ColocError, SettingsError

if TYPE_CHECKING:
    import httpx2
    from lightkube.config.models import User

    from nri_coloc.kubernetes.transport import Links

Object = dict[str, Any]

CALL_S: Final = 10.0
"""Time limit of one request, from the connect to the last byte of the answer."""

SILENCE_S: Final = 150.0
"""A watch without a byte for so long is dead: the API server sends a bookmark each minute."""

WATCH_S: Final = 290
"""Seconds after which the API server ends a watch; the next one resumes it. Below the five minutes after which load
balancers drop idle connections."""

WATCH_LATE_S: Final = 20.0
"""Seconds after `WATCH_S` at which a watch is ended from here."""

PAGE: Final = 500
"""Objects of one page of a list."""

PODS_PAGE: Final = 50
"""Pods of one page of a list."""

PAGE_BYTES: Final = 2 << 20
"""Bytes of a page. One pod may have 1.5 MiB, the limit of a request to etcd, and more as JSON: the API server escapes
`<` as six characters. JSON of many small parts needs nine times its bytes when it is parsed (measured)."""

MOST_OBJECTS: Final = 150_000
"""Objects of a list at most: the pods that Kubernetes supports in one cluster. A list without an end fails."""

MOST_EMPTY: Final = 10
"""Pages without an object, one after another, that name a next one. The API allows them; a kube-apiserver reads on
until a page is full or the list ends (etcd3/store.go, GetList)."""

OPENED: Final = "OPENED"
BOOKMARK: Final = "BOOKMARK"
_KINDS: Final = ("ADDED", "MODIFIED", "DELETED", BOOKMARK)

LEVELS: Final = 200
"""The level at which contents are left out of an answer with more levels than Python reads, about a thousand. The API
server takes 10,000 in `managedFields`, which a pod's author may write; no part that is read here lies so deep."""

_TOKEN: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[\]{}]', re.DOTALL)
"""A string of JSON, or the beginning or end of an object or list. A string without an end is one too: otherwise each
quotation mark in it is tried to the end of the answer."""

_MERGE: Final = "application/merge-patch+json"
_FEWER: Final = 4
"""Divisor of the objects of a page after a page that was too large."""

LONGEST_WAIT_S: Final = 3600.0
"""The longest wait that an API server may ask for; float() makes infinity of some hundred digits."""

_LONGEST: Final = 300
"""Characters of the API server's sentence in an error."""


class ApiError(ColocError):
    """A call to the API server failed; the text says which one, and why."""


class ApiUnreachable(ApiError):
    """The API server gave no answer: away, slow, or not trusted."""


class ApiRefused(ApiError):
    """The API server answered with an error.

    status: HTTP status, such as 403, 409 or 429.
    retry_after_s: seconds of the header Retry-After; 0 without one.
    body: the Status object of the answer; empty if it has none.
    """

    def __init__(
        self, text: str, status: int, retry_after_s: float = 0.0, body: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(text)
        self.status = status
        self.retry_after_s = retry_after_s
        self.body = body or {}


class Api:
    """One API server. Any thread may call it; each watch holds a connection of its own."""

    def __init__(self, client: "httpx2.Client", links: "Links") -> None:
        self._client = client
        self._links = links
        self._server = str(client.base_url).rstrip("/")
        self._clock: tuple[float, float] | None = None

    def now(self) -> float:
        """Return the time of the API server's clock, seconds since 1970; of the own clock before the first answer.

        The header Date of the last answer has it in whole seconds. So it is up to a second behind, and by the time
        that the answer took.
        """
        if self._clock is None:
            return time.time()
        date, heard_s = self._clock
        return date + time.monotonic() - heard_s

    def get(self, path: str, **query: str) -> Object:
        """Return one object, such as `/api/v1/nodes/a`."""
        found = self._call("GET", path, query=query)
        _check_version(path, found)
        return found

    def create(self, path: str, body: Mapping[str, Any], **query: str) -> Object:
        """POST an object to its collection, or to a subresource such as `eviction`."""
        return self._call("POST", path, body, query=query)

    def replace(self, path: str, body: Mapping[str, Any], **query: str) -> Object:
        """PUT an object; its `metadata.resourceVersion` makes the API server refuse a conflict with 409."""
        return self._call("PUT", path, body, query=query)

    def merge(self, path: str, body: Mapping[str, Any], **query: str) -> Object:
        """PATCH an object with a JSON merge patch, in which None removes a key."""
        return self._call("PATCH", path, body, content=_MERGE, query=query)

    def pages(self, path: str, limit: int = PAGE, **query: str) -> Iterator[tuple[list[Object], str]]:
        """Return the objects of a collection in pages, each with the resourceVersion of the list.

        limit: objects of a page, fewer after a page of more than `PAGE_BYTES`. A caller that empties each page has no
            more than one page in memory.
        """
        token, number, empty = "", 0, 0
        while number < MOST_OBJECTS:
            asked = {**query, "limit": str(limit), **({"continue": token} if token else {})}
            found = self._page(path, asked, PAGE_BYTES if limit > 1 else None)
            if found is None:
                limit = max(1, limit // _FEWER)
                continue
            metadata = _check_version(path, found)
            items = found.pop("items", None)
            if not isinstance(items, list) or not all(isinstance(each, dict) for each in items):
                raise ApiError(f"GET {path}: the answer has no list of objects")
            number, empty = number + len(items), 0 if items else empty + 1
            yield items, metadata["resourceVersion"]
            before, token = token, str(metadata.get("continue") or "")
            if not token:
                return
            if token == before or empty == MOST_EMPTY:
                what = (
                    "the same page again"
                    if token == before
                    else f"more after {empty} pages without an object"
                )
                raise ApiError(f"GET {path}: the list does not end: its `continue` names {what}")
        raise ApiError(f"GET {path}: the API server lists more than {MOST_OBJECTS} objects")

    def watch(self, path: str, version: str, **query: str) -> Iterator[tuple[str, Object]]:
        """Return the changes of a collection after a resourceVersion, each with its kind and object.

        Kinds: OPENED first, with an empty object, once the API server accepted the watch; then ADDED, MODIFIED,
        DELETED and BOOKMARK. The iterator ends when the API server ends the watch. It raises ApiRefused with status
        410 if the version is too old, and ApiUnreachable if the connection breaks.
        """
        import httpx2

        asked = {
            **query,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(WATCH_S),
        }
        limits = httpx2.Timeout(CALL_S, read=SILENCE_S)
        with (
            self._links.within(WATCH_S + WATCH_LATE_S),
            _answering("watch", path),
            self._client.stream("GET", path, params=asked, timeout=limits) as answer,
        ):
            self._read_clock(answer)
            if answer.is_error:
                answer.read()
                raise _refused("watch", path, answer)
            yield OPENED, {}
            for line in _lines(answer.iter_bytes()):
                self._links.begin_part()
                yield _change(line)

    def close(self) -> None:
        """End all connections: a call or watch that waits raises ApiUnreachable. No call may follow."""
        self._links.end()
        self._client.close()

    def _read_clock(self, answer: "httpx2.Response") -> None:
        try:
            date = parsedate_to_datetime(answer.headers.get("Date", "")).timestamp()
        except (ValueError, TypeError, OverflowError):
            return  # a proxy without a clock: the last time counts on
        self._clock = date, time.monotonic()

    def _page(self, path: str, query: Mapping[str, str], most: int | None) -> Object | None:
        """Return an answer; None if it has more bytes than `most`, which are then not received."""
        received = bytearray()
        with (
            self._links.within(CALL_S),
            _answering("GET", path),
            self._client.stream("GET", path, params=query) as answer,
        ):
            self._read_clock(answer)
            if answer.is_error:
                answer.read()
                raise _refused("GET", path, answer)
            for piece in answer.iter_bytes():
                received += piece
                if most is not None and len(received) > most:
                    return None
        return _parsed("GET", path, received)

    def _call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        content: str = "application/json",
        query: Mapping[str, str] | None = None,
    ) -> Object:
        sent = None if body is None else json.dumps(body).encode()
        headers = {} if sent is None else {"Content-Type": content}
        with self._links.within(CALL_S), _answering(method, path):
            # a whole URL without parameters is parsed once, and another one three times: 0.3 ms of 1.9 ms
            answer = self._client.request(
                method, self._server + path, params=query or None, content=sent, headers=headers
            )
        self._read_clock(answer)
        if answer.is_error:
            raise _refused(method, path, answer)
        return _parsed(method, path, answer.content)


def connect(kubeconfig: str = "") -> Api:
    """Return the API server of a kubeconfig file; of the pod's own cluster if the path is empty.

    Raise SettingsError if there are no usable credentials. Nothing is sent yet.
    """
    import httpx2
    import yaml
    from lightkube.config.client_adapter import user_auth, verify_cluster
    from lightkube.config.kubeconfig import KubeConfig
    from lightkube.core.exceptions import ConfigError

    from nri_coloc.kubernetes.credential_command import CommandAuth
    from nri_coloc.kubernetes.transport import Links, Transport

    try:
        known = KubeConfig.from_file(kubeconfig) if kubeconfig else KubeConfig.from_service_account()
        config = known.get()
        if config is None or config.user is None:
            raise SettingsError(f"{kubeconfig}: has no current context with a user; set current-context")
        user, links = config.user, Links()
        command = _command(user)
        context = verify_cluster(config.cluster, config.user, config.abs_file, trust_env=False)
        client = httpx2.Client(
            base_url=config.cluster.server,
            auth=user_auth(user) if command is None else CommandAuth(*command),
            timeout=CALL_S,
            trust_env=False,
            transport=Transport(context, links),
            # as the scheduler and the controller manager of Kubernetes do: compressed answers are not bounded
            headers={"Accept-Encoding": "identity"},
        )
    except KeyError as error:
        raise _unusable(kubeconfig, f"there is no {error}") from error
    except (AttributeError, TypeError) as error:  # lightkube checks the shape of some parts only
        raise _unusable(kubeconfig, f"a part is missing or has another shape ({error})") from error
    except (ConfigError, OSError, ValueError, yaml.YAMLError, httpx2.InvalidURL) as error:
        raise _unusable(kubeconfig, str(error)) from error
    return Api(client, links)


def _command(user: "User") -> tuple[str, list[str], dict[str, str]] | None:
    """Return API version, command and environment of a kubeconfig's user; None if it has other credentials."""
    found = user.exec
    if found is None or user.token is not None or user.token_file is not None:
        return None
    environment = {each.name: each.value for each in found.env or ()}
    return found.apiVersion, [found.command, *(found.args or ())], environment


def _unusable(kubeconfig: str, why: str) -> SettingsError:
    where = kubeconfig or "the pod's service account"
    return SettingsError(
        f"{where}: no credentials for the API server: {' '.join(why.split())}; name a file with --kubeconfig"
    )


@contextmanager
def _answering(method: str, path: str) -> Iterator[None]:
    """Raise ApiUnreachable if the request of the block gets no answer, or has no usable credentials.

    lightkube reads the token file in the request, and a kubeconfig's command runs there.
    """
    import httpx2
    from lightkube.core.exceptions import ConfigError

    from nri_coloc.kubernetes.credential_command import CommandError

    try:
        yield
    except httpx2.HTTPError as error:
        raise _unreachable(method, path, error) from error
    except (CommandError, ConfigError, OSError, UnicodeError) as error:
        raise ApiUnreachable(f"{method} {path}: not sent: {_shortened(str(error))}") from error


def _lines(pieces: Iterable[bytes]) -> Iterator[bytearray]:
    """Yield the lines of a stream.

    They end with a line feed alone. Python, and httpx with it, ends a line at U+0085 too, which the API server sends
    unescaped in the annotations of any pod.
    """
    rest = bytearray()
    for piece in pieces:
        rest += piece
        if b"\n" in piece:
            *lines, rest = rest.split(b"\n")
            yield from lines
    if rest:
        yield rest


def _change(line: bytearray) -> tuple[str, Object]:
    found = _parsed("watch", "", line)
    kind, body = str(found.get("type")), found.get("object")
    if not isinstance(body, dict):
        raise ApiError("watch: the API server sent a change without an object")
    if kind == "ERROR":
        text = f"watch: {_shortened(str(body.get('message')))}"
        code = body.get("code")
        raise ApiRefused(text, code if isinstance(code, int) else 0)
    if kind not in _KINDS:
        raise ApiError(f"watch: the API server sent a change of kind {_shortened(kind)!r}")
    return kind, body


def _check_version(path: str, found: Object) -> Object:
    """Return the metadata of an object or list; raise ApiError if it has no resourceVersion, as all of them have.

    An answer without it comes from another server or a proxy. It must not be read as an object without values.
    """
    metadata = found.get("metadata")
    version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
    if not isinstance(metadata, dict) or not isinstance(version, str) or not version:
        raise ApiError(f"GET {path}: the answer has no metadata.resourceVersion")
    return metadata


def _parsed(method: str, path: str, content: bytes | bytearray) -> Object:
    try:
        found = _read(content)
    except (ValueError, RecursionError) as error:
        raise ApiError(f"{method} {path}: the answer is not JSON") from error
    if not isinstance(found, dict):
        raise ApiError(f"{method} {path}: the answer is not an object")
    return found


def _read(content: bytes | bytearray) -> Any:
    try:
        return json.loads(content)
    except RecursionError:
        return json.loads(_without_depths(content))


def _without_depths(content: bytes | bytearray) -> bytes:
    """Return a JSON text without the contents of objects and lists at level `LEVELS`."""
    kept, level, begin = [], 0, 0
    for token in _TOKEN.finditer(content):
        if token[0] in (b"{", b"["):
            level += 1
            if level == LEVELS:
                kept.append(content[begin : token.end()])
        elif token[0] in (b"}", b"]"):
            if level == LEVELS:
                begin = token.start()
            level -= 1
    return b"".join((*kept, content[begin:]))


def _refused(method: str, path: str, answer: "httpx2.Response") -> ApiRefused:
    try:
        body = json.loads(answer.content)
        sentence = str(body["message"])
    except (ValueError, KeyError, TypeError, RecursionError):
        body, sentence = {}, answer.reason_phrase
    text = f"{method} {path}: {answer.status_code}: {_shortened(sentence)}"
    return ApiRefused(text, answer.status_code, _seconds(answer.headers.get("Retry-After", "")), body)


def _seconds(after: str) -> float:
    """Return the seconds of a header Retry-After, an hour at most; 0 for a date, or for a text that is no number."""
    if not (after.isascii() and after.isdecimal()):
        return 0.0
    return min(float(after), LONGEST_WAIT_S)


def _unreachable(method: str, path: str, error: Exception) -> ApiUnreachable:
    return ApiUnreachable(f"{method} {path}: no answer: {_shortened(str(error)) or type(error).__name__}")


def _shortened(sentence: str) -> str:
    return sentence.replace("\n", " ")[:_LONGEST]
