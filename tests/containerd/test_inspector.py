"""The inspector finds broken invariants: without a plugin, and after another program wrote values."""

from collections.abc import Callable

import pytest

from tests.rig import cgroups
from tests.rig.daemon import Daemon
from tests.rig.inspector import Inspector
from tests.rig.versions import ON_THE_NEWEST

pytestmark = [pytest.mark.containerd, pytest.mark.bears_load, ON_THE_NEWEST]


@pytest.mark.usefixtures("own_daemon")  # ends the module's daemon, and starts none
def test_without_a_plugin_next_to_nothing_holds(inspector: Inspector):
    for qos in ("dedicated", "shared", "reclaimed"):
        inspector.run(f"{qos}-one", qos)
    found = "; ".join(inspector.breaches())
    for words in (
        "3: dedicated dedicated-one should own 1",
        "of dedicated dedicated-one are also shared shared-one's",
        "of dedicated dedicated-one are also reclaimed reclaimed-one's",
        "1: nothing is left to share",
        "3: the pod of reclaimed reclaimed-one has CPU",
    ):
        assert words in found


def test_meddling_with_what_is_the_kubelets_is_seen(own_daemon: Callable[..., Daemon], inspector: Inspector):
    own_daemon()
    neighbour = inspector.run("neighbour", "shared")
    inspector.run("batch", "reclaimed")
    inspector.wait_until_sound()
    besteffort = _share_file("/kubepods/besteffort")
    for group in (neighbour.cgroup, neighbour.pod.cgroup):
        _share_file(group).write_text("77")
    besteffort.write_text(besteffort.read_text())
    found = "; ".join(inspector.breaches())
    assert "7: shared neighbour has shares" in found or not _share_file(neighbour.cgroup).name.endswith(
        "shares"
    )
    assert "7: the pod of shared neighbour has shares" in found
    assert f"6: {besteffort}, above pods that are not reclaimed, was written" in found


def _share_file(group: str):
    return cgroups.file(group, "cpu", "cpu.weight" if cgroups.is_v2() else "cpu.shares")
