"""`nri-coloc restore` refuses to run beside a daemon, and prints the number of restored files."""

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nri_coloc.cli import main, restore
from nri_coloc.errors import SettingsError
from nri_coloc.host import state_file
from nri_coloc.host.marks import NAME, Owner
from nri_coloc.host.restoration import Restored
from nri_coloc.restore import restoration
from nri_coloc.restore.restoration import RuntimeAt, Undone
from nri_coloc.restore.spec_restoration import SpecsRestored
from nri_coloc.service.instance_lock import InstanceLock
from tests.rig import attributes
from tests.rig.journals import load


@pytest.fixture
def state(tmp_path):
    (tmp_path / "state").mkdir()
    return tmp_path / "state"


def test_it_refuses_while_somebody_has_the_lock(state, tmp_path):
    daemon = InstanceLock(str(state))
    assert daemon.take()
    with pytest.raises(SettingsError, match="stop it first"):
        restore.run(str(state), str(tmp_path), None)


def test_a_folder_that_is_not_there_is_not_made(tmp_path):
    with pytest.raises(SettingsError, match="there is no state folder"):
        restore.run(str(tmp_path / "none"), str(tmp_path), None)
    assert not (tmp_path / "none").exists()


def test_a_file_is_no_state_folder(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError, match="there is no state folder"):
        restore.run(str(tmp_path / "file"), str(tmp_path), None)


def test_a_journal_that_cannot_be_read_is_not_taken_for_none(state, tmp_path):
    (state / "restore.jsonl").mkdir()
    with pytest.raises(SettingsError, match=r"restore\.jsonl: cannot be read: Is a directory"):
        restore.run(str(state), str(tmp_path), None)


def test_a_journal_that_is_a_pipe_is_not_waited_for(state, tmp_path, capsys):
    os.mkfifo(state / "restore.jsonl")
    restore.run(str(state), str(tmp_path), None)
    assert "it is no regular file" in capsys.readouterr().err


def test_a_name_that_is_too_long_for_a_folder_is_refused(tmp_path):
    with pytest.raises(SettingsError, match="cannot be read: File name too long"):
        restore.run("x" * 5000, str(tmp_path), None)


def test_a_value_that_no_kernel_file_takes_is_refused_and_kept(state, tmp_path, capsys):
    (tmp_path / "weight").write_text("1\n")
    (state / "restore.jsonl").write_text('{"file": "/weight", "was": "\\u00e4"}\n')
    assert restore.run(str(state), str(tmp_path), None) == 1
    assert "it is not ASCII" in capsys.readouterr().err
    assert "weight" in (state / "restore.jsonl").read_text()


def test_names_in_a_journal_do_not_steer_the_terminal(state, tmp_path, capsys):
    (tmp_path / "\x1b[2J").write_text("1\n")
    (state / "restore.jsonl").write_text(json.dumps({"file": "/\x1b[2J", "was": "100"}) + "\n")
    restore.run(str(state), str(tmp_path), None)
    assert capsys.readouterr().out.startswith("restored /?[2J\n")


def test_names_of_pods_do_not_steer_the_terminal(state, tmp_path, capsys, monkeypatch):
    name = "shop/web\x1b[2J\n/app: cpus=0-7"
    undone = Undone(Restored(), SpecsRestored((name,), (name,), frozenset()))
    monkeypatch.setattr(restoration, "restore", lambda *_: undone)
    restore.run(str(state), str(tmp_path), None)
    said = capsys.readouterr()
    assert "\x1b" not in said.out + said.err
    assert "sent to the runtime: shop/web?[2J /app: cpus=0-7\n" in said.out


def test_it_says_what_it_did(state, tmp_path, capsys):
    (tmp_path / "weight").write_text("1\n")
    entries = [
        {"file": "/weight", "was": "100"},
        {"file": "/gone", "was": "1"},
        {"file": "/state", "was": "1"},
    ]
    (state / "restore.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    assert restore.run(str(state), str(tmp_path), None) == 1
    said = capsys.readouterr()
    assert said.out == "restored /weight\n1 restored, 1 gone, 1 refused\n"
    assert said.err.startswith("nri-coloc: cannot write ")
    assert (tmp_path / "weight").read_text() == "100"


POD = "/sys/fs/cgroup/kubepods/pod1/cpu.weight"


def below_another_root(state: Path) -> int:
    (state / "restore.jsonl").write_text(json.dumps({"file": POD, "was": "100"}) + "\n")
    return restore.run(str(state), str(state.parent / "host"), None)


def test_a_root_without_cgroups_keeps_the_journal(state, capsys):
    assert below_another_root(state) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "--host-root" in said.err
    assert POD in (state / "restore.jsonl").read_text()


def test_below_the_root_of_a_container_nothing_is_done_either(state):
    (state.parent / "host/sys/fs/cgroup").mkdir(parents=True)
    (state.parent / "host/sys/fs/cgroup/cgroup.controllers").touch()
    assert below_another_root(state) == 1
    assert POD in (state / "restore.jsonl").read_text()


def test_pods_that_ended_are_forgotten(state, capsys):
    (state.parent / "host/sys/fs/cgroup/kubepods").mkdir(parents=True)
    (state.parent / "host/sys/fs/cgroup/cgroup.controllers").touch()
    assert below_another_root(state) == 0
    assert capsys.readouterr().out == "0 restored, 1 gone, 0 refused\n"
    assert load(state / "restore.jsonl") == {}


def test_a_journal_that_cannot_be_shortened_is_a_sentence(state, tmp_path, capsys, monkeypatch):
    (tmp_path / "weight").write_text("1\n")
    (state / "restore.jsonl").write_text(json.dumps({"file": "/weight", "was": "100"}) + "\n")
    monkeypatch.setattr(state_file, "replace", refusing(errno.ENOSPC))
    assert restore.run(str(state), str(tmp_path), None) == 1
    said = capsys.readouterr()
    assert said.out == "restored /weight\n1 restored, 0 gone, 0 refused\n"
    words = f"nri-coloc: cannot write the restore journal {state}/restore.jsonl: No space left on device; "
    assert said.err.startswith(words)
    assert (tmp_path / "weight").read_text() == "100"


def test_a_read_only_disk_does_not_prevent_restoring(state, tmp_path, capsys, monkeypatch):
    (state / "lock").touch()
    (tmp_path / "weight").write_text("1\n")
    (state / "restore.jsonl").write_text(json.dumps({"file": "/weight", "was": "100"}) + "\n")
    read_only(monkeypatch, state)
    assert restore.run(str(state), str(tmp_path), None) == 1
    assert capsys.readouterr().err.endswith("Read-only file system; restored values stay, and running restore "
    "again does no harm\n")  # fmt: skip
    assert (tmp_path / "weight").read_text() == "100"


def refusing(number: int) -> Callable[[Path, object], None]:
    def replace(_path: Path, _content: object) -> None:
        raise OSError(number, os.strerror(number))

    return replace


def read_only(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Refuse writes into a folder, as a file system does that was remounted read-only after an error."""
    real, write = os.open, os.O_WRONLY | os.O_RDWR | os.O_CREAT

    def opening(path: Any, flags: int, *more: Any, **named: Any) -> int:
        if flags & write and str(path).startswith(str(folder)):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return real(path, flags, *more, **named)

    monkeypatch.setattr(os, "open", opening)
    monkeypatch.setattr(state_file, "replace", refusing(errno.EROFS))


def test_a_journal_of_a_backup_names_the_remedy(tmp_path, capsys):
    with attributes.folder(tmp_path) as root:
        state, pod = root / "state", root / "sys/fs/cgroup/kubepods/burstable/pod1"
        state.mkdir()
        pod.mkdir(parents=True)
        for folder in (root / "sys/fs/cgroup").rglob("*/"):
            folder.chmod(0o755)
        (root / "sys/fs/cgroup/cgroup.controllers").touch()
        os.setxattr(
            pod, NAME, json.dumps([{"cpu.weight": "39"}, [], Owner(str(state), "new")._asdict()]).encode()
        )
        (state / "restore.jsonl").write_text('{"journal":2,"boot":"","whole":true,"name":"old"}\n')
        assert restore.run(str(state), str(root), None) == 0
    said = capsys.readouterr()
    assert said.out == "0 restored, 0 gone, 0 refused\n"
    assert f"another daemon with the state folder {state} (values=1)" in said.err
    assert f"{state}/restore.jsonl came from a backup or an image, remove it" in said.err


def test_without_a_journal_there_is_nothing_to_do(state, tmp_path, capsys):
    assert restore.run(str(state), str(tmp_path), None) == 0
    assert capsys.readouterr().out == "0 restored, 0 gone, 0 refused\n"


def test_where_no_runtime_is_and_none_was_named_it_says_so(tmp_path, capsys):
    assert restore.is_absent(RuntimeAt(str(tmp_path / "none.sock"), "", ""))
    assert f"there is no runtime at {tmp_path / 'none.sock'}" in capsys.readouterr().err


def test_a_runtime_at_the_usual_place_is_asked(tmp_path, capsys):
    (tmp_path / "nri.sock").touch()
    assert not restore.is_absent(RuntimeAt(str(tmp_path / "nri.sock"), "", ""))
    assert capsys.readouterr().err == ""


def test_a_runtime_where_we_may_not_look_is_asked(tmp_path, capsys):
    # a name that is too long cannot be looked up, as a closed folder cannot; root gets this error too
    assert not restore.is_absent(RuntimeAt(str(tmp_path / ("x" * 300)), "", ""))
    assert capsys.readouterr().err == ""


def test_a_runtime_that_was_named_must_answer(state, tmp_path, capsys):
    named = ["--nri-socket", str(tmp_path / "none.sock")]
    assert main.main(["restore", "--state-dir", str(state), "--host-root", str(tmp_path), *named], {}) == 1
    assert "the runtime's specs could not be read" in capsys.readouterr().err
