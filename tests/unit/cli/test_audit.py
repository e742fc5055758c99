"""`nri-coloc audit` prints the daemon's newest records, or a sentence with the reason why it cannot."""

import json
import socket
from threading import Thread
from typing import Any

import pytest

from nri_coloc.cli import asking, main
from nri_coloc.core import endpoint
from nri_coloc.service.http import HttpServer


class View:
    """The part of the daemon that the command asks: pages of audit records.

    most: the records that fit into an answer, which may be fewer than its limit.
    says_more: an answer says whether there are more records; a daemon of an earlier version does not.
    """

    most = 1000
    says_more = True

    def __init__(self, count: int) -> None:
        self.records: list[dict[str, Any]] = [
            {"seq": number, "ts": "T", "pod": "web", "event": "x"} for number in range(1, count + 1)
        ]

    def audit(self, since: int, pod: str, limit: int) -> dict[str, Any]:
        left = [one for one in self.records if one["seq"] > since and pod in ("", one["pod"])]
        page = left[: min(limit, self.most)]
        found = {"records": page, "next": page[-1]["seq"] if page else since}
        found |= {"more": len(page) < len(left)} if self.says_more else {}
        return found | {"kept": [one for one in self.kept if one["pod"] in ("", pod)]} if pod else found

    @property
    def kept(self) -> list[dict[str, Any]]:
        """Return an admission of the previous process, the record of a pool, and the newest record."""
        admission = {"seq": 1, "ts": "S", "pod": "web", "event": "admission"}
        return [admission, {"seq": 2, "ts": "S", "pod": "", "event": "pool"}, *self.records[-1:]]


@pytest.fixture
def daemon():
    servers = []

    def serve(count: int) -> str:
        server = HttpServer(View(count), lambda _: None)  # type: ignore[arg-type]  # as much of a View as is asked
        server.start("127.0.0.1:0")
        assert server.wait_bound(30)
        servers.append(server)
        return f"127.0.0.1:{server.port}"

    yield serve
    for server in servers:
        server.close()


def run(address: str, *arguments: str) -> int:
    return main.main(["audit", "--http", address, *arguments], {})


def test_records_are_printed_one_a_line_oldest_first(daemon, capsys):
    assert run(daemon(3)) == 0
    assert [json.loads(line)["seq"] for line in capsys.readouterr().out.splitlines()] == [1, 2, 3]


def test_of_many_the_newest_are_printed(daemon, capsys):
    assert run(daemon(2500), "--limit", "2") == 0
    assert [json.loads(line)["seq"] for line in capsys.readouterr().out.splitlines()] == [2499, 2500]


def test_one_pods_records_are_asked_for(daemon, capsys):
    assert run(daemon(3), "--pod", "other") == 0
    assert capsys.readouterr().out == ""


def test_a_pods_kept_records_come_first(daemon, capsys):
    assert run(daemon(3), "--pod", "web") == 0
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(one["ts"], one["seq"]) for one in printed] == [("S", 1), ("T", 1), ("T", 2), ("T", 3)]


def test_a_short_answer_is_not_the_last(daemon, capsys, monkeypatch):
    monkeypatch.setattr(View, "most", 2)
    assert run(daemon(5)) == 0
    assert [json.loads(line)["seq"] for line in capsys.readouterr().out.splitlines()] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(("says_more", "requests"), [(True, 1), (False, 2)], ids=["now", "earlier version"])
def test_the_same_answers_have_a_pods_kept_records(daemon, monkeypatch, says_more, requests):
    monkeypatch.setattr(View, "says_more", says_more)
    asked = []
    ask = asking.ask

    def counted(address: str, path: str, **query: str | int) -> dict[str, Any]:
        asked.append(path)
        return ask(address, path, **query)

    monkeypatch.setattr(asking, "ask", counted)
    assert run(daemon(3), "--pod", "web") == 0
    assert asked == ["/v1/audit"] * requests


def test_a_proxy_of_the_environment_is_not_asked(daemon, monkeypatch, capsys):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert run(daemon(1)) == 0
    assert capsys.readouterr().out


def test_nobody_there_is_a_sentence(capsys):
    assert run("127.0.0.1:1") == 1
    said = capsys.readouterr().err
    assert said.startswith("nri-coloc: cannot ask the daemon at 127.0.0.1:1: ")
    assert "; start it, or give the address" in said


@pytest.mark.parametrize("address", ["bad host:1", "nowhere", "", "127.0.0.1:port", "a\nb:1"])
def test_an_address_that_is_none_is_a_sentence(address, capsys):
    assert run(address) in (1, 2)
    assert capsys.readouterr().err.startswith("nri-coloc: ")


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-x\r\n",
        b"HTTP/1.0 200 OK\r\n\r\n[]",
        b"HTTP/1.0 200 OK\r\n\r\n{}",
        b'HTTP/1.0 200 OK\r\n\r\n{"records": 7, "next": 0}',
    ],
    ids=["silence", "another protocol", "a list", "nothing in it", "no list in it"],
)
def test_somebody_else_at_the_port_is_a_sentence(answer, capsys):
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(answer)

        other = Thread(target=serve)
        other.start()
        assert run(f"127.0.0.1:{listener.getsockname()[1]}") == 1
        other.join()
    assert capsys.readouterr().err.startswith("nri-coloc: ")


@pytest.mark.parametrize("pod", ["a/b/c", "shop/"])
def test_a_pod_that_nobody_can_be_called_is_the_askers_mistake(daemon, capsys, pod):
    assert run(daemon(3), "--pod", pod) == 2
    assert "NAME or NAMESPACE/NAME" in capsys.readouterr().err


def test_a_name_that_the_daemon_refuses_is_the_askers_mistake(daemon, capsys, monkeypatch):
    monkeypatch.setattr(endpoint, "is_own_name", lambda *_: False)
    assert run(daemon(3)) == 2
    assert "ask for the address itself, or localhost" in capsys.readouterr().err


def test_a_daemon_that_cannot_answer_says_so_itself(daemon, capsys, monkeypatch):
    monkeypatch.setattr(View, "audit", lambda *_: 1 / 0)
    assert run(daemon(3)) == 1
    assert "is not nri-coloc" not in capsys.readouterr().err
