"""cli/explain.py, cli/topology.py: the command explains a pod line by line, and lists the owner of each CPU."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from nri_coloc.cli import asking, explain, main
from nri_coloc.cli.explain import Whom
from nri_coloc.cli.topology import owners
from nri_coloc.core import cpuset
from nri_coloc.errors import ColocError, SettingsError
from nri_coloc.sim import machines

CANDIDATES = [
    {"node": 0, "free": 4, "whole_cores": 2, "verdict": "chosen"},
    {"node": 1, "free": 4, "whole_cores": 2, "verdict": "equal to node 0; the lower id wins"},
]


def container(**fields: Any) -> dict[str, Any]:
    own = {"id": "9c1b", "namespace": "shop", "pod": "web", "container": "app", "class": "dedicated"}
    place = {"pool": "dedicated", "cpus": "0-1", "actual_cpus": "0-1", "mems": "0", "exclusive": True}
    return {**own, **place, **fields}


def record(event: str = "container.admit", reason: str = "whole_core", **fields: Any) -> dict[str, Any]:
    subject = {"namespace": "shop", "pod": "web", "container": "app", "container_id": "9c1b"}
    after = {"cpus": "0-1"} if event == "container.admit" else {}
    what = {"seq": 1, "ts": "T", "event": event, "reason": reason, "because": "it was free", "after": after}
    return {**what, "pool": "dedicated", **subject, **fields}


def resized(pool: str, cpus: str, ts: str, because: str = "shop/db owns 0-5") -> dict[str, Any]:
    subject = {"namespace": "", "pod": "", "container": "", "container_id": "", "pool": pool}
    return record("pool.resize", "cpus_taken", ts=ts, because=because, after={"cpus": cpus}, **subject)


SHARER = {"class": "shared", "pool": "share", "exclusive": False}


def state(*containers: dict[str, Any], **node: Any) -> dict[str, Any]:
    pools = {"reserved": "", "dedicated": "0-1", "system": "2-7", "share": "2-7", "reclaim": "2-7"}
    named = {name: {"cpus": cpus, "members": 0} for name, cpus in pools.items()}
    return {
        "mode": "enforce",
        "node": {"cpus": "0-7", "numa": [], **node},
        "pools": named,
        "containers": list(containers),
    }


def sharing(share: str = "0-7", reserved: str = "", **fields: Any) -> dict[str, Any]:
    """Return a state with one container in pool `share`, and no dedicated one."""
    whole = state(container(**SHARER, **fields))
    whole["pools"] |= {"share": {"cpus": share}, "reserved": {"cpus": reserved}, "dedicated": {"cpus": ""}}
    return whole


WEB = Whom("shop", "web")


class TestWhom:
    def test_a_pod_and_a_container_can_be_named(self):
        assert explain.read("shop/web") == WEB
        assert explain.read("shop/web/app") == Whom("shop", "web", "app")

    @pytest.mark.parametrize("text", ["web", "", "/web", "shop/", "a/b/c/d", "shop//app"])
    def test_anything_else_is_wrong_usage(self, text):
        with pytest.raises(SettingsError, match="NAMESPACE/POD"):
            explain.read(text)


class TestLines:
    def test_a_shortened_sentence_is_printed_whole(self):
        whole = "it was free; free were 0-7; wished was numa single"
        told = explain.lines(WEB, state(container()), [record(inputs={"n": 2, "details": whole})])
        assert f"  T container.admit whole_core: {whole}" in told

    def test_a_container_its_decision_and_the_candidates_are_told(self):
        told = explain.lines(WEB, state(container()), [record(candidates=CANDIDATES)])
        assert told == [
            "shop/web/app  class dedicated, pool dedicated, CPUs 0-1 (its own), memory nodes 0",
            "  T container.admit whole_core: it was free",
            "    node  free  whole cores  verdict",
            "       0     4            2  chosen",
            "       1     4            2  equal to node 0; the lower id wins",
        ]

    def test_the_last_decision_that_placed_it_counts(self):
        moved = record("container.update", "reconfigured", because="other settings", after={"cpus": "0-1"})
        told = explain.lines(WEB, state(container()), [record(), moved])
        assert told[1:] == ["  T container.update reconfigured: other settings"]

    def test_a_second_chance_is_such_a_decision(self):
        placed = record("container.update", "cpus_freed", because="placed again", after={"cpus": "0-1"})
        told = explain.lines(WEB, state(container()), [record(reason="no_free_cpus"), placed])
        assert told[1:] == ["  T container.update cpus_freed: placed again"]

    def test_a_container_that_waits_is_said_to(self):
        waiting = container(pool="share", exclusive=False, waits_for="2 CPUs of its own")
        told = explain.lines(WEB, state(waiting), [record(reason="no_free_cpus")])
        assert told[1] == "  waits for 2 CPUs of its own; it is placed again when they are free"

    def test_what_came_after_it_follows(self):
        later = record("container.update", "kubelet_update", because="the kubelet asked")
        told = explain.lines(WEB, state(container()), [record(), later])
        assert told[2:] == ["  since then", "    T container.update kubelet_update: the kubelet asked"]

    def test_annotations_that_do_not_count_are_told_once(self):
        bad = record("annotation.invalid", "bad_value", key="k", value="x", allowed="1 to 9", used="3")
        denied = record("annotation.denied", "not_allowed", key="m", value="y", allowed="less", used="none")
        told = explain.lines(WEB, state(container()), [record(), bad, bad, denied])
        assert told[2:] == [
            "  annotations that do not count",
            "    k='x' cannot be read; allowed: 1 to 9; used: 3",
            "    m='y' is not allowed for this pod; allowed: less; used: none",
        ]

    def test_the_pools_record_leads_where_it_moved_the_container(self):
        admitted = record(ts="1", pool="share", because="class by default", after={"cpus": "2-7"})
        told = explain.lines(
            WEB,
            sharing(cpus="6-7", actual_cpus="6-7"),
            [admitted, resized("share", "6-7", "2")],
        )
        assert told[1:] == [
            "  CPUs 6-7 since 2 pool.resize cpus_taken: shop/db owns 0-5",
            "  1 container.admit whole_core: class by default",
        ]

    def test_a_pools_record_before_the_admission_leads_nowhere(self):
        records = [resized("share", "6-7", "1"), record(ts="2", pool="share", after={"cpus": "6-7"})]
        told = explain.lines(WEB, sharing(cpus="6-7", actual_cpus="6-7"), records)
        assert told[1:] == ["  2 container.admit whole_core: it was free"]

    def test_cpus_that_pool_share_lacks_have_a_reason(self):
        whole = sharing("4-6", reserved="0", cpus="4-6", actual_cpus="4-6")
        whole["node"] |= {"kubepods": "0-6", "kept_by_kubelet": "1"}
        whole["pools"]["reclaim"]["cpus"] = "4-6"
        whole["containers"].append(container(id="db", pod="db", cpus="2", actual_cpus="2"))
        told = explain.lines(WEB, whole, [record(pool="share", after={"cpus": "4-6"})])
        assert told[2:] == [
            "  CPUs 7: not in the cgroup of all pods (kubepods)",
            "  CPUs 0: reserved (node.reservedCPUs)",
            "  CPUs 1: pinned by the kubelet's CPU manager",
            "  CPUs 2: shop/db/app",
            "  CPUs 3: in no pool (isolated by the kernel)",
        ]

    def test_a_pool_with_every_cpu_lacks_none(self):
        told = explain.lines(WEB, sharing(cpus="0-7", actual_cpus="0-7"), [])
        assert told[1] == "  no record explains CPUs 0-7 yet"

    def test_a_follower_is_led_by_its_main_container(self):
        grown = record("container.update", "grown", ts="2", container_id="main", after={"cpus": "0-3"})
        told = explain.lines(WEB, state(container(cpus="0-3", actual_cpus="0-3")), [record(ts="1"), grown])
        assert told[1] == "  CPUs 0-3 since 2 container.update grown: it was free"

    @pytest.mark.parametrize("figure", ["pool_cpus", "main_cpus", "claim_cpus"])
    def test_a_placement_that_wrote_nothing_explains_its_cpus(self, figure):
        """Its specification had these CPUs, so `after` is without them."""
        adopted = record(reason="adopted", after={}, inputs={figure: "0-7"})
        told = explain.lines(WEB, state(container(cpus="0-7", actual_cpus="0-7")), [adopted])
        assert told[1:] == ["  T container.admit adopted: it was free"]

    def test_the_place_of_another_container_explains_nothing(self):
        adopted = record(reason="adopted", container_id="other", after={}, inputs={"pool_cpus": "0-7"})
        told = explain.lines(WEB, state(container(cpus="0-7", actual_cpus="0-7")), [adopted])
        assert told[1] == "  no record explains CPUs 0-7 yet"

    def test_cpus_that_no_record_leads_to_are_named(self):
        boxed = {**SHARER, "class": "reclaimed", "pool": "reclaim"}
        told = explain.lines(WEB, state(container(**boxed, cpus="7", actual_cpus="7")), [record()])
        assert told[1].startswith(
            "  no record explains CPUs 7 yet: a swinging pool has one record a minute; "
        )

    def test_records_of_a_previous_process_come_first(self):
        moved, newest = (
            record("container.update", "grown", ts=ts, seq=seq) for ts, seq in (("3", 2), ("4", 3))
        )
        again = record(reason="restored", ts="2", seq=1)
        found = explain.merged([record(ts="1", seq=900), moved], [again, moved, newest])
        assert [one["ts"] for one in found] == ["1", "3", "4"]

    def test_what_was_read_back_is_told_where_it_differs(self):
        told = explain.lines(WEB, state(container(actual_cpus="0-7")), [record()])
        assert told[1] == "  but its cgroup has CPUs 0-7"

    def test_cpus_that_could_not_be_read_are_unknown(self):
        lost = container(actual_cpus="", actual_cpus_unknown="cannot read x: EIO")
        told = explain.lines(WEB, state(lost), [record()])
        assert told[1] == "  its actual CPUs are unknown: cannot read x: EIO"

    def test_a_record_that_is_gone_is_said_to_be(self):
        assert explain.lines(WEB, state(container()), [])[1:] == [
            "  no record explains CPUs 0-1 yet",
            "  the record of its admission is lost",
        ]

    def test_a_container_that_ended_is_told_of(self):
        told = explain.lines(WEB, state(), [record(), record("container.release", "stopped")])
        assert told[0] == "shop/web/app  no longer exists"
        assert told[-1] == "    T container.release stopped: it was free"

    def test_only_the_container_that_was_named_is_told_of(self):
        other = container(id="x", container="proxy")
        told = explain.lines(Whom("shop", "web", "app"), state(container(), other), [record()])
        assert not any("proxy" in line for line in told)

    def test_what_concerns_the_pod_itself_comes_last(self):
        told = explain.lines(WEB, state(), [record("pod.limit", "box_member", container="", container_id="")])
        assert told == ["the pod: T pod.limit box_member: it was free"]

    def test_a_pod_that_nobody_knows_is_an_error_in_a_sentence(self):
        with pytest.raises(ColocError, match="has no record of shop/web"):
            explain.lines(WEB, state(container(pod="other")), [])

    def test_a_terminal_is_not_given_orders(self):
        evil = record(because="\x1b[2J", candidates=[{**CANDIDATES[0], "verdict": "\x07"}])
        assert all(line.isprintable() for line in explain.lines(WEB, state(container()), [evil]))


class TestOwners:
    def test_pools_of_the_same_cpus_share_a_name(self):
        assert owners(state())["system = share = reclaim"] == cpuset.parse("2-7")

    def test_a_sidecar_is_named_beside_its_main_container(self):
        sidecar = container(id="x", container="proxy", exclusive=False)
        assert owners(state(container(), sidecar))["shop/web/app, shop/web/proxy"] == 0b11

    def test_members_of_a_pool_are_not_named(self):
        named = owners(state(container(pool="share", cpus="2-7", exclusive=False)))
        assert not any("shop" in name for name in named)

    def test_what_the_kubelet_keeps_is_named(self):
        assert owners(state(kept_by_kubelet="4-5"))["the kubelet's own"] == cpuset.parse("4-5")

    def test_an_answer_of_somebody_else_is_an_error(self):
        with pytest.raises(ColocError):
            owners({"hello": 1})


# ---- over HTTP ----


class Daemon(BaseHTTPRequestHandler):
    """A daemon's HTTP server that answers from `answers`, by path."""

    answers: dict[str, Any] = {}  # noqa: RUF012 - one server a test

    def do_GET(self) -> None:
        body = json.dumps(self.answers.get(self.path.partition("?")[0], [])).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@pytest.fixture
def daemon() -> Iterator[str]:
    Daemon.answers = {
        "/v1/state": state(container()),
        "/v1/audit": {"records": [record(candidates=CANDIDATES)], "next": 1},
    }
    with HTTPServer(("127.0.0.1", 0), Daemon) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_the_command_prints_what_the_daemon_knows(daemon, capsys):
    assert main.main(["explain", "shop/web", "--http", daemon], {}) == 0
    assert "       0     4            2  chosen\n" in capsys.readouterr().out


def test_an_unknown_pod_is_a_failure(daemon, capsys):
    assert main.main(["explain", "shop/gone", "--http", daemon], {}) == 1
    assert "has no record of shop/gone" in capsys.readouterr().err


def test_a_daemon_that_is_not_there_is_a_failure(capsys):
    assert main.main(["explain", "shop/web", "--http", "127.0.0.1:1"], {}) == 1
    assert "cannot ask the daemon" in capsys.readouterr().err


@pytest.mark.parametrize("address", ["nowhere", "127.0.0.1", "a:b", ":9744"])
def test_an_address_that_is_none_is_wrong_usage(address):
    assert main.main(["explain", "shop/web", "--http", address], {}) == 2


def test_what_is_not_the_daemon_is_recognised(daemon):
    Daemon.answers = {}
    with pytest.raises(asking.DaemonSilent, match="not nri-coloc"):
        asking.ask(daemon, "/v1/state")
    Daemon.answers = {"/v1/audit": {"error": "no"}}
    with pytest.raises(asking.DaemonSilent, match="says: no"):
        asking.records(daemon)


@pytest.mark.parametrize(
    "answers",
    [
        {"/v1/state": {"containers": [1]}, "/v1/audit": {"records": [], "next": 0}},
        {"/v1/state": {"containers": 1}, "/v1/audit": {"records": [], "next": 0}},
        {"/v1/state": {}, "/v1/audit": {"records": [{"namespace": "shop", "pod": "web"}], "next": 0}},
        {"/v1/state": {}, "/v1/audit": {"records": "abc", "next": 0}},
    ],
    ids=["no container", "no list", "no record", "a word"],
)
def test_a_stranger_who_speaks_json_is_recognised(answers, daemon, capsys):
    Daemon.answers = answers
    assert main.main(["explain", "shop/web", "--http", daemon], {}) == 1
    said = f"nri-coloc: the server at {daemon} is not nri-coloc; give the daemon's address with --http\n"
    assert capsys.readouterr().err == said


def test_an_answer_that_is_nested_without_end_is_recognised(daemon, monkeypatch, capsys):
    monkeypatch.setattr(json, "dumps", lambda _: "[" * 100_000)
    assert main.main(["explain", "shop/web", "--http", daemon], {}) == 1
    assert "is not nri-coloc; give" in capsys.readouterr().err


def test_the_machine_is_drawn_with_who_is_where(daemon, tmp_path, capsys):
    machines.plant(machines.MACHINES["8cpu"], tmp_path)
    arguments = ["topology", "--host-root", str(tmp_path), "--http", daemon]
    assert main.main(arguments, {}) == 0
    assert "b shop/web/app  0-1\n" in capsys.readouterr().out
    assert main.main([*arguments, "-o", "json"], {}) == 0
    assert json.loads(capsys.readouterr().out)["owners"]["shop/web/app"] == "0-1"
