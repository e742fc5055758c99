"""cli/doctor.py: each check names its problem and the remedy; only a problem that keeps pods unplaced fails."""

import errno
import json
import os
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nri_coloc.cli import asking, doctor, main
from nri_coloc.cli.asking import DaemonSilent
from nri_coloc.cli.doctor import Check, Patient
from nri_coloc.host import kubelet
from tests.rig import whole_process

FILES = (
    "memory.reclaim",
    "memory.high",
    "memory.low",
    "memory.min",
    "cpu.max.burst",
    "io.weight",
    "cgroup.controllers",
)
READY = {"ready": True, "checks": {"config": {"ok": True, "detail": ""}}}


def connected(runtime: str) -> dict[str, str]:
    """Return the record of a registration."""
    return {"event": "runtime.connect", "because": f"registered with the runtime: {runtime}"}


CONNECTED = connected("containerd 2.4.0, NRI 0.12.1")


@pytest.fixture
def patient(tmp_path: Path) -> Iterator[Patient]:
    """Yield a machine without a problem, on which no daemon runs."""
    host = tmp_path / "host"
    for path, text in {
        "sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory",
        **{f"sys/fs/cgroup/kubepods/{name}": "" for name in FILES},
        "sys/devices/system/cpu/online": "0-3",
        "proc/meminfo": "MemTotal: 1024 kB",
        "sys/block/sda/queue/scheduler": "none [bfq]",
        "sys/block/sda/dev": "8:0",
        "proc/pressure/cpu": "some avg10=0.00",
        "status": "Name:\tx\nCapEff:\t0000000001000000\n",
    }.items():
        (host / path).parent.mkdir(parents=True, exist_ok=True)
        (host / path).write_text(text)
    with socket.socket(socket.AF_UNIX) as nri, socket.socket(socket.AF_UNIX) as cri:
        nri.bind(str(tmp_path / "n"))
        cri.bind(str(tmp_path / "c"))
        yield Patient(
            nri_socket=str(tmp_path / "n"),
            cri_socket=str(tmp_path / "c"),
            host_root=str(host),
            state_dir=str(tmp_path / "state"),
            http="127.0.0.1:1",
            own_status=str(host / "status"),
        )


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the answers of a running daemon, by name; a test changes them."""
    lending = {"switch": "on", "because": "the schedule has no windows (lend=100 %)"}
    said: dict[str, Any] = {"ready": READY, "records": [CONNECTED], "state": {"lending": lending}}
    monkeypatch.setattr(asking, "ask", lambda _, path: said["ready" if path == "/readyz" else "state"])
    monkeypatch.setattr(asking, "records", lambda *_: said["records"])
    return said


def check(patient: Patient, name: str) -> Check:
    return next(found for found in doctor.checks(patient) if found.name == name)


def static(patient: Patient) -> None:
    path = Path(kubelet.files(patient.host_root)[0])
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"policyName": "static", "entries": {"uid": {"app": "1"}}}))


def test_a_healthy_machine_with_a_healthy_daemon_has_nothing_to_mend(patient, daemon):
    assert {found.verdict for found in doctor.checks(patient)} == {"ok"}
    assert doctor.run(patient) == 0


def test_a_daemon_that_does_not_run_yet_is_no_failure(patient):
    assert check(patient, "daemon").verdict == "warn"
    assert doctor.run(patient) == 0


@pytest.mark.parametrize("name", ["nri_socket", "cri_socket"])
@pytest.mark.parametrize("place", ["missing", "a-file"])
def test_a_path_without_a_socket_fails_with_its_setting(patient, name, place):
    path = Path(patient.host_root) / place
    if place == "a-file":
        path.write_text("")
    found = check(replace(patient, **{name: str(path)}), f"{name[:3].upper()} socket")
    assert found.verdict == "fail"
    assert "--cri-socket" in found.sentence or "NRI section" in found.sentence


def test_no_cpuset_controller_fails(patient, tmp_path):
    found = check(replace(patient, host_root=str(tmp_path / "bare")), "cgroups")
    assert found.verdict == "fail"


def test_controllers_that_are_missing_are_named(patient, tmp_path):
    (tmp_path / "v1/sys/fs/cgroup/cpuset").mkdir(parents=True)
    found = check(replace(patient, host_root=str(tmp_path / "v1")), "cgroups")
    assert (found.verdict, "without cpu, memory, blkio" in found.sentence) == ("warn", True)


@pytest.mark.parametrize("name", ["cgroups", "control files", "memory reclaim"])
def test_cgroups_of_two_kubelets_are_named(patient, name):
    (Path(patient.host_root) / "sys/fs/cgroup/second/kubepods").mkdir(parents=True)
    found = check(patient, name)
    assert (found.verdict, "(/kubepods, /second/kubepods)" in found.sentence) == ("warn", True)


@pytest.mark.parametrize("name", ["cgroups", "control files", "memory reclaim"])
def test_daemon_knows_its_kubelets_cgroup(patient, daemon, name):
    (Path(patient.host_root) / "sys/fs/cgroup/second/kubepods").mkdir(parents=True)
    daemon["state"]["node"] = {"pod_cgroups": ["kubepods"]}
    assert check(patient, name).verdict == "ok"


@pytest.mark.parametrize("known", [{}, {"pod_cgroups": ["../.."]}, {"pod_cgroups": 7}, []])
def test_a_daemon_without_pods_shows_no_cgroup(patient, daemon, known):
    daemon["state"]["node"] = known
    assert check(patient, "control files").verdict == "ok"


def test_files_that_this_kernel_lacks_are_named(patient):
    (Path(patient.host_root) / "sys/fs/cgroup/kubepods/cpu.max.burst").unlink()
    found = check(patient, "control files")
    assert (found.verdict, "no cpu.max.burst" in found.sentence) == ("warn", True)


def test_version_1_is_said_to_have_no_memory_protection(patient, tmp_path):
    (tmp_path / "v1/sys/fs/cgroup/cpuset").mkdir(parents=True)
    found = check(replace(patient, host_root=str(tmp_path / "v1")), "control files")
    assert (found.verdict, "memory.low" in found.sentence) == ("warn", True)


def test_memory_that_can_be_taken_back(patient, tmp_path):
    assert check(patient, "memory reclaim").verdict == "ok"
    (Path(patient.host_root) / "sys/fs/cgroup/kubepods/memory.reclaim").unlink()
    assert "needs Linux 5.19" in check(patient, "memory reclaim").sentence
    (tmp_path / "v1/sys/fs/cgroup/cpuset").mkdir(parents=True)
    found = check(replace(patient, host_root=str(tmp_path / "v1")), "memory reclaim")
    assert (found.verdict, "boot with cgroup v2" in found.sentence) == ("warn", True)


def test_a_disk_without_effective_weights_is_named_with_remedy(patient):
    (Path(patient.host_root) / "sys/block/sda/queue/scheduler").write_text("[none] bfq")
    found = check(patient, "I/O weights")
    assert found.verdict == "warn"
    assert "sda no (none)" in found.sentence
    assert "io.cost" in found.sentence


def test_a_kernel_without_pressure_is_told_how_to_boot(patient):
    (Path(patient.host_root) / "proc/pressure/cpu").unlink()
    found = check(patient, "pressure")
    assert (found.verdict, "psi=1" in found.sentence) == ("warn", True)
    assert "CPU stalls of online pods are not measured" in found.sentence


def test_a_kernel_that_refuses_pressure_readings_has_none(patient):
    pressure = Path(patient.host_root) / "proc/pressure/cpu"
    pressure.unlink()
    pressure.mkdir()  # a directory cannot be read either
    assert "boot with psi=1" in check(patient, "pressure").sentence


def test_what_stands_in_for_pressure_is_named(patient):
    (Path(patient.host_root) / "proc/pressure/cpu").unlink()
    (Path(patient.host_root) / "proc/1").mkdir()
    (Path(patient.host_root) / "proc/1/schedstat").write_text("5 6 7\n")
    assert "measured by the run-queue delay of their busiest tasks" in check(patient, "pressure").sentence


def test_pressure_of_the_machine_alone_is_not_that_of_pods(patient, tmp_path):
    (tmp_path / "v1/sys/fs/cgroup/cpuset").mkdir(parents=True)
    (tmp_path / "v1/proc/pressure").mkdir(parents=True)
    (tmp_path / "v1/proc/pressure/cpu").write_text("some avg10=0.00")
    found = check(replace(patient, host_root=str(tmp_path / "v1")), "pressure")
    assert (found.verdict, "needs a cgroup v2 hierarchy" in found.sentence) == ("warn", True)


@pytest.mark.parametrize(
    "status", ["CapEff:\t0000000000000000\n", "", None], ids=["none", "empty", "no-file"]
)
def test_a_missing_capability_is_a_warning(patient, status):
    path = Path(patient.own_status)
    path.unlink()
    if status is not None:
        path.write_text(status)
    assert check(patient, "capabilities").verdict == "warn"


def test_a_state_folder_that_is_a_file_fails(patient, tmp_path):
    (tmp_path / "taken").write_text("")
    found = check(replace(patient, state_dir=str(tmp_path / "taken")), "state folder")
    assert (found.verdict, "--state-dir" in found.sentence) == ("fail", True)


class TestStateFolder:
    @pytest.fixture
    def refusing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fsync(_fd: int) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(os, "fsync", fsync)

    def test_one_that_takes_a_real_write_is_well(self, patient, tmp_path):
        (tmp_path / "state").mkdir()
        found = check(patient, "state folder")
        assert (found.verdict, found.sentence) == ("ok", f"{tmp_path}/state can be written")
        assert [*(tmp_path / "state").iterdir()] == []

    def test_one_that_is_not_there_yet_can_be_made(self, patient, tmp_path):
        assert check(patient, "state folder").sentence == f"{tmp_path}/state can be made"
        assert not (tmp_path / "state").exists()

    def test_a_full_disk_costs_restore_and_no_placement(self, patient, tmp_path, refusing):
        (tmp_path / "state").mkdir()
        found = check(patient, "state folder")
        assert found.verdict == "warn"
        assert "cannot be written: No space left on device; pods are placed nevertheless" in found.sentence

    def test_a_journal_that_is_none_is_a_warning(self, patient, tmp_path):
        (tmp_path / "state/restore.jsonl").mkdir(parents=True)
        found = check(patient, "state folder")
        assert found.verdict == "warn"
        assert (
            "cannot be read: it is no regular file: the daemon's next start moves it aside" in found.sentence
        )

    def test_marks_on_cgroups_are_told(self, patient, monkeypatch):
        for name in ("setxattr", "removexattr"):
            monkeypatch.setattr(os, name, lambda *_: None)
        assert check(patient, "original values").verdict == "ok"

    def test_a_kernel_without_marks_is_a_warning(self, patient, monkeypatch):
        def setxattr(*_: object) -> None:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

        monkeypatch.setattr(os, "setxattr", setxattr)
        found = check(patient, "original values")
        assert found.verdict == "warn"
        assert "Operation not supported; it does since 5.7" in found.sentence

    def test_the_daemons_own_trouble_is_told(self, patient, daemon):
        detail = "cannot write the restore journal: No space left on device"
        daemon["ready"] = {"ready": True, "checks": {"state": {"ok": False, "detail": detail}}}
        found = check(patient, "daemon")
        assert (found.verdict, found.sentence) == ("warn", f"state: {detail}")


class TestKubelet:
    def test_a_static_cpu_manager_fails_and_says_how_to_mend_it(self, patient):
        static(patient)
        found = check(patient, "kubelet")
        assert found.verdict == "fail"
        assert "--cpu-manager-policy=none" in found.sentence
        assert "preserve-kubelet" in found.sentence
        assert doctor.run(patient) == 1

    def test_it_is_fine_with_a_daemon_that_leaves_it_alone(self, patient, daemon):
        static(patient)
        assert check(patient, "kubelet").verdict == "ok"

    def test_a_broken_state_file_is_a_warning(self, patient):
        static(patient)
        Path(kubelet.files(patient.host_root)[0]).write_text("{")
        assert check(patient, "kubelet").verdict == "warn"


class TestDaemon:
    def test_what_it_is_not_ready_for_is_told(self, patient, daemon):
        daemon["ready"] = {"ready": False, "checks": {"connected": {"ok": False, "detail": "no connection"}}}
        found = check(patient, "daemon")
        assert (found.verdict, found.sentence) == ("fail", "it is not ready; connected: no connection")

    def test_lending_that_is_switched_off_warns(self, patient, daemon):
        because = "an operator switched lending off; `nri-coloc admin lending on` undoes it"
        daemon["state"] = {"lending": {"switch": "drain", "because": because}}
        found = check(patient, "lending")
        assert (found.verdict, found.sentence) == ("warn", because)

    def test_a_short_disk_warns_with_the_remedy(self, patient, daemon):
        known = {"switch": "on", "because": "", "disk_short": "images are short of space (space=3.0%)"}
        daemon["state"] = {"lending": known}
        found = check(patient, "disks")
        assert found.verdict == "warn"
        assert found.sentence.startswith(
            "no new reclaimed pods: images are short of space (space=3.0%); delete"
        )

    def test_each_remark_on_the_settings_warns(self, patient, daemon):
        daemon["state"] = {"lending": {"switch": "on", "because": ""}, "remarks": ["one", "two"]}
        found = [one for one in doctor.checks(patient) if one.name == "configuration"]
        assert [(one.verdict, one.sentence) for one in found] == [("warn", "one"), ("warn", "two")]

    def test_lending_by_the_schedule_is_well(self, patient, daemon):
        assert check(patient, "lending").verdict == "ok"

    def test_a_check_that_does_not_gate_warns(self, patient, daemon):
        daemon["ready"] = {"ready": True, "checks": {"state": {"ok": False, "detail": "/s: no such folder"}}}
        found = [(one.verdict, one.sentence) for one in doctor.checks(patient) if one.name == "daemon"]
        assert found == [("warn", "state: /s: no such folder"), ("ok", "it is ready")]

    def test_a_remark_of_a_check_that_is_ok_is_shown(self, patient, daemon):
        daemon["ready"] = {"ready": True, "checks": {"config": {"ok": True, "detail": "no admin socket"}}}
        assert check(patient, "daemon").sentence == "it is ready; config: no admin socket"

    def test_an_old_runtime_gets_the_note_about_pushed_updates(self, patient, daemon):
        daemon["records"] = [connected("containerd 1.7.24~ds1-6+b4, NRI 0.6.1")]
        found = check(patient, "runtime")
        assert (found.verdict, "deadlock the runtime" in found.sentence) == ("ok", True)

    def test_the_newest_registration_counts(self, patient, daemon):
        daemon["records"] = [
            connected("containerd 1.7.24, NRI 0.6.1"),
            CONNECTED,
        ]
        assert "without harm" in check(patient, "runtime").sentence

    def test_a_registration_that_fell_out_of_the_ring_is_a_warning(self, patient, daemon):
        daemon["records"] = []
        assert check(patient, "runtime").verdict == "warn"

    def test_a_host_group_without_a_cpuset_is_a_warning(self, patient, daemon):
        told = {"key": "reclaim.members", "value": "yarn", "reason": "no_cpuset", "because": "do this"}
        other = {**told, "value": "other", "reason": "box_member"}
        daemon["records"] = [CONNECTED, told, other]
        found = check(patient, "members")
        assert (found.verdict, found.sentence) == ("warn", "do this")
        daemon["records"] += [{**told, "reason": "box_member"}]
        assert "members" not in {found.name for found in doctor.checks(patient)}

    @pytest.mark.parametrize(
        "said",
        [
            {"ready": {"checks": [1]}},
            {"ready": {"checks": {"config": 1}}},
            {"state": {}},
            {"state": {"lending": [1]}},
            {"records": [1]},
            {"records": [{"event": "runtime.connect", "because": 1}]},
            {"records": [{"event": "runtime.connect"}]},
        ],
        ids=["checks", "a check", "lending", "a list", "records", "a sentence", "no sentence"],
    )
    def test_a_stranger_in_its_place_is_recognised(self, said, patient, daemon):
        daemon |= said
        found = check(patient, "daemon")
        assert (found.verdict, "is not nri-coloc; give" in found.sentence) == ("warn", True)
        assert check(patient, "kubelet").verdict == "ok"

    def test_one_that_ends_meanwhile_counts_as_none(self, patient, daemon, monkeypatch):
        def gone(*_):
            raise DaemonSilent("gone")

        monkeypatch.setattr(asking, "records", gone)
        assert check(patient, "daemon").verdict == "warn"


def test_the_command_reads_its_flags(patient, capsys):
    flags = ["--nri-socket", patient.nri_socket, "--cri-socket", patient.cri_socket]
    flags += ["--host-root", patient.host_root, "--state-dir", patient.state_dir, "--http", patient.http]
    assert main.main(["doctor", *flags], {}) == 0
    out = capsys.readouterr().out
    assert "ok    NRI socket" in out
    assert "warn  daemon" in out


@pytest.fixture
def as_nobody() -> Iterator[None]:
    """Run the test as a user that may not read the planted machine."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    with whole_process.as_user(65534):
        yield


def test_to_whom_nothing_is_open_it_says_so_of_each_thing(patient, as_nobody):
    found = {found.name: found for found in doctor.checks(patient)}
    assert found["NRI socket"].verdict == found["cgroups"].verdict == found["state folder"].verdict == "fail"
    assert "Permission denied" in found["NRI socket"].sentence
    assert "Permission denied" in found["cgroups"].sentence
    assert found["kubelet"].verdict == "warn"
    assert doctor.run(patient) == 1


def test_an_unreadable_state_folder_names_the_obstacle(patient, tmp_path, as_nobody):
    found = check(replace(patient, state_dir=str(tmp_path / "in" / "state")), "state folder")
    assert found.verdict == "fail"
    assert "cannot be written, so the daemon cannot start" in found.sentence
    assert "/in" not in found.sentence


def test_a_state_folder_that_there_cannot_be_fails(patient, tmp_path):
    found = check(replace(patient, state_dir=str(tmp_path / ("x" * 300))), "state folder")
    assert (found.verdict, "File name too long" in found.sentence) == ("fail", True)


GARBAGE = {
    "nothing": b"",
    "bytes": bytes(range(255, 0, -1)),
    "zeros": bytes(100),
    "other digits": "\u0663\u00b2\n".encode(),
    "endless digits": b"9" * 5000,
    "brackets": b"[" * 100_000,
    "another's JSON": b'{"policyName": "static", "data": 5, "podEntries": 7}',
    "too many CPUs": b'{"policyName": "static", "entries": {"a": {"b": "0-99999999999"}}}',
}


@pytest.mark.parametrize("garbage", [*GARBAGE.values(), None], ids=[*GARBAGE, "folders"])
def test_whatever_the_files_hold_each_check_has_a_sentence(garbage, patient):
    static(patient)
    (Path(patient.host_root) / "proc/1").mkdir()
    (Path(patient.host_root) / "proc/1/schedstat").touch()
    for file in [path for path in Path(patient.host_root).rglob("*") if path.is_file()]:
        if garbage is not None:
            file.write_bytes(garbage)
            continue
        file.unlink()
        file.mkdir()
    assert all(found.sentence for found in doctor.checks(patient))
    assert doctor.run(patient) in (0, 1)


def test_what_cannot_be_read_fails_that_check_only(patient):
    block = Path(patient.host_root) / "sys/block/sda/dev"
    block.unlink()
    block.mkdir()
    assert check(patient, "I/O weights").verdict == "fail"
    assert check(patient, "pressure").verdict == "ok"


def test_a_wrong_address_leaves_the_other_checks(patient):
    told = doctor.checks(replace(patient, http="off"))
    assert next(each.verdict for each in told if each.name == "control files") == "ok"
