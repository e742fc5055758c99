"""Another process has the daemon's HTTP port: its answers are not believed, and control no terminal."""

import copy
import os
import socket
import sys
import threading
from collections.abc import Iterator
from ipaddress import ip_address
from typing import Any

import pytest

from nri_coloc.cli import asking, listeners, main
from nri_coloc.sim import machines
from tests.rig import whole_process
from tests.unit.cli.test_top import View, container

ORDER = "\x1b]0;owned\x07\nFORGED \u202e\x9b31m"
"""A new title, a line break, a reversed text, and a colour by a C1 control character."""

COMMANDS = (
    ("explain", "shop/web"),
    ("top",),
    ("topology",),
    ("audit",),
    ("audit", "--pod", "shop/web"),
)


def answers() -> dict[str, Any]:
    """Return answers that lead each command through all of its sentences."""
    view = View()
    follower = {"pool": "share", "exclusive": False, "waits_for": "2 CPUs", "actual_cpus": "0-3"}
    batch = {
        "pool": "reclaim",
        "exclusive": False,
        "cpus": "2-7",
        "actual_cpus": "",
        "actual_cpus_unknown": "x",
    }
    view.containers += [container("two") | follower, container("three") | batch]
    view.checks["connected"] = {"ok": False, "detail": "no runtime"}
    state = view.state()
    state["lending"] |= {"factor": 0.5, "until": "2026-01-01T00:00:00Z", "switch": "off"}
    state |= {"remarks": ["a remark"], "host_groups": ["batch/one"]}
    node = {"namespace": "", "pod": "", "container": "", "container_id": ""}
    wrong = {"event": "annotation.invalid", "key": "k", "value": "v", "allowed": "1", "used": "2"}
    connect = {"event": "runtime.connect", "because": "registered with the runtime: containerd, NRI 0.9.0"}
    member = {"reason": "no_cpuset", "key": "reclaim.members", "value": "batch/one"}
    others = ({"candidates": [{"node": 0, "free": 1, "verdict": "chosen"}]}, wrong, {"container_id": "ended"})
    records = [
        view.record(1) | more for more in (*others, {"container_id": ""}, connect | node, member | node)
    ]
    page = {"records": records, "next": 1, "kept": records[:1]}
    served = {"/v1/state": state, "/v1/capacity": view.capacity(), "/readyz": view.readiness()}
    return {**served, "/v1/audit": page}


def texts(within: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the place of each text in nested answers."""
    if isinstance(within, str):
        yield path
    named = (
        within.items() if isinstance(within, dict) else enumerate(within) if isinstance(within, list) else ()
    )
    for name, inner in named:
        yield from texts(inner, (*path, name))


def replaced(place: tuple[Any, ...]) -> Any:
    """Return the answers with an order to the terminal in one place."""
    changed: Any = answers()
    within = changed
    for name in place[:-1]:
        within = within[name]
    within[place[-1]] += ORDER
    return changed


def obeys(said: str) -> bool:
    return "\nFORGED" in said or not said.replace("\n", "").isprintable()


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_text_of_an_answer_controls_the_terminal(command, monkeypatch, tmp_path, capsys):
    machines.plant(machines.MACHINES["8cpu"], tmp_path)
    machine = ("--host-root", str(tmp_path)) if command == ("topology",) else ()
    obeyed = []
    for place in texts(answers()):
        changed = replaced(place)
        monkeypatch.setattr(asking, "ask", lambda _address, path, **_: copy.deepcopy(changed[path]))  # noqa: B023
        main.main([*command, *machine, "--http", "127.0.0.1:1"], {})
        if any(map(obeys, capsys.readouterr())):
            obeyed.append(place)
    assert obeyed == []


@pytest.fixture
def impostor() -> Iterator[str]:
    """Listen as another user, and order the terminal about in each answer."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    with whole_process.as_user(65534):
        listening = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=_serve, args=(listening,), daemon=True).start()
    yield f"127.0.0.1:{listening.getsockname()[1]}"
    listening.shutdown(socket.SHUT_RDWR)
    listening.close()


def _serve(listening: socket.socket) -> None:
    while True:
        try:
            connection, _ = listening.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"\x1b]0;owned\x07\r\n")
        except ConnectionError:
            continue  # the client had no use for it
        except OSError:
            return


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_another_users_answers_are_not_believed(command, impostor, capsys):
    assert main.main([*command, "--http", impostor], {}) == 1
    assert "a process of user 65534 listens" in capsys.readouterr().err


def test_the_doctor_names_the_other_user(impostor, tmp_path, capsys):
    folders = ("--host-root", str(tmp_path), "--state-dir", str(tmp_path))
    main.main(["doctor", *folders, "--http", impostor], {})
    assert "a process of user 65534 listens" in " ".join(capsys.readouterr().out.split())


def test_no_status_line_controls_the_terminal(impostor, monkeypatch, capsys):
    monkeypatch.setattr(listeners, "strangers", lambda *_: set())
    assert main.main(["explain", "shop/web", "--http", impostor], {}) == 1
    assert not obeys(capsys.readouterr().err)


class TestListeners:
    @pytest.mark.parametrize("bound", ["127.0.0.1", "0.0.0.0"])
    def test_a_listener_is_found(self, bound):
        with socket.create_server((bound, 0)) as server:
            assert listeners.strangers("127.0.0.1", server.getsockname()[1]) == set()

    def test_a_listener_at_another_address_does_not_count(self):
        with socket.create_server(("127.0.0.2", 0)) as server:
            assert listeners.strangers("127.0.0.1", server.getsockname()[1]) is None

    @pytest.mark.parametrize(
        ("bound", "asked"), [("::1", "::1"), ("::", "127.0.0.1"), ("::ffff:127.0.0.1", "127.0.0.1")]
    )
    def test_a_listener_of_ipv6_is_found(self, bound, asked, tmp_path):
        packed = ip_address(bound).packed
        words = (int.from_bytes(packed[at : at + 4], sys.byteorder) for at in range(0, 16, 4))
        row = f"0: {''.join(f'{word:08X}' for word in words)}:2610 0:0 0A 0:0 00:0 0 65534 0 71166"
        (tmp_path / "tcp6").write_text(f"  sl  local_address\n{row}\n")
        assert listeners.strangers(asked, 0x2610, str(tmp_path)) == {65534}
