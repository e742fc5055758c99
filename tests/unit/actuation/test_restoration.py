"""Putting back what was there before us, by the journal alone."""

import json
from pathlib import Path

import pytest

from nri_coloc.actuation import restoration
from nri_coloc.actuation.journal import load


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
    result = restoration.restore(path, str(root), 2)
    assert result.done == ("/cg/cpu.weight", "/cg/pod/cpu.weight", "/cg/pod/cpuset.cpus")
    assert (root / "cg/pod/cpu.weight").read_text() == "50"
    assert (root / "cg/pod/cpuset.cpus").read_text().strip() == ""
    assert load(path) == {}


def test_what_is_gone_is_nothing_to_worry_about(root):
    path = journal(root, ("/cg/ended/cpu.weight", "100"))
    result = restoration.restore(path, str(root), 2)
    assert (result.done, result.gone, result.refused) == ((), ("/cg/ended/cpu.weight",), ())
    assert load(path) == {}


def test_what_the_kernel_refuses_is_kept_for_another_try(root):
    (root / "cg/folder").mkdir()
    path = journal(root, ("/cg/folder", "1"), ("/cg/cpu.weight", "100"), ("/cg/cpuset.cpus", "zero"))
    result = restoration.restore(path, str(root), 2)
    assert result.done == ("/cg/cpu.weight",)
    assert len(result.refused) == 2
    assert load(path) == {"/cg/folder": "1", "/cg/cpuset.cpus": "zero"}


def test_what_was_given_back_already_is_left_alone(root):
    path = journal(root, ("/cg/cpu.weight", "100"), ("/cg/cpu.weight", None))
    result = restoration.restore(path, str(root), 2)
    assert (result.done, (root / "cg/cpu.weight").read_text()) == ((), "1\n")


def test_a_file_that_was_given_back_and_written_again_has_its_newer_original(root):
    path = journal(root, ("/cg/cpu.weight", "100"), ("/cg/cpu.weight", None), ("/cg/cpu.weight", "40"))
    restoration.restore(path, str(root), 2)
    assert (root / "cg/cpu.weight").read_text() == "40"


def test_without_a_journal_there_is_nothing_to_do_and_none_is_made(root):
    result = restoration.restore(str(root / "none"), str(root), 2)
    assert result == restoration.Restored((), (), ())
    assert not (root / "none").exists()


def test_on_v1_the_cgroups_below_get_room_with_their_parent(tmp_path):
    for path in ("pod", "pod/pause"):
        (tmp_path / path).mkdir()
        (tmp_path / path / "cpuset.cpus").write_text("2-7\n")
    path = journal(tmp_path, ("/pod/cpuset.cpus", "0-7"))
    restoration.restore(path, str(tmp_path), 1)
    assert (tmp_path / "pod/cpuset.cpus").read_text() == "0-7"
    assert (tmp_path / "pod/pause/cpuset.cpus").read_text() == "0-7"


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
    restoration.restore(journal(tmp_path, (f"/{name}/cpuset.cpus", "0-7")), str(tmp_path), 1)
    assert (tmp_path / name / "app/cpuset.cpus").read_text().strip() == has
