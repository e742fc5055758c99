"""`nri-coloc doctor`: check that the machine has all that the daemon needs, and that the daemon works.

Each check covers one condition; its sentence has the remedy. Only two trial writes change anything. Both are removed
at once: a small file in the state folder, and an attribute of a cgroup. A third one takes back 0 bytes of memory. No
socket is connected to, because a runtime would take the command for a plugin. `fail`: pods are not placed; `warn`: a
setting may have no effect.
"""

import re
import stat
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from nri_coloc.cli import asking
from nri_coloc.cli.asking import DaemonSilent
from nri_coloc.core.knobs import CONTROLLERS
from nri_coloc.core.readings import Signal
from nri_coloc.core.reasons import Reason
from nri_coloc.core.texts import plain
from nri_coloc.errors import KernelInterfaceError, SettingsError
from nri_coloc.host import (
    block_devices,
    cgroup_layout,
    files,
    granted,
    journal_file,
    kubelet,
    readings,
    sysfs,
)
from nri_coloc.host.cgroup_layout import CgroupLayout
from nri_coloc.host.marks import Marks
from nri_coloc.host.memory_reclaim import MemoryReclaim, Ways
from nri_coloc.nri import version
from nri_coloc.repair.host_groups import SETTING
from nri_coloc.restore.restoration import JOURNAL
from nri_coloc.service import probe, state_folder
from nri_coloc.service.instance_lock import TROUBLE

Verdict = Literal["ok", "warn", "fail"]

_WIDTH: Final = 110
_CONNECTED: Final = re.compile(r"^registered with the runtime: (?P<runtime>.*), NRI (?P<nri>\d+\.\d+\.\d+)$")
_EFFECTIVE: Final = re.compile(r"^CapEff:\s*([0-9a-f]{1,16})$", re.MULTILINE)
_WISHED_FILES: Final = ("memory.high", "memory.low", "memory.min", "cpu.max.burst", "io.weight")


@dataclass(frozen=True, slots=True)
class Check:
    """One finding; unless it is `ok`, its sentence has the remedy."""

    name: str
    verdict: Verdict
    sentence: str


@dataclass(frozen=True, slots=True)
class Patient:
    """The paths and addresses to check.

    own_status: the file with this process's capabilities.
    pod_cgroups: the cgroup of all pods; none while it is unknown.
    """

    nri_socket: str
    cri_socket: str
    host_root: str
    state_dir: str
    http: str
    own_status: str = "/proc/self/status"
    pod_cgroups: tuple[str, ...] = ()


def run(patient: Patient) -> int:
    """Print all checks; return 1 if one fails."""
    found = list(checks(patient))
    wide = max(len(check.name) for check in found)
    for check in found:
        head = f"{check.verdict:<4}  {check.name:<{wide}}  "
        print(
            textwrap.fill(
                plain(check.sentence), _WIDTH, initial_indent=head, subsequent_indent=" " * len(head)
            )
        )
    return int(any(check.verdict == "fail" for check in found))


def checks(patient: Patient) -> Iterator[Check]:
    """Yield the checks one by one; an unreadable file fails only its own check."""
    patient = replace(patient, pod_cgroups=_pod_cgroups(patient))
    yield _socket(
        "NRI socket",
        patient.nri_socket,
        "containerd 2.x listens there by default, 1.7 with `disable = false` in its NRI section; restart it after that",
    )
    yield _socket(
        "CRI socket", patient.cri_socket, "is containerd running? another path is given with --cri-socket"
    )
    each: tuple[tuple[str, Callable[[Patient], Check]], ...] = (
        ("cgroups", _cgroups),
        ("control files", _control_files),
        ("memory reclaim", _memory_reclaim),
        ("I/O weights", _io_weights),
        ("pressure", _pressure),
        ("capabilities", _capability),
        ("state folder", _state_folder),
        ("original values", _original_values),
    )
    for name, check in each:
        try:
            yield check(patient)
        except (KernelInterfaceError, OSError) as error:
            yield Check(
                name, "fail", f"{error}; is the path right (--host-root, --state-dir), and are we root?"
            )
    yield from _of_the_daemon(patient)


def _pod_cgroups(patient: Patient) -> tuple[str, ...]:
    """Return the cgroup of all pods: as the daemon knows it from its pods, otherwise the only one that exists."""
    try:
        with asking.understood(patient.http):
            known = asking.ask(patient.http, "/v1/state")["node"].get("pod_cgroups", ())
            found = tuple(cgroup_layout.below_root(str(path)) for path in known)
    except (DaemonSilent, SettingsError, ValueError):  # the check of the daemon tells it
        found = ()
    return found or _only_one(patient)


def _only_one(patient: Patient) -> tuple[str, ...]:
    try:
        return cgroup_layout.only_kubepods(cgroup_layout.detect(patient.host_root))
    except KernelInterfaceError:
        return ()  # the check of the cgroups names the error


def _ambiguity(patient: Patient, layout: CgroupLayout) -> str:
    return "" if patient.pod_cgroups else cgroup_layout.ambiguity(layout)


def _socket(name: str, path: str, mend: str) -> Check:
    try:
        is_socket = stat.S_ISSOCK(Path(path).stat().st_mode)
    except OSError as error:
        return Check(name, "fail", f"{path}: {error.strerror}; {mend}")
    if not is_socket:
        return Check(name, "fail", f"{path} is not a socket; {mend}")
    return Check(name, "ok", f"{path} is there")


def _cgroups(patient: Patient) -> Check:
    layout = cgroup_layout.detect(patient.host_root)
    missing = [name for name in CONTROLLERS if layout.folder(name, "") is None]
    if "cpuset" in missing:
        why = "no cpuset controller is mounted, so no container can be placed; mount cgroup v2, or v1 with cpuset"
        return Check("cgroups", "fail", why)
    if missing:
        why = f"version {layout.version}, without {', '.join(missing)}: annotations for these have no effect"
        return Check("cgroups", "warn", why)
    return _cpus_for_pods(patient, layout)


def _cpus_for_pods(patient: Patient, layout: CgroupLayout) -> Check:
    machine = sysfs.read(patient.host_root)
    found = granted.read(layout, patient.pod_cgroups, machine.online)
    if problem := granted.problem(found, machine.usable):
        return Check("cgroups", "fail", problem)
    if remark := _ambiguity(patient, layout) or granted.remark(found, machine.online):
        return Check("cgroups", "warn", remark)
    return Check("cgroups", "ok", f"version {layout.version}, with every controller that the daemon uses")


def _control_files(patient: Patient) -> Check:
    layout = cgroup_layout.detect(patient.host_root)
    if layout.version == 1:
        why = "cgroup v1 has no memory.high, memory.low and memory.min: boot with cgroup v2 to use them"
        return Check("control files", "warn", why)
    if several := _ambiguity(patient, layout):
        return Check("control files", "warn", several)
    files = probe.capability(layout, (0, 0, 0), patient.host_root, pods=patient.pod_cgroups).files
    if not files:
        return Check("control files", "warn", "no cgroup of a pod or a service was found")
    missing = [name for name in _WISHED_FILES if name not in files]
    if missing:
        why = f"this kernel has no {', '.join(missing)}: annotations for these have no effect"
        return Check("control files", "warn", why)
    return Check("control files", "ok", f"{', '.join(_WISHED_FILES)} exist")


def _memory_reclaim(patient: Patient) -> Check:
    layout, name = cgroup_layout.detect(patient.host_root), "memory reclaim"
    instead = "until then the memory of reclaimed pods is taken back by limits and evictions alone"
    if layout.version == 1:
        return Check(name, "warn", f"cgroup v1 has no memory.reclaim: boot with cgroup v2; {instead}")
    if not patient.pod_cgroups:
        none = "no cgroup of pods was found; run this again after the first pod"
        return Check(name, "warn", _ambiguity(patient, layout) or none)
    ways = MemoryReclaim(layout, patient.host_root).ways(patient.pod_cgroups[0]) or Ways()
    if ways.only_cache:
        return Check(name, "ok", "memory of reclaimed pods can be taken back at once, page cache first")
    if ways.reclaims:
        why = "memory.reclaim knows no swappiness (Linux 6.10 does): memory is taken back when it is short, not before"
        return Check(name, "warn", why)
    return Check(name, "warn", f"memory.reclaim cannot be written (it needs Linux 5.19, and root); {instead}")


def _io_weights(patient: Patient) -> Check:
    disks = block_devices.read(patient.host_root, cgroup_layout.detect(patient.host_root))
    if not disks:
        return Check("I/O weights", "warn", "no disk was found: an I/O weight acts on none")
    each = block_devices.words(disks)
    if all(disk.weighs for disk in disks):
        return Check("I/O weights", "ok", f"they act on every disk: {each}")
    why = (
        f"where they act: {each}; select bfq (echo bfq > /sys/block/DISK/queue/scheduler), "
        "or on cgroup v2 switch on io.cost (io.cost.qos in the root cgroup)"
    )
    return Check("I/O weights", "warn", why)


def _pressure(patient: Patient) -> Check:
    root = patient.host_root.rstrip("/")
    signal = probe.stall_signal(cgroup_layout.detect(patient.host_root), patient.host_root)
    if signal is Signal.PSI:
        return Check("pressure", "ok", "the kernel reports pressure (PSI) of the machine and of cgroups")
    if readings.content(f"{root}/proc/pressure/cpu") is None:
        why = "the kernel reports no pressure (PSI); boot with psi=1"
    else:
        why = (
            "the kernel reports pressure of the machine, not of single pods: that needs a cgroup v2 hierarchy"
        )
    return Check("pressure", "warn", f"{why}; until then {probe.stand_in(signal)}")


def _capability(patient: Patient) -> Check:
    try:
        status = files.text(patient.own_status)
    except KernelInterfaceError:
        status = None
    effective = _EFFECTIVE.search(status or "")
    if effective and int(effective[1], 16) >> probe.CAP_SYS_RESOURCE & 1:
        return Check("capabilities", "ok", "CAP_SYS_RESOURCE is granted: an oom_score_adj can be lowered")
    why = (
        "without CAP_SYS_RESOURCE an oom_score_adj cannot be lowered below the runtime's value; add SYS_RESOURCE "
        "to the container, or run as root"
    )
    return Check("capabilities", "warn", why)


def _state_folder(patient: Patient) -> Check:
    """Return the check of the state folder by a real write. If it does not exist yet, its nearest parent is tried."""
    folder = Path(patient.state_dir)
    nearest = next(path for path in (folder, *folder.absolute().parents) if _is_there(path))
    error = state_folder.tried(str(nearest), durably=True)
    if error is not None:
        return _unwritable(nearest, error)
    complaint = journal_file.read(str(folder / JOURNAL)).complaint
    if complaint:
        why = f"the restore journal {folder / JOURNAL} {complaint}: the daemon's next start moves it aside"
        return Check("state folder", "warn", why)
    return Check("state folder", "ok", f"{folder} can be {'written' if nearest == folder else 'made'}")


def _unwritable(folder: Path, error: OSError) -> Check:
    """Return the check after a refused write. A full or failing disk affects `restore`, not the placement of pods."""
    if error.errno in TROUBLE:
        why = "pods are placed nevertheless, but `restore` may not know every original value; free disk space"
        return Check("state folder", "warn", f"{folder} cannot be written: {error.strerror}; {why}")
    why = f"{folder} cannot be written, so the daemon cannot start: {error.strerror}"
    return Check("state folder", "fail", f"{why}; be root, or name another with --state-dir")


def _original_values(patient: Patient) -> Check:
    """Return the check whether original values are also stored outside the state folder."""
    marks = Marks(cgroup_layout.detect(patient.host_root).mounts)
    marks.probe()
    if marks.work:
        where = "in the state folder and on the cgroups themselves"
        return Check("original values", "ok", f"kept {where}: `restore` knows them without the folder too")
    why = f"the kernel keeps none on cgroups ({marks.refusal or 'no cgroup was found'}; it does since 5.7)"
    return Check(
        "original values", "warn", f"{why}: if the state folder is lost, `restore` cannot know these values"
    )


def _is_there(path: Path) -> bool:
    """Return whether the path exists. A path without access counts as missing, so a message names its parent."""
    try:
        return path.exists()
    except PermissionError:
        return False


def _of_the_daemon(patient: Patient) -> Iterator[Check]:
    try:
        found = list(_told_by_it(patient))
    except DaemonSilent as error:
        yield _kubelet(patient, left_to_it=False)
        yield Check("daemon", "warn", str(error))
    else:
        yield from found


def _told_by_it(patient: Patient) -> Iterator[Check]:
    ready, records = asking.ask(patient.http, "/readyz"), asking.records(patient.http)
    state = asking.ask(patient.http, "/v1/state")
    with asking.understood(patient.http):
        parts = ready.get("checks", {})
        yield _kubelet(patient, left_to_it=bool(parts.get("config", {}).get("ok")))
        yield _runtime(records)
        yield from _host_groups(records)
        yield _lending(state["lending"])
        yield from _disks(state["lending"])
        yield from (Check("configuration", "warn", remark) for remark in state.get("remarks", ()))
        yield from _readiness(ready, parts)


def _kubelet(patient: Patient, *, left_to_it: bool) -> Check:
    """Return the check of the kubelet's CPU manager.

    left_to_it: whether the daemon's settings are valid, which with a static CPU manager means that its pins are kept.
    """
    found = kubelet.read(patient.host_root)
    if found.policy == "unknown":
        return Check(
            "kubelet", "warn", f"{found.problem}; whether it pins containers is unknown: {kubelet.MEND_FILE}"
        )
    if found.policy == "none":
        return Check("kubelet", "ok", "its CPU manager pins nothing")
    if left_to_it:
        return Check("kubelet", "ok", "its CPU manager is static, and its pins are left alone")
    return Check("kubelet", "fail", f"its CPU manager is static and pins containers too: {kubelet.MEND}")


def _runtime(records: list[dict[str, Any]]) -> Check:
    """Return the check of the runtime's NRI version, from the daemon's last registration."""
    said = [r["because"] for r in records if r.get("event") == "runtime.connect"]
    known = _CONNECTED.match(said[-1]) if said else None
    if known is None:
        return Check("runtime", "warn", "the daemon has no record of a registration")
    major, minor, patch = (int(part) for part in known["nri"].split("."))
    what = f"{known['runtime']} with NRI {known['nri']}"
    if version.native_updates_are_safe((major, minor, patch)):
        return Check("runtime", "ok", f"{what}: plugins may push updates without harm")
    why = (
        f"{what}: an unsolicited update of a plugin can deadlock the runtime (mended in NRI 0.12.1); "
        "nri-coloc never does that here, other plugins on this node should not either"
    )
    return Check("runtime", "ok", why)


def _host_groups(records: list[dict[str, Any]]) -> Iterator[Check]:
    """Yield a warning for each host group whose last record says that the reclaim pool cannot limit it."""
    last = {r.get("value"): r for r in records if r.get("key") == SETTING}
    unboxable = [_whole(r) for r in last.values() if r.get("reason") == Reason.NO_CPUSET]
    yield from (Check("members", "warn", because) for because in unboxable)


def _lending(lending: dict[str, Any]) -> Check:
    """Return the check whether an operator has switched lending off, which holds over restarts."""
    because = str(lending["because"])
    return Check("lending", "ok" if lending["switch"] == "on" else "warn", because)


def _disks(lending: dict[str, Any]) -> Iterator[Check]:
    """Yield a warning while a file system is short."""
    if shortage := str(lending.get("disk_short", "")):
        why = f"no new reclaimed pods: {shortage}; delete images or logs, or lower pressure.disk in the settings"
        yield Check("disks", "warn", why)


def _whole(record: dict[str, Any]) -> str:
    """Return the whole sentence of a record."""
    return str(record.get("inputs", {}).get("details") or record.get("because"))


def _readiness(ready: dict[str, Any], parts: dict[str, Any]) -> Iterator[Check]:
    """Yield the daemon's own failed checks; a check that does not prevent readiness is a warning."""
    wrong = [f"{name}: {part.get('detail', '')}" for name, part in parts.items() if not part.get("ok")]
    if ready.get("ready") is not True:
        yield Check("daemon", "fail", f"it is not ready; {'; '.join(wrong) or 'it gives no reason'}")
        return
    yield from (Check("daemon", "warn", sentence) for sentence in wrong)
    remarks = [
        f"{name}: {part['detail']}" for name, part in parts.items() if part.get("ok") and part.get("detail")
    ]
    yield Check("daemon", "ok", "; ".join(["it is ready", *remarks]))
