"""`nri-coloc top` shows the daemon's answers on one screen; a daemon that does not answer is reported there."""

import io
import json
import sys
from typing import Any

import pytest
from rich.console import Console

from nri_coloc.cli import main
from nri_coloc.cli import top as module
from nri_coloc.cli.top import Top
from nri_coloc.service.http import HttpServer

AT = "2026-01-01T00:00:00.000000Z"
POOLS = ("reserved", "dedicated", "system", "share", "reclaim")


def container(name: str) -> dict[str, Any]:
    known = {
        "id": name,
        "namespace": "shop",
        "pod": "web",
        "container": name,
        "class": "dedicated",
        "pool": "dedicated",
    }
    return {**known, "cpus": "0-1", "actual_cpus": "0-1", "mems": "0", "exclusive": True}


class View:
    """The answers of a daemon with one container; a test changes `checks`."""

    def __init__(self) -> None:
        self.containers = [container("app")]
        self.checks = {"config": {"ok": True, "detail": ""}}
        self.records = [self.record(1)]

    def record(self, seq: int) -> dict[str, Any]:
        words = {"event": "container.admit", "reason": "whole_core", "because": f"decision {seq}"}
        about = {
            "namespace": "shop",
            "pod": "web",
            "container": "app",
            "container_id": "app",
            "pool": "dedicated",
        }
        moved = {"before": {}, "after": {"cpus": "0-1"}, "class": "dedicated"}
        return {"seq": seq, "ts": "2026-01-01T00:00:00.000000Z", **words, **about, **moved}

    def state(self) -> dict[str, Any]:
        node = {"cpus": "0-7", "reserved": "", "numa": [{"id": 0, "cpus": "0-7", "memory_bytes": 1 << 30}]}
        pools = {
            name: {"cpus": "2-7" if name in ("share", "reclaim") else "", "members": 0} for name in POOLS
        }
        lending = {"factor": 1.0, "until": None, "because": "no windows", "switch": "on"}
        named = {"node": node, "pools": pools, "containers": self.containers, "lending": lending}
        return {"mode": "enforce", **named}

    def capacity(self) -> dict[str, Any]:
        now = {"headroom_cpu_milli": 3000, "headroom_memory_bytes": 1 << 30, "online_cpu_milli": 1250}
        return {"cpu_milli": 2500, "memory_bytes": 1 << 29, "reason": "learning", "at": AT, **now}

    def readiness(self) -> dict[str, Any]:
        return {"ready": all(check["ok"] for check in self.checks.values()), "checks": self.checks}

    def audit(self, since: int, pod: str, limit: int) -> dict[str, Any]:
        page = [one for one in self.records if one["seq"] > since][:limit]
        return {"records": page, "next": page[-1]["seq"] if page else since}


class Daemon:
    """A view that is served over HTTP until `silence`."""

    def __init__(self) -> None:
        self.view = View()
        self._server = HttpServer(self.view, lambda _: None)  # type: ignore[arg-type]  # as much of a View as is asked
        self._server.start("127.0.0.1:0")
        assert self._server.wait_bound(30)
        self.address = f"127.0.0.1:{self._server.port}"

    def silence(self) -> None:
        self._server.close()


@pytest.fixture
def daemon():
    served = Daemon()
    yield served
    served.silence()


def screen(top: Top) -> str:
    out = io.StringIO()
    Console(file=out, width=160).print(top.drawn())
    return out.getvalue()


def test_without_a_terminal_one_picture_is_printed(daemon, capsys):
    assert main.main(["top", "--http", daemon.address], {}) == 0
    out = capsys.readouterr().out
    assert "CPUs 0-7, mode enforce, ready" in out
    assert "shop/web/app" in out
    assert "decision 1" in out


@pytest.mark.parametrize(
    "says",
    [
        {"FORCE_COLOR": "1"},
        {"FORCE_COLOR": "1", "NO_COLOR": "1", "TERM": "xterm-256color"},
        {"TTY_COMPATIBLE": "1", "COLORTERM": "truecolor"},
        {"TTY_INTERACTIVE": "1", "TERM": "linux"},
    ],
    ids=", ".join,
)
def test_what_is_no_terminal_is_none_whatever_the_environment_says(says, daemon, monkeypatch, capsys):
    for name, value in says.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(module, "_watch", not_without_end)
    assert main.main(["top", "--http", daemon.address], {}) == 0
    out = capsys.readouterr().out
    assert "decision 1" in out
    assert "\x1b" not in out


@pytest.mark.parametrize("term", ["dumb", "unknown"])
def test_a_terminal_that_cannot_draw_gets_one_picture(term, daemon, monkeypatch, capsys):
    monkeypatch.setenv("TERM", term)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(module, "_watch", not_without_end)
    assert main.main(["top", "--http", daemon.address], {}) == 0
    assert "decision 1" in capsys.readouterr().out


def not_without_end(*_: object) -> None:
    raise AssertionError("no signal could end it")


def test_what_is_used_lent_and_advertised_is_said(daemon):
    top = Top(daemon.address)
    top.look()
    shown = screen(top)
    assert "online pods use 1.2 cores; headroom (may be lent now): 3.0 cores, memory 1.0 GiB" in shown
    assert "advertised capacity: 2.5 cores, 512 MiB (use is still being learnt; measured" in shown


def test_new_decisions_come_first_and_old_ones_once(daemon):
    top = Top(daemon.address)
    top.look()
    daemon.view.records.append(daemon.view.record(2))
    top.look()
    shown = screen(top)
    assert shown.index("decision 2") < shown.index("decision 1")
    assert shown.count("decision 1") == 1


def test_a_daemon_that_is_not_ready_is_told_why(daemon):
    daemon.view.checks["config"] = {"ok": False, "detail": "line 3: no such key"}
    top = Top(daemon.address)
    top.look()
    assert "mode enforce (by the last valid configuration), not ready" in screen(top)
    assert "config: line 3: no such key" in screen(top)


def test_a_silent_daemon_leaves_its_last_answer_and_reason(daemon):
    top = Top(daemon.address)
    top.look()
    daemon.silence()
    top.look_again()
    assert f"cannot ask the daemon at {daemon.address}" in screen(top)
    assert "the figures are 0 s old" in screen(top)
    assert "shop/web/app" in screen(top)


def test_a_record_shows_no_cpus_of_a_later_state(daemon):
    daemon.view.records = [daemon.view.record(1) | {"after": {}}]
    top = Top(daemon.address)
    top.look()
    assert "shop/web/app whole_core: decision 1" in screen(top)


def test_a_daemon_that_speaks_again_takes_the_reason_away(daemon):
    top = Top(daemon.address)
    daemon.view.readiness = dict  # an answer that is not the daemon's
    top.look_again()
    daemon.view.readiness = View().readiness
    top.look_again()
    assert "not nri-coloc" not in screen(top)


@pytest.mark.parametrize("value", ["\x1b[2J", 7, ["x"]], ids=["escape", "number", "list"])
def test_answers_of_another_version_are_printed(daemon, value, capsys):
    state = daemon.view.state()
    state["pools"]["share"]["members"] = value
    state["node"]["numa"][0]["id"] = value if isinstance(value, str) else 0
    daemon.view.containers[0]["class"] = value
    daemon.view.records[0]["event"] = value
    daemon.view.state = lambda: state
    assert main.main(["top", "--http", daemon.address], {}) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_of_many_containers_the_rest_is_counted(daemon):
    daemon.view.containers = [container(f"app-{number}") for number in range(9)]
    top = Top(daemon.address, rows=4)
    top.look()
    assert "and 5 more" in screen(top)


def test_nobody_to_ask_is_a_sentence_and_a_failure(capsys):
    assert main.main(["top", "--http", "127.0.0.1:1"], {}) == 1
    assert "cannot ask the daemon at 127.0.0.1:1" in capsys.readouterr().err


def test_a_stranger_at_the_port_is_recognised(daemon, capsys):
    daemon.view.capacity = lambda: json.loads('{"hello": 1}')
    assert main.main(["top", "--http", daemon.address], {}) == 1
    assert "is not nri-coloc" in capsys.readouterr().err


def test_names_from_strangers_are_not_obeyed(daemon):
    daemon.view.containers = [container("\x1b[2Japp")]
    top = Top(daemon.address)
    top.look()
    assert "\x1b[2J" not in screen(top)
