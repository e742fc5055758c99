"""A runtime stalls, refuses or vanishes: the daemon reconnects, and obeys SIGTERM all the while."""

import socket
import time

import pytest

from nri_coloc.nri import calls
from tests.integration.harness import assert_unhurt, daemon_of, ends_well
from tests.integration.hostile.kit import FIRST_PAUSE_S, a_container, a_pod, is_served, pauses, tries_at_once
from tests.rig.raw_runtime import RawPlugin, RawRuntime
from tests.rig.waiting import PATIENCE_SECONDS, wait_until

RETRY_CAP_S = 10.0

# ---- a runtime that does not serve ----


def test_a_runtime_that_closes_within_a_frame_is_rejoined(runtime, daemon, plugin):
    _, data = plugin.request("CreateContainer", b"x" * 100)
    plugin.send(data[:50])
    plugin.socket.close()
    with runtime.accept() as again:
        is_served(daemon, again.welcome())
    assert tries_at_once(daemon)
    lost = daemon.audited("runtime.lost")
    assert "reconnecting" in lost["because"]


def test_a_registration_that_is_refused_is_tried_again(runtime, daemon):
    with runtime.accept() as plugin:
        plugin.take_registration()
        plugin.answer_registration(2, "no plugins today")
        assert plugin.ends()
    with runtime.accept() as again:
        is_served(daemon, again.welcome())
    assert tries_at_once(daemon)
    assert "no plugins today" in daemon.audited("runtime.lost")["because"]


def test_tries_come_more_rarely_but_never_more_than_the_cap_apart(runtime, daemon):
    for _ in range(4):
        runtime.accept().socket.close()
    wait_until(lambda: len(pauses(daemon)) == 4, 20, "a record of each loss")
    apart = pauses(daemon)
    assert apart[0] <= FIRST_PAUSE_S
    assert max(apart) <= RETRY_CAP_S
    assert apart[-1] > apart[0]
    assert_unhurt(daemon)


def test_after_a_long_wait_a_lost_connection_is_retried_at_once(node, tmp_path):
    with daemon_of(node) as daemon:
        wait_until(lambda: "waiting for the runtime" in daemon.log(), 20, "the daemon to wait")
        time_to_grow = time.monotonic() + 1.6  # until then the pauses have grown to seconds
        wait_until(lambda: time.monotonic() > time_to_grow, 20, "the pauses to grow")
        with RawRuntime(node.nri_socket) as runtime:
            runtime.accept().welcome().socket.close()
            with runtime.accept() as again:
                is_served(daemon, again.welcome())
            assert tries_at_once(daemon)


# ---- SIGTERM in each state of the runtime ----


def no_runtime(_runtime: RawRuntime) -> list[RawPlugin]:
    _runtime.close()
    return []


def silent(runtime: RawRuntime) -> list[RawPlugin]:
    plugin = runtime.accept()
    plugin.take_registration()
    return [plugin]


def configured_only(runtime: RawRuntime) -> list[RawPlugin]:
    plugin = runtime.accept()
    plugin.configure()
    return [plugin]


def serving(runtime: RawRuntime) -> list[RawPlugin]:
    return [runtime.accept().welcome()]


def not_reading(runtime: RawRuntime) -> list[RawPlugin]:
    plugin = runtime.accept().welcome()
    fill(plugin)
    return [plugin]


def in_the_middle(runtime: RawRuntime) -> list[RawPlugin]:
    plugin = runtime.accept().welcome()
    plugin.send(plugin.request("CreateContainer", b"x" * 100)[1][:30])
    return [plugin]


def fill(plugin: RawPlugin, seconds: float = 1.0) -> int:
    """Send calls and read no answer, until no call is taken for `seconds` or ever again; return the number sent."""
    sent = 0
    plugin.socket.settimeout(seconds)
    request = calls.REQUESTS["CreateContainer"](
        pod=a_pod(), container=a_container(milli=100)
    ).SerializeToString()
    try:
        while True:
            _, data = plugin.request("CreateContainer", request)
            plugin.socket.sendall(data)
            sent += 1
    except (TimeoutError, ConnectionError):
        return sent


@pytest.mark.parametrize(
    "situation", [no_runtime, silent, configured_only, serving, not_reading, in_the_middle]
)
def test_sigterm_ends_it_within_two_seconds(situation, runtime, daemon):
    wait_until(lambda: "nri-coloc" in daemon.log() or daemon.audit("daemon.start"), 20, "the daemon to run")
    connections = situation(runtime)
    assert ends_well(daemon)
    assert "Traceback" not in daemon.log()
    for plugin in connections:
        plugin.socket.close()


def test_a_runtime_that_configures_and_then_waits_is_waited_for(runtime, daemon):
    with runtime.accept() as plugin:
        plugin.configure()
        assert plugin.quiet(1.0)
        plugin.synchronize()
        is_served(daemon, plugin)


def test_a_cut_message_to_a_stalled_runtime_is_last(runtime, daemon):
    with runtime.accept() as plugin:
        plugin.welcome()
        # until the daemon closes the connection: a daemon that only waited for a CPU would take the rest, and stay
        sent = fill(plugin, PATIENCE_SECONDS)
        assert sent > 10
        with runtime.accept() as again:
            is_served(daemon, again.welcome())
        # the daemon wrote whole messages, except the last one, which may be cut, and then the end of the stream
        assert plugin.ends()
        assert_unhurt(daemon)


def test_bytes_after_the_runtimes_farewell_are_no_concern(runtime, daemon, plugin):
    plugin.socket.shutdown(socket.SHUT_WR)
    with runtime.accept() as again:
        is_served(daemon, again.welcome())
    assert tries_at_once(daemon)
