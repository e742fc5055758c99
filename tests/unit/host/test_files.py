"""host/files.py: one kernel file is read and written, and each refusal becomes an error of the project."""

import pytest

from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host import files


class TestReading:
    @pytest.mark.parametrize(
        ("content", "text"),
        [(b"0-3\n", "0-3"), (b"", ""), (b"a 1\nb 2\n", "a 1\nb 2"), (b"\xff\n", "�")],
        ids=["line", "empty", "lines", "garbage"],
    )
    def test_a_text_comes_without_its_last_newline(self, tmp_path, content, text):
        (tmp_path / "f").write_bytes(content)
        assert files.read(str(tmp_path / "f")) == text

    @pytest.mark.parametrize("path", ["gone", "f/below"], ids=["missing", "not-a-folder"])
    def test_a_file_that_is_gone_is_none(self, tmp_path, path):
        (tmp_path / "f").write_text("")
        assert files.read(str(tmp_path / path)) is None

    def test_another_failure_names_the_file(self, tmp_path):
        with pytest.raises(KernelInterfaceError, match=f"cannot read {tmp_path}: Is a directory") as raised:
            files.read(str(tmp_path))
        assert (raised.value.path, raised.value.action) == (str(tmp_path), "read")


class TestWriting:
    def test_a_value_replaces_the_former_one(self, tmp_path):
        (tmp_path / "f").write_text("0-15\n")
        assert files.write(str(tmp_path / "f"), "2") is True
        assert (tmp_path / "f").read_text() == "2\n\n\n\n", "in one step, so without a cut"

    def test_a_file_that_is_gone_is_not_made(self, tmp_path):
        assert files.write(str(tmp_path / "gone"), "2") is False
        assert not (tmp_path / "gone").exists()

    def test_a_refusal_names_file_and_value(self):
        with pytest.raises(
            KernelInterfaceError, match="cannot write '7' to /dev/full: No space left on device"
        ):
            files.write("/dev/full", "7")


class TestChildren:
    def test_only_folders_count_in_order(self, tmp_path):
        for name in ("b", "a"):
            (tmp_path / name).mkdir()
        (tmp_path / "c").write_text("")
        (tmp_path / "d").symlink_to(tmp_path / "a")
        assert files.children(str(tmp_path)) == [str(tmp_path / "a"), str(tmp_path / "b")]

    def test_a_cgroup_that_is_gone_has_none(self, tmp_path):
        assert files.children(str(tmp_path / "gone")) == []

    def test_another_failure_names_the_folder(self, tmp_path):
        too_long = str(tmp_path / ("x" * 300))
        with pytest.raises(KernelInterfaceError, match=r"cannot list .*: File name too long"):
            files.children(too_long)


def test_a_list_of_several_pages_is_read_to_its_end():
    page = 4096
    assert len(files.read("/proc/self/maps") or "") > 2 * page


def test_beyond_the_limit_no_number_is_read_in_part(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MAX_BYTES", 10)
    (tmp_path / "procs").write_text("1001\n1002\n10034\n")
    monkeypatch.setattr(files, "READ_SIZE", 7)
    assert files.read(str(tmp_path / "procs")) == "1001\n1002"
