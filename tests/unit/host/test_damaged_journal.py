"""A journal that another program wrote, or that lacks a part: what counts of it, and what is said."""

import json
import os
from pathlib import Path

import pytest

from nri_coloc.host import journal_file
from nri_coloc.host.journal import Journal
from nri_coloc.host.marks import Marks
from tests.rig.journals import lines, load


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal"


class TestFilesThatAreNoJournal:
    """Such files are kept, and the daemon goes on with a new journal."""

    def kept(self, path: Path) -> Path:
        return path.with_name("journal.kept-1")

    def taken_over(self, path: Path) -> str:
        book = Journal(str(path))
        ((because, inputs),) = book.begin()
        book.note("/new", "1")
        assert (book.problem, load(path)["/new"]) == ("", "1")
        assert inputs["kept_as"] == str(self.kept(path))
        return because

    def test_another_version_is_moved_aside(self, path):
        text = '{"journal":3,"boot":"","whole":true}\n{"path":"/f","original":"1"}\n'
        path.write_text(text)
        assert "is of another version than 2" in self.taken_over(path)
        assert self.kept(path).read_text() == text

    def test_foreign_lines_are_moved_aside_and_the_others_count(self, path, tmp_path):
        path.write_text("hello\n" + lines({str(tmp_path): "1"}))
        assert "holds 1 line without an entry" in self.taken_over(path)
        assert load(path)[str(tmp_path)] == "1"
        assert self.kept(path).read_text().startswith("hello\n")

    @pytest.mark.parametrize("file", ["/etc/passwd", "/cg/../etc/passwd", "/cgroups/cpu.shares"])
    def test_a_file_outside_the_cgroups_is_no_entry(self, path, file):
        """`restore` writes as root to each file that a journal names."""
        book = Journal(str(path), marks=Marks(["/cg"]))
        path.write_text(
            json.dumps({"file": file, "was": "x"}) + '\n{"file":"/cg/pod/cpu.shares","was":"512"}\n'
        )
        book.load()
        assert book.files() == ["/cg/pod/cpu.shares"]
        assert book.complaint == "holds 1 line without an entry"

    def test_a_folder_is_moved_aside(self, path):
        path.mkdir()
        assert "cannot be read: it is no regular file" in self.taken_over(path)
        assert self.kept(path).is_dir()

    def test_a_link_is_moved_aside_and_not_followed(self, path, tmp_path):
        (tmp_path / "other").write_text(lines({"/f": "1"}))
        path.symlink_to(tmp_path / "other")
        assert "cannot be read: it is a symbolic link" in self.taken_over(path)
        assert load(path) == {"/new": "1"}
        assert (tmp_path / "other").read_text() == lines({"/f": "1"})

    def test_a_pipe_is_not_waited_for(self, path):
        os.mkfifo(path)
        assert "cannot be read: it is no regular file" in self.taken_over(path)

    def test_one_of_too_many_bytes_is_read_in_part(self, path):
        path.write_text("".join(f'{{"file":"/{number:04000}","was":"1"}}\n' for number in range(5_000)))
        size = path.stat().st_size
        assert size > journal_file.MOST_BYTES
        assert "is larger than any journal of this program" in self.taken_over(path)
        assert self.kept(path).stat().st_size == size

    def test_one_of_too_many_entries_is_read_in_part(self, path, monkeypatch):
        monkeypatch.setattr(journal_file, "MOST_ENTRIES", 100)
        path.write_text(lines({f"/{number}": "1" for number in range(102)}))
        assert "is larger than any journal of this program" in self.taken_over(path)

    def test_the_kept_ones_have_names_of_their_own(self, path):
        for _ in range(2):
            path.write_text("hello\n")
            Journal(str(path)).begin()
        assert path.with_name("journal.kept-2").read_text() == "hello\n"

    def test_one_that_cannot_be_moved_is_left(self, path, monkeypatch):
        path.write_text("hello\n")
        monkeypatch.setattr(journal_file, "keep_aside", lambda _path: None)
        book = Journal(str(path))
        book.begin()
        book.note("/f", "1")
        assert book.problem.endswith("it is no journal of this program, and cannot be moved aside")
        assert path.read_text() == "hello\n"


class TestLacking:
    """Without marks, a defect of the journal may mean that values are lost."""

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ('{"file":"/a","was":"1"}\n', ""),
            ('{"file":"/a","was":"1"}\n{"file":"/t","wa', "is not whole: its last line was cut off"),
            ("hello\n", "holds 1 line without an entry"),
        ],
        ids=["whole", "torn", "foreign lines"],
    )
    def test_without_marks_every_defect_is_named(self, path, text, words):
        path.write_text(text)
        assert Journal(str(path)).lacking == (words and f"the restore journal {path} {words}")

    @pytest.mark.parametrize("text", ['{"file":"/t","wa', "hello\n"], ids=["torn", "foreign lines"])
    def test_with_marks_nothing_is_lacking(self, path, text):
        path.write_text(text)
        assert Journal(str(path), marks=Marks(["/cg"])).lacking == ""

    def test_marks_do_not_replace_another_versions_journal(self, path):
        path.write_text('{"journal":3}\n')
        assert "another version" in Journal(str(path), marks=Marks(["/cg"])).lacking
