"""Requests to the API server, over HTTP on a real socket."""

import gzip
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing, contextmanager, suppress
from itertools import count

import pytest

from nri_coloc.errors import SettingsError
from nri_coloc.kubernetes import api, transport
from nri_coloc.kubernetes.api import ApiError, ApiRefused, ApiUnreachable
from tests.rig.waiting import PATIENCE_SECONDS
from tests.unit.kubernetes import fake_api
from tests.unit.kubernetes.fake_api import Reply, serving


def items(*names, token="", version="7"):
    """Return the body of a list."""
    return {
        "metadata": {"resourceVersion": version, "continue": token},
        "items": [{"metadata": {"name": name}} for name in names],
    }


def change(kind, name="a", version="8"):
    return {"type": kind, "object": {"metadata": {"name": name, "resourceVersion": version}}}


def test_a_request_carries_the_token(tmp_path):
    body = change("ADDED")["object"]
    with serving(tmp_path, lambda _: Reply(body=body)) as server:
        assert server.connect().get("/api/v1/nodes/a") == body
    assert server.asked[0].authorization == "Bearer secret"


def test_a_merge_patch_names_its_kind(tmp_path):
    with serving(tmp_path, lambda _: Reply()) as server:
        server.connect().merge("/api/v1/nodes/a/status", {"status": {"x": None}})
    (asked,) = server.asked
    assert (asked.method, asked.content_type) == ("PATCH", "application/merge-patch+json")
    assert asked.body == {"status": {"x": None}}


def _watch(client):
    with closing(client.watch("/x", "7")) as changes:
        next(changes)


CALLS = [lambda client: client.get("/x"), lambda client: list(client.pages("/x")), _watch]


@pytest.mark.parametrize("call", CALLS, ids=["call", "list", "watch"])
@pytest.mark.parametrize("status", [200, 403])
def test_each_answer_shows_the_servers_clock(tmp_path, call, status):
    with serving(tmp_path, lambda _: Reply(status, items("a"))) as server:
        client = server.connect()
        server.set_clock(-600)
        with suppress(ApiRefused):
            call(client)
        assert -602 <= client.now() - time.time() <= -599


def test_the_own_clock_counts_before_an_answer(tmp_path):
    with serving(tmp_path, lambda _: Reply()) as server:
        assert server.connect().now() == pytest.approx(time.time(), abs=1)


@pytest.mark.parametrize("date", ["", "soon", "Mon, 99 Foo 2026 00:00:00 GMT", "9" * 400])
def test_an_unreadable_date_is_ignored(tmp_path, monkeypatch, date):
    monkeypatch.setattr(fake_api, "date_of", lambda _: date)
    with serving(tmp_path, lambda _: Reply(body=items())) as server:
        client = server.connect()
        client.get("/x")
        assert client.now() == pytest.approx(time.time(), abs=1)


def test_a_list_is_read_in_pages(tmp_path):
    def answers(asked):
        return Reply(body=items("b") if "continue" in asked.query else items("a", token="more"))

    with serving(tmp_path, answers) as server:
        pages = list(server.connect().pages("/api/v1/pods", fieldSelector="spec.nodeName=n"))
    assert [item["metadata"]["name"] for page, _ in pages for item in page] == ["a", "b"]
    assert {asked.query["fieldSelector"] for asked in server.asked} == {"spec.nodeName=n"}


def test_a_page_too_large_is_read_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(api, "PAGE_BYTES", 1000)

    def answers(asked):
        at, limit = int(asked.query.get("continue", 0)), int(asked.query["limit"])
        names = [str(number) * 400 for number in range(at, min(4, at + limit))]
        return Reply(body=items(*names, token=str(at + limit) if at + limit < 4 else ""))

    with serving(tmp_path, answers) as server:
        pages = [page for page, _ in server.connect().pages("/api/v1/pods", 10)]
    assert [asked.query["limit"] for asked in server.asked] == ["10", "2", "2"]
    assert [item["metadata"]["name"][0] for page in pages for item in page] == list("0123")


def test_an_object_too_large_is_read_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(api, "PAGE_BYTES", 1000)
    with serving(tmp_path, lambda _: Reply(body=items("a" * 2000))) as server:
        pages = list(server.connect().pages("/api/v1/pods", 10))
    assert len(pages) == 1


def test_a_watch_returns_its_changes(tmp_path):
    changes = (change("ADDED"), change("BOOKMARK", version="9"))
    with serving(tmp_path, lambda _: Reply(lines=changes)) as server:
        found = list(server.connect().watch("/api/v1/pods", "7"))
    assert [kind for kind, _ in found] == ["OPENED", "ADDED", "BOOKMARK"]
    assert server.asked[0].query["resourceVersion"] == "7"


@pytest.mark.parametrize("odd", ["\x85", "\u2028", "\U0001f600"], ids=["next line", "separator", "emoji"])
def test_no_text_of_a_pod_ends_a_line(tmp_path, odd):
    body = change("MODIFIED", name=f"a{odd}b")
    raw = json.dumps(body, ensure_ascii=False).encode() + b"\n"
    with serving(tmp_path, lambda _: Reply(raw=raw)) as server:
        found = list(server.connect().watch("/api/v1/pods", "7"))
    assert found[1:] == [("MODIFIED", body["object"])]


def deep(levels):
    """Return a pod's text with so many levels of managedFields, and values before, in and after them."""
    fields = '{"f:a]}":' * levels + '["\\"{"]' + "}" * levels
    return f'{{"metadata": {{"name": "a", "managedFields": [{fields}], "resourceVersion": "8"}}, "spec": {{"x": 1}}}}'


READS = {
    "call": (lambda text: text, lambda client: client.get("/x")),
    "list": (
        lambda text: f'{{"metadata": {{"resourceVersion": "8"}}, "items": [{text}]}}',
        lambda client: next(client.pages("/x"))[0][0],
    ),
    "watch": (
        lambda text: f'{{"type": "ADDED", "object": {text}}}',
        lambda client: list(client.watch("/x", "7"))[1][1],
    ),
}


def test_a_string_without_an_end_is_read_once():
    assert len(api._TOKEN.findall(b'["' + b'\\"' * 100)) == 2


@pytest.mark.parametrize(("within", "read"), READS.values(), ids=READS)
@pytest.mark.parametrize("levels", [100, 9000])
def test_no_depth_hides_a_pod(tmp_path, within, read, levels):
    with serving(tmp_path, lambda _: Reply(raw=within(deep(levels)).encode())) as server:
        found = read(server.connect())
    found["metadata"].pop("managedFields")
    assert found == {"metadata": {"name": "a", "resourceVersion": "8"}, "spec": {"x": 1}}


def test_an_expired_watch_has_status_410(tmp_path):
    lines = ({"type": "ERROR", "object": {"code": 410, "message": "too old resource version"}},)
    with serving(tmp_path, lambda _: Reply(lines=lines)) as server:
        watch = server.connect().watch("/api/v1/pods", "7")
        with pytest.raises(ApiRefused) as refused:
            list(watch)
    assert refused.value.status == 410


def test_a_refusal_names_call_and_reason(tmp_path):
    body = {"message": "nodes is forbidden"}
    with (
        serving(tmp_path, lambda _: Reply(status=403, body=body)) as server,
        pytest.raises(ApiRefused, match=r"GET /api/v1/nodes/a: 403: nodes is forbidden"),
    ):
        server.connect().get("/api/v1/nodes/a")


WAITS = {"3": 3, "9" * 400: api.LONGEST_WAIT_S, "999999999": api.LONGEST_WAIT_S, "-1": 0, "soon": 0}


@pytest.mark.parametrize(("told", "waits_s"), WAITS.items(), ids=lambda each: str(each)[:9])
def test_a_busy_server_says_when_to_return(tmp_path, told, waits_s):
    reply = Reply(status=429, headers=(("Retry-After", told),))
    with serving(tmp_path, lambda _: reply) as server, pytest.raises(ApiRefused) as refused:
        server.connect().create("/api/v1/namespaces/a/pods/b/eviction", {})
    assert refused.value.retry_after_s == waits_s


def test_a_server_that_is_away_is_unreachable(tmp_path):
    with serving(tmp_path, lambda _: Reply()) as server:
        pass
    with (
        closing(api.connect(str(server.kubeconfig))) as client,
        pytest.raises(ApiUnreachable, match="GET /x: no answer"),
    ):
        client.get("/x")


def test_a_slow_server_is_unreachable(tmp_path, monkeypatch):
    monkeypatch.setattr(api, "CALL_S", 0.1)
    ends = threading.Event()

    def slowly(_):
        ends.wait(20)
        return Reply()

    with serving(tmp_path, slowly) as server:
        with pytest.raises(ApiUnreachable, match="GET /x: no answer"):
            server.connect().get("/x")
        ends.set()


HEADER = b"HTTP/1.1 200 OK\r\nX: "
BODY = b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n"
DRIPS = 400


@contextmanager
def dripping(folder, begin):
    """Serve one connection: the beginning of an answer, then a byte every 10 ms."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        try:
            client, _ = listener.accept()
        except OSError:
            return  # a call whose time was over before it connected
        with client, suppress(OSError):
            client.recv(1 << 16)
            client.sendall(begin)
            for _ in range(DRIPS):
                client.sendall(b"x")
                time.sleep(0.01)

    thread = threading.Thread(target=serve)
    thread.start()
    path = folder / "kubeconfig"
    path.write_text(json.dumps(fake_api.config(f"http://127.0.0.1:{listener.getsockname()[1]}")))
    with listener, closing(api.connect(str(path))) as client:
        try:
            yield client
        finally:
            listener.shutdown(socket.SHUT_RDWR)  # `close` does not end an `accept` of another thread
    thread.join()


@pytest.mark.parametrize("call", CALLS[:2], ids=["call", "list"])
@pytest.mark.parametrize("begin", [HEADER, BODY], ids=["header", "body"])
def test_a_call_has_one_deadline(tmp_path, monkeypatch, call, begin):
    monkeypatch.setattr(api, "CALL_S", 0.5)
    with (
        dripping(tmp_path, begin) as client,
        pytest.raises(ApiUnreachable, match=r"not complete after 0\.5 s"),
    ):
        call(client)


def test_a_watch_has_an_end(tmp_path, monkeypatch):
    monkeypatch.setattr(api, "WATCH_S", 0)
    monkeypatch.setattr(api, "WATCH_LATE_S", 0.5)
    with dripping(tmp_path, BODY) as client, pytest.raises(ApiUnreachable, match="not complete"):
        list(client.watch("/x", "7"))


@pytest.fixture
def small_answers(monkeypatch):
    monkeypatch.setattr(transport, "ANSWER_BYTES", 100_000)


@pytest.mark.parametrize(
    "call", [*CALLS[:2], lambda c: list(c.watch("/x", "7"))], ids=["call", "list", "watch"]
)
@pytest.mark.parametrize("status", [200, 500])
def test_an_answer_has_a_bound(tmp_path, small_answers, call, status):
    reply = Reply(status, raw=b'{"a": "' + b"x" * 200_000)
    with (
        serving(tmp_path, lambda _: reply) as server,
        pytest.raises(ApiUnreachable, match="more than 100000 bytes"),
    ):
        call(server.connect())


def test_an_answer_before_the_token_is_renewed_has_a_bound(tmp_path, small_answers):
    (tmp_path / "token").write_text("old")
    with serving(tmp_path, lambda _: Reply(401, raw=b"x" * 200_000)) as server:
        address = json.loads(server.kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
        server.kubeconfig.write_text(
            json.dumps(fake_api.config(address, {"tokenFile": str(tmp_path / "token")}))
        )
        with pytest.raises(ApiUnreachable, match="more than 100000 bytes"):
            server.connect().get("/x")


def test_each_change_of_a_watch_has_the_bound_alone(tmp_path, small_answers):
    changes = (change("MODIFIED", name="a" * 30_000),) * 20  # a read takes 64 KiB, also of the next ones
    with serving(tmp_path, lambda _: Reply(lines=changes)) as server:
        assert len(list(server.connect().watch("/x", "7"))) == 21


@pytest.mark.parametrize("call", CALLS, ids=["call", "list", "watch"])
def test_a_compressed_answer_is_refused(tmp_path, call):
    reply = Reply(headers=(("Content-Encoding", "gzip"),), raw=gzip.compress(b"[" * 1000))
    with serving(tmp_path, lambda _: reply) as server, pytest.raises(ApiUnreachable, match="compressed"):
        call(server.connect())


def refused_list(tmp_path, *names: str, token: Callable[[], str]) -> tuple[int, str]:
    """List pages of these names, each of which names a next one; return the number of requests, and the error."""
    with (
        serving(tmp_path, lambda _: Reply(body=items(*names, token=token()))) as server,
        pytest.raises(ApiError) as error,
    ):
        list(server.connect().pages("/x"))
    return len(server.asked), str(error.value)


def counted() -> Callable[[], str]:
    """Return a source of `continue` tokens, each another one."""
    numbers = count()
    return lambda: f"more-{next(numbers)}"


def test_a_list_has_a_largest_number_of_objects(tmp_path, monkeypatch):
    monkeypatch.setattr(api, "MOST_OBJECTS", 5)
    requests, error = refused_list(tmp_path, "a", "b", token=counted())
    assert (requests, error) == (3, "GET /x: the API server lists more than 5 objects")


def test_a_list_of_empty_pages_is_refused(tmp_path):
    requests, error = refused_list(tmp_path, token=counted())
    assert requests == api.MOST_EMPTY
    assert "names more after 10 pages without an object" in error


def test_a_list_that_repeats_a_page_is_refused(tmp_path):
    requests, error = refused_list(tmp_path, "a", token=lambda: "more")
    assert requests == 2
    assert "names the same page again" in error


def test_some_empty_pages_are_read_over(tmp_path):
    pages = iter([items(token=f"more-{number}") for number in range(api.MOST_EMPTY - 1)])
    with serving(tmp_path, lambda _: Reply(body=next(pages, items("a")))) as server:
        found = [page for page, _ in server.connect().pages("/x")]
    assert len(found[-1]) == 1


def test_closing_ends_a_waiting_watch(tmp_path):
    opened, ended = threading.Event(), threading.Event()

    def follow():
        with suppress(ApiUnreachable):
            for _ in client.watch("/x", "7"):
                opened.set()
        ended.set()

    with serving(tmp_path, lambda _: Reply(lines=(change("BOOKMARK"),), holds=True)) as server:
        client = server.connect()
        thread = threading.Thread(target=follow, daemon=True)
        thread.start()
        assert opened.wait(PATIENCE_SECONDS)
        client.close()
        assert ended.wait(PATIENCE_SECONDS)


def test_an_answer_that_is_a_list_is_refused(tmp_path):
    with (
        serving(tmp_path, lambda _: Reply(body=[1])) as server,
        pytest.raises(ApiError, match="not an object"),
    ):
        server.connect().get("/x")


WRONG = {
    "nothing": {},
    "metadata": {"metadata": [], "items": []},
    "version": {"metadata": {"resourceVersion": 7}, "items": []},
    "no items": {"metadata": {"resourceVersion": "7"}},
    "items": {"metadata": {"resourceVersion": "7"}, "items": {"a": 1}},
    "item": {"metadata": {"resourceVersion": "7"}, "items": [None]},
}


@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG)
def test_a_list_of_another_shape_is_refused(tmp_path, body):
    with (
        serving(tmp_path, lambda _: Reply(body=body)) as server,
        pytest.raises(ApiError, match="GET /x: the answer has no"),
    ):
        list(server.connect().pages("/x"))


def test_an_object_without_version_is_refused(tmp_path):
    with (
        serving(tmp_path, lambda _: Reply(body={"spec": {}})) as server,
        pytest.raises(ApiError, match=r"no metadata\.resourceVersion"),
    ):
        server.connect().get("/x")


def test_a_change_of_unknown_kind_is_refused(tmp_path):
    with serving(tmp_path, lambda _: Reply(lines=(change("NONE"),))) as server:
        watch = server.connect().watch("/x", "7")
        with pytest.raises(ApiError, match="kind 'NONE'"):
            list(watch)


def test_missing_credentials_are_the_operators_mistake(tmp_path):
    with pytest.raises(SettingsError, match="--kubeconfig"):
        api.connect(str(tmp_path / "none"))


@pytest.mark.parametrize("text", ["", "[]", "{a", "a:\n\tb", "clusters:\nusers:\ncontexts:\n"])
def test_an_unreadable_kubeconfig_is_the_operators_mistake(tmp_path, text):
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    with pytest.raises(SettingsError, match=r"kubeconfig: no credentials .*; name a file with --kubeconfig"):
        api.connect(str(path))


@pytest.mark.parametrize("server", ["http://a:b", "http://\0"])
def test_an_impossible_address_is_the_operators_mistake(tmp_path, server):
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(fake_api.config(server)))
    with pytest.raises(SettingsError, match="no credentials for the API server"):
        api.connect(str(path))


LOST = {
    "token": {"tokenFile": "/nowhere"},
    "folder": {"tokenFile": "/"},
    "command": {"exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v1"}},
}


@pytest.mark.parametrize("call", CALLS, ids=["call", "list", "watch"])
@pytest.mark.parametrize("user", LOST.values(), ids=LOST)
def test_lost_credentials_are_no_answer(tmp_path, call, user):
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(fake_api.config("http://127.0.0.1:1", user)))
    with closing(api.connect(str(path))) as client, pytest.raises(ApiUnreachable, match="not sent: "):
        call(client)


@pytest.mark.parametrize(("status", "error"), [(200, "is not JSON"), (500, "500: Internal Server Error")])
def test_an_answer_that_is_nested_too_deeply_is_refused(tmp_path, status, error):
    reply = Reply(status, raw=b"[" * 100_000)
    with serving(tmp_path, lambda _: reply) as server, pytest.raises(ApiError, match=f"GET /x: .*{error}"):
        server.connect().get("/x")


def test_the_module_loads_no_client():
    code = "import sys, nri_coloc.kubernetes.api; print({'lightkube', 'httpx2'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
