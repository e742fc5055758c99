"""`nri-coloc admin` prints the daemon's answer, and its exit code shows whether the order was carried out."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

from nri_coloc.cli.main import main
from nri_coloc.core.evictions import Outcome, Result
from nri_coloc.service.admin_calls import AdminServer
from nri_coloc.service.admin_client import AdminClient
from nri_coloc.service.admin_gate import Gate
from nri_coloc.service.orders import Compared, OrderDeclined, OrderInvalid
from tests.unit.service.orderly import Orderly

Ordered = Callable[..., int]


@pytest.fixture
def orderly() -> Orderly:
    return Orderly()


@pytest.fixture
def ordered(orderly: Orderly, tmp_path: Path) -> Iterator[Ordered]:
    path = str(tmp_path / "run" / "admin.sock")
    gate = Gate(path, lambda at, of: AdminServer(at, orderly, of, print), lambda _: None, print)
    gate.look()
    yield lambda *arguments: main(["admin", *arguments, "--admin-socket", path], {})
    gate.close()


@pytest.fixture
def foreign(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Return a function that starts a daemon with one call, whose answer are some bytes, or without any."""
    servers: list[grpc.Server] = []

    def start(answer: bytes | None, after_s: float = 0) -> str:
        path = str(tmp_path / f"{len(servers)}.sock")
        servers.append(grpc.server(ThreadPoolExecutor(1)))
        if answer is not None:

            def answers(_request: bytes, _context: grpc.ServicerContext) -> bytes:
                time.sleep(after_s)
                return answer

            call: Any = grpc.unary_unary_rpc_method_handler(answers)
            handler = grpc.method_handlers_generic_handler("coloc.admin.v1.Admin", {"Reload": call})
            servers[-1].add_generic_rpc_handlers((handler,))
        servers[-1].add_insecure_port(f"unix:{path}")
        servers[-1].start()
        return path

    yield start
    for each in servers:
        each.stop(None)


def test_a_pause_says_until_when(ordered, orderly, capsys):
    assert ordered("pause", "60", "--reason", "load test") == 0
    assert (
        capsys.readouterr().out
        == "lending is paused until noon; nri-coloc admin resume ends the pause earlier\n"
    )
    assert orderly.asked[0][2:] == (60, "load test")


def test_its_end_is_said(ordered, capsys):
    assert ordered("resume") == 0
    assert capsys.readouterr().out == "lending continues\n"


def test_off_says_what_is_lent(ordered, orderly, capsys):
    assert ordered("lending", "off", "--grace", "1h30m") == 0
    said = "lending ends; until noon\nnot drained, because it is outside Kubernetes: /yarn\n"
    assert capsys.readouterr().out == said
    assert orderly.asked[0][2:] == (5400, False)


def test_a_drain_ends_with_1_while_a_pod_runs(ordered, orderly, capsys):
    assert ordered("lending", "off", "--drain") == 1
    said = capsys.readouterr()
    assert "\nshop/batch: it may run on\n" in said.out
    assert said.err == "nri-coloc: reclaimed pods that still run: 1\n"
    assert orderly.asked[0][2:] == (None, True)


def test_a_drain_ends_with_0_without_pods(ordered, orderly, capsys):
    orderly.running = ()
    assert ordered("lending", "off", "--drain", "--grace", "0") == 0
    assert capsys.readouterr().out.endswith("\nno reclaimed pod runs\n")
    assert orderly.asked[0][2:] == (0, True)


def test_on_says_what_decides(ordered, capsys):
    assert ordered("lending", "on") == 0
    assert capsys.readouterr().out == "lending is on again: the schedule has no windows\n"


@pytest.mark.parametrize("position", ["off", "on"])
def test_an_order_that_is_not_stored_ends_with_1(position, ordered, orderly, capsys):
    orderly.not_kept = "cannot write the file"
    assert ordered("lending", position) == 1
    said = "nri-coloc: the order is in force, and it is not stored: cannot write the file\n"
    assert capsys.readouterr().err == said


def test_an_invalid_configuration_is_told_and_ends_with_1(ordered, capsys):
    assert ordered("reload") == 1
    said = capsys.readouterr()
    assert (said.out, said.err) == (
        "",
        "nri-coloc: the previous configuration stays in force: line 7 is wrong\n",
    )


def test_a_valid_one_is_in_force(ordered, orderly, monkeypatch, capsys):
    monkeypatch.setattr(orderly, "reload", lambda _: "")
    assert ordered("reload") == 0
    assert capsys.readouterr().out == "the configuration was read and is in force\n"


def test_what_was_put_right_is_told_one_by_one(ordered, capsys):
    assert ordered("repair") == 0
    said = "shop/web: found cpu.shares 5\n3 pods and containers checked, 1 repaired\n"
    assert capsys.readouterr().out == said


def test_what_is_missing_is_told_and_ends_with_1(ordered, capsys):
    assert ordered("compare") == 1
    assert capsys.readouterr().err == "nri-coloc: two are missing\n"


def test_nothing_missing_is_good(ordered, orderly, monkeypatch, capsys):
    monkeypatch.setattr(orderly, "compare", lambda _: Compared(complete=True, detail=""))
    assert ordered("compare") == 0
    assert capsys.readouterr().out == "no container is missing: the runtime's list and CRI's list agree\n"


def test_what_the_daemon_declines_is_a_sentence_and_ends_with_1(ordered, orderly, capsys):
    orderly.error = OrderDeclined("mode observe changes nothing")
    assert ordered("repair") == 1
    assert capsys.readouterr().err == "nri-coloc: mode observe changes nothing\n"


def test_a_daemon_of_another_version_is_named(foreign, capsys):
    for answer in (None, b"\xff"):
        path = foreign(answer)
        assert main(["admin", "reload", "--admin-socket", path], {}) == 1
        said = f"nri-coloc: the daemon at {path} has another version of Reload; use the nri-coloc of its own image\n"
        assert capsys.readouterr().err == said


def test_an_empty_answer_is_of_another_version(foreign, capsys):
    assert main(["admin", "reload", "--admin-socket", foreign(b"")], {}) == 1
    said = "the previous configuration stays in force: the daemon gives no reason; use the nri-coloc of its own image"
    assert capsys.readouterr().err == f"nri-coloc: {said}\n"


@pytest.mark.parametrize(("refusal", "code"), [(OrderDeclined, 1), (OrderInvalid, 2)])
def test_no_refusal_rules_the_terminal(ordered, orderly, capsys, refusal, code):
    orderly.error = refusal("no\x1b[2J\nnri-coloc: done")
    assert ordered("repair") == code
    assert capsys.readouterr().err == "nri-coloc: no?[2J nri-coloc: done\n"


def test_a_daemon_that_does_not_answer_is_named(foreign, monkeypatch, capsys):
    monkeypatch.setattr(AdminClient.__init__, "__defaults__", (0.1,))
    path = foreign(b"", after_s=1)
    assert main(["admin", "reload", "--admin-socket", path], {}) == 1
    assert f"the daemon at {path} did not answer Reload within 0.1 s; " in capsys.readouterr().err


def test_without_a_daemon_it_is_a_sentence_and_ends_with_1(tmp_path, capsys):
    assert main(["admin", "resume", "--admin-socket", str(tmp_path / "none")], {}) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"nri-coloc: cannot reach the daemon at {tmp_path / 'none'}: No such file")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["stop"],
        ["pause"],
        ["pause", "0"],
        ["pause", "soon"],
        ["pause", "86401"],
        ["resume", "60"],
        ["lending"],
        ["lending", "half"],
        ["lending", "on", "--drain"],
        ["lending", "off", "--grace", "10"],
        ["lending", "off", "--grace", "25h"],
    ],
    ids=[
        "nothing",
        "unknown",
        "no time",
        "zero",
        "words",
        "too long",
        "too much",
        "no position",
        "no such position",
        "on drains nothing",
        "a grace without unit",
        "a long grace",
    ],
)
def test_wrong_usage_ends_with_2(arguments, capsys):
    assert main(["admin", *arguments], {}) == 2
    assert capsys.readouterr().err


def test_an_accepted_eviction_is_said(ordered, orderly, capsys):
    assert ordered("evict", "shop/batch", "--reason", "the disk is full") == 0
    assert capsys.readouterr().out == "shop/batch is being evicted: the API server accepted the eviction\n"
    assert orderly.asked[0][2:] == ("shop", "batch", "the disk is full")


def test_a_budgets_words_reach_the_operator(ordered, orderly, capsys):
    orderly.result = Result("e1", Outcome.BUDGET, "The disruption budget needs 1", 10)
    assert ordered("evict", "shop/batch", "--reason", "x") == 1
    said = "nri-coloc: shop/batch was not evicted: The disruption budget needs 1; try again in 10 s\n"
    assert capsys.readouterr().err == said


@pytest.mark.parametrize(
    "arguments", [["shop/batch"], ["batch", "--reason", "x"], ["a/b/c", "--reason", "x"]]
)
def test_an_eviction_needs_pod_and_reason(ordered, orderly, arguments):
    assert ordered("evict", *arguments) == 2
    assert not orderly.asked


def test_an_invalid_argument_of_an_order_ends_with_2(ordered, orderly, capsys):
    orderly.error = OrderInvalid("a reason has at most 200 characters, all printable")
    assert ordered("evict", "shop/batch", "--reason", "x" * 201) == 2
    assert capsys.readouterr().err == "nri-coloc: a reason has at most 200 characters, all printable\n"
