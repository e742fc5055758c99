"""host/files.py: a missing file is None; any other failure is an error that names the file."""

import re
from pathlib import Path

import pytest

from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host import files


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "file"


def test_a_missing_file_is_none_to_every_reader(file):
    assert files.text(str(file)) is None
    assert files.number(str(file)) is None
    assert files.cpu_list(str(file)) is None


def test_a_file_below_something_that_is_no_folder_is_none(file):
    file.write_text("1\n")
    assert files.text(f"{file}/below") is None


def test_a_missing_folder_holds_nothing(tmp_path):
    assert files.entries(f"{tmp_path}/nothing") == {}


def test_a_text_is_read_whole_also_beyond_one_read(file):
    file.write_text("x" * 200_000)
    assert files.text(str(file)) == "x" * 200_000


def test_a_text_is_bounded(file):
    file.write_text("x" * (2 * files.MAX_BYTES))
    content = files.text(str(file))
    assert content is not None
    assert len(content) <= files.MAX_BYTES + 65536


def test_bytes_that_are_not_utf8_are_kept_escaped(file):
    file.write_bytes(b"a\xffb")
    assert files.text(str(file)) == "a\udcffb"


def test_a_number_may_be_negative_and_end_with_a_newline(file):
    file.write_text("-1\n")
    assert files.number(str(file)) == -1


@pytest.mark.parametrize(
    ("content", "mask"),
    [("0-3,8\n", 0b100001111), ("\n", 0), ("", 0), ("(null)\n", 0)],
    ids=["list", "newline-only", "empty-file", "old-kernels-null"],
)
def test_a_cpulist_is_read_as_kernels_write_it(file, content, mask):
    file.write_text(content)
    assert files.cpu_list(str(file)) == mask


@pytest.mark.parametrize(
    "text", ["many", "1_0", "+1", "9" * 5000], ids=["word", "underscore", "plus", "endless"]
)
def test_a_number_that_is_none_is_an_error_with_the_path(file, text):
    file.write_text(f"{text}\n")
    with pytest.raises(KernelInterfaceError, match=re.escape(f"'{text[:80]}' is not a number")) as raised:
        files.number(str(file))
    assert raised.value.path == str(file)


def test_a_cpulist_that_is_none_is_an_error_with_the_path(file):
    file.write_text("3-1\n")
    with pytest.raises(KernelInterfaceError, match="'3-1'") as raised:
        files.cpu_list(str(file))
    assert raised.value.path == str(file)


def test_a_folder_in_place_of_a_file_is_an_error(tmp_path):
    with pytest.raises(KernelInterfaceError, match=r"cannot read .*: Is a directory"):
        files.text(str(tmp_path))


def test_a_folder_that_cannot_be_listed_is_an_error(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(KernelInterfaceError, match="cannot list"):
        files.entries(f"{tmp_path}/loop")


def test_entries_tell_files_from_folders(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("folder")
    assert files.entries(str(tmp_path)) == {"folder": True, "file": False, "link": True}
