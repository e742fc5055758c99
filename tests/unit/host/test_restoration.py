"""Original values are restored from the journal alone."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host import cpusets, files, restoration
from tests.rig.journals import load, restored


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "cg/pod").mkdir(parents=True)
    for path in ("cg", "cg/pod"):
        (tmp_path / path / "cpu.weight").write_text("1\n")
        (tmp_path / path / "cpuset.cpus").write_text("2-7\n")
        (tmp_path / path / "cpuset.cpus.effective").write_text("2-7\n")
    return tmp_path


def journal(root: Path, *entries: tuple[str, str | None]) -> str:
    path = root / "restore.jsonl"
    path.write_text("".join(json.dumps({"file": f, "was": w}) + "\n" for f, w in entries))
    return str(path)


def test_every_file_has_its_first_value_again_the_outermost_first(root):
    path = journal(
        root,
        ("/cg/pod/cpu.weight", "50"),
        ("/cg/cpu.weight", "100"),
        ("/cg/pod/cpuset.cpus", ""),
        ("/cg/pod/cpu.weight", "7"),
    )
    result = restored(path, str(root), 2)
    assert result.done == ("/cg/cpu.weight", "/cg/pod/cpu.weight", "/cg/pod/cpuset.cpus")
    assert (root / "cg/pod/cpu.weight").read_text() == "50"
    assert (root / "cg/pod/cpuset.cpus").read_text().strip() == ""
    assert load(path) == {}


def test_what_is_gone_is_nothing_to_worry_about(root):
    path = journal(root, ("/cg/ended/cpu.weight", "100"))
    result = restored(path, str(root), 2)
    assert (result.done, result.gone, result.refused) == ((), ("/cg/ended/cpu.weight",), ())
    assert load(path) == {}


def test_what_the_kernel_refuses_is_kept_for_another_try(root):
    (root / "cg/folder").mkdir()
    path = journal(root, ("/cg/folder", "1"), ("/cg/cpu.weight", "100"), ("/cg/cpuset.cpus", "zero"))
    result = restored(path, str(root), 2)
    assert result.done == ("/cg/cpu.weight",)
    assert len(result.refused) == 2
    assert load(path) == {"/cg/folder": "1", "/cg/cpuset.cpus": "zero"}


def test_what_was_given_back_already_is_left_alone(root):
    path = journal(root, ("/cg/cpu.weight", "100"), ("/cg/cpu.weight", None))
    result = restored(path, str(root), 2)
    assert (result.done, (root / "cg/cpu.weight").read_text()) == ((), "1\n")


def test_a_restored_file_written_again_has_its_newer_original(root):
    path = journal(root, ("/cg/cpu.weight", "100"), ("/cg/cpu.weight", None), ("/cg/cpu.weight", "40"))
    restored(path, str(root), 2)
    assert (root / "cg/cpu.weight").read_text() == "40"


def test_without_a_journal_none_is_made(root):
    result = restored(root / "none", str(root), 2)
    assert result == restoration.Restored((), (), ())
    assert not (root / "none").exists()


def test_on_v1_the_cgroups_below_get_room_with_their_parent(tmp_path):
    for path in ("pod", "pod/pause"):
        (tmp_path / path).mkdir()
        (tmp_path / path / "cpuset.cpus").write_text("2-7\n")
    path = journal(tmp_path, ("/pod/cpuset.cpus", "0-7"))
    restored(path, str(tmp_path), 1)
    assert (tmp_path / "pod/cpuset.cpus").read_text().strip() == "0-7"
    assert (tmp_path / "pod/pause/cpuset.cpus").read_text().strip() == "0-7"


@pytest.mark.parametrize(
    ("name", "has"),
    [
        ("kubepods/besteffort/pod1", "0-7"),
        ("kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod1.slice", "0-7"),
        ("yarn", "2-3"),
        ("hadoop-pods.slice", "2-3"),
        ("podman", "2-3"),
    ],
)
def test_on_v1_members_that_were_left_behind_follow_their_pod(tmp_path, name, has):
    for path, cpus in ((name, "0-7"), (f"{name}/app", "2-3")):
        (tmp_path / path).mkdir(parents=True)
        (tmp_path / path / "cpuset.cpus").write_text(f"{cpus}\n")
    restored(journal(tmp_path, (f"/{name}/cpuset.cpus", "0-7")), str(tmp_path), 1)
    assert (tmp_path / name / "app/cpuset.cpus").read_text().strip() == has


class TestAPodThatWasLeftHalfMovedOnV1:
    POD = "kubepods/besteffort/pod1"

    def tree(self, root: Path, pod: str, **below: str) -> None:
        for path, cpus in {"": pod, **below}.items():
            folder = root / self.POD / path.replace("_", "/")
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "cpuset.cpus").write_text(f"{cpus}\n")

    def found(self, root: Path) -> dict[str, str]:
        files = sorted((root / self.POD).rglob("cpuset.cpus"))
        return {str(f.parent.relative_to(root / self.POD)): f.read_text().strip() for f in files}

    @pytest.mark.parametrize("pod", ["0-7", "2-5"], ids=["while it was narrowed", "while it was widened"])
    def test_all_below_follows(self, tmp_path, pod):
        self.tree(tmp_path, pod, app=pod, app_inner="2-3", pause="2-3")
        restored(journal(tmp_path, (f"/{self.POD}/cpuset.cpus", "0-7")), str(tmp_path), 1)
        assert set(self.found(tmp_path).values()) == {"0-7"}

    def test_a_container_that_has_its_own_gets_that(self, tmp_path):
        self.tree(tmp_path, "2-3", app="2-3", pause="2-3")
        entries = ((f"/{self.POD}/app/cpuset.cpus", "4-5"), (f"/{self.POD}/cpuset.cpus", "0-7"))
        restored(journal(tmp_path, *entries), str(tmp_path), 1)
        assert self.found(tmp_path) == {".": "0-7", "app": "4-5", "pause": "0-7"}

    def test_a_second_try_restores_the_pod_too(self, tmp_path, monkeypatch):
        self.tree(tmp_path, "2-3", app="2-3")
        entries = ((f"/{self.POD}/app/cpuset.cpus", "2"), (f"/{self.POD}/cpuset.cpus", "0-7"))
        release, tries = cpusets.release, []

        def refuse_once(folder: str, *arguments: Any) -> int | None:
            tries.append(folder)
            if len(tries) == 1:
                raise KernelInterfaceError(folder, "write", "Device or resource busy")
            return release(folder, *arguments)

        monkeypatch.setattr(cpusets, "release", refuse_once)
        assert restored(journal(tmp_path, *entries), str(tmp_path), 1).refused == ()
        assert self.found(tmp_path) == {".": "0-7", "app": "2"}

    @pytest.mark.parametrize("name", ["cpuset.cpus", "cpuset.mems"])
    def test_a_container_waits_for_its_refused_pod(self, tmp_path, monkeypatch, name):
        write = files.write

        def refuse_the_pod(file: str, text: str) -> bool:
            if file == str(tmp_path / self.POD / name):
                raise KernelInterfaceError(file, "write", "Permission denied")
            return write(file, text)

        self.tree(tmp_path, "2-3", app="2")
        for folder, text in ((self.POD, "2-3"), (f"{self.POD}/app", "2")):
            (tmp_path / folder / name).write_text(f"{text}\n")
        path = journal(tmp_path, (f"/{self.POD}/{name}", "0-7"), (f"/{self.POD}/app/{name}", ""))
        monkeypatch.setattr(files, "write", refuse_the_pod)
        assert restored(path, str(tmp_path), 1).done == ()
        monkeypatch.undo()
        restored(path, str(tmp_path), 1)
        assert (tmp_path / self.POD / "app" / name).read_text().strip() == "0-7"


class OneLineAWrite:
    """Fake kernel that takes a weight's lines one by one, as block/blk-iocost.c does."""

    def __init__(self, taken: Callable[[str, str], bool]) -> None:
        self._taken = taken

    def write(self, path: str, text: str) -> bool:
        if "\n" in text.strip():
            raise KernelInterfaceError(path, f"write {text!r} to", "Invalid argument")
        return self._taken(path, text)


def test_a_weight_whose_devices_have_their_own_is_put_back(root, monkeypatch):
    monkeypatch.setattr(files, "write", OneLineAWrite(files.write).write)
    (root / "cg/pod/io.weight").write_text("default 10\n8:0 200\n")
    path = journal(root, ("/cg/pod/io.weight", "default 100\n8:0 200"))
    result = restored(path, str(root), 2)
    assert (result.done, result.refused) == (("/cg/pod/io.weight",), ())
    assert (root / "cg/pod/io.weight").read_text().strip() == "default 100"
