"""The runtime's socket disappears, appears again, and belongs to another program meanwhile."""

from collections.abc import Callable

import pytest

from tests.rig.containerd import Containerd
from tests.rig.cri import Cri
from tests.rig.daemon import Daemon
from tests.rig.inspector import Inspector
from tests.rig.stranger import MANNERS, Manner, Stranger
from tests.rig.versions import ON_THE_NEWEST
from tests.rig.waiting import poll, wait_until

pytestmark = pytest.mark.containerd

OwnDaemon = Callable[..., Daemon]
BACK_SECONDS = 120  # the pause between two retries is 10 s at most

TRIES_SECONDS = 3


@pytest.mark.invariant(1, 3, 6, 7)
def test_a_socket_made_anew_is_found_again(
    containerd: Containerd, own_daemon: OwnDaemon, inspector: Inspector
):
    daemon = own_daemon()
    _one_of_each(inspector)
    containerd.kill()
    containerd.nri_socket.unlink(missing_ok=True)
    inspector.holds_until(lambda: not daemon.check("connected")["ok"], 30, "the daemon to notice")
    containerd.start()
    inspector.holds_until(lambda: daemon.check("connected")["ok"], BACK_SECONDS, "it to be back")
    assert not daemon.is_dead


@ON_THE_NEWEST
@pytest.mark.invariant(1, 3, 6, 7, 8)
@pytest.mark.parametrize("manner", MANNERS)
def test_another_program_behind_the_socket_moves_nothing(
    containerd: Containerd, cri: Cri, own_daemon: OwnDaemon, inspector: Inspector, manner: Manner
):
    daemon = own_daemon()
    web, *_ = _one_of_each(inspector)
    containerd.kill()
    with Stranger(containerd.nri_socket, manner) as stranger:
        # a program that never accepts cannot count its clients: the first try comes within a second
        if manner == "deaf":
            poll(lambda: False, TRIES_SECONDS)
        else:
            wait_until(lambda: stranger.visits, BACK_SECONDS, "a try")
        assert inspector.breaches() == []
        assert not daemon.readyz()["ready"]
        containerd.start()  # at the same path, while the other program still has its clients
        inspector.holds_until(lambda: daemon.check("connected")["ok"], BACK_SECONDS, "it to be back")
    inspector.forget(web)
    cri.remove_pod(web.pod.id)
    inspector.run("second", "dedicated")
    inspector.wait_until_sound()
    assert "Traceback" not in daemon.log()


def _one_of_each(inspector: Inspector):
    found = [inspector.run(f"a-{qos}-one", qos) for qos in ("dedicated", "shared", "reclaimed")]
    wait_until(lambda: not inspector.breaches(), 30, "all containers to be in place")
    return found
