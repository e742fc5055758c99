"""Our own updates go over NRI's call if NRI lets them meet a hook half-way, else over the relay."""

from nri_coloc.core import cpuset
from nri_coloc.nri import version
from tests.conformance.looking import cpus
from tests.integration.harness import assert_unhurt, dedicated, reload, shared
from tests.rig.daemon import Daemon
from tests.rig.go_plugins import GoNode
from tests.rig.go_programs import Edition
from tests.rig.waiting import wait_until

NO_UPDATES = "runtime: {updatesPerReply: 0}\n"


def test_what_no_reply_carries_is_pushed_the_safe_way(edition: Edition, node: GoNode, daemon: Daemon):
    reload(daemon, NO_UPDATES)
    crowd = [shared(node, f"n{number}") for number in range(3)]
    pushed = len(node.nri.pushed)
    dedicated(node)
    left = cpuset.parse("2-7")
    wait_until(lambda: all(cpus(node, one) == left for one in crowd), 30, "the specs to follow")
    natively = [update.container_id for update in node.nri.pushed[pushed:]]
    assert sorted(natively) == (sorted(crowd) if version.native_updates_are_safe(edition.number) else [])
    assert daemon.audit("push.failed") == []
    assert_unhurt(daemon)
