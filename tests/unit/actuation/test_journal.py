"""actuation/journal.py: what was there before us, through crashes and full disks."""

import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nri_coloc.actuation import journal
from nri_coloc.actuation.journal import Journal, load


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal"


class Reports(list[str]):
    """What the operator is told."""


def opened(path: Path, host_root: str = "/") -> tuple[Journal, Reports]:
    reports = Reports()
    return Journal(str(path), reports.append, host_root), reports


@contextmanager
def disk_of(size: int) -> Iterator[None]:
    """Let no file grow beyond a size: what is written is cut off there, as on a disk that fills up."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


class TestRemembering:
    def test_a_value_is_on_disk_before_anything_else_happens(self, path):
        opened(path)[0].note("/cg/cpu.shares", "512")
        assert path.read_text() == '{"file":"/cg/cpu.shares","was":"512"}\n'
        assert load(str(path)) == {"/cg/cpu.shares": "512"}

    def test_the_first_value_is_the_original(self, path):
        book, _ = opened(path)
        book.note("/f", "1")
        book.note("/f", "2")
        assert book.original("/f") == "1"
        assert len(path.read_text().splitlines()) == 1

    @pytest.mark.parametrize("known", [{}, {"/f": "1"}, {"/f": "2"}], ids=["new", "another", "the same"])
    def test_an_original_can_be_replaced(self, path, known):
        book, _ = opened(path)
        for file, was in known.items():
            book.note(file, was)
        book.renew("/f", "2")
        assert book.original("/f") == "2"
        assert load(str(path)) == {"/f": "2"}

    def test_a_later_life_knows_what_an_earlier_one_wrote(self, path):
        opened(path)[0].note("/f", "1")
        again, _ = opened(path)
        again.note("/f", "ours by now")
        assert again.original("/f") == "1"

    def test_what_another_copy_wrote_meanwhile_is_learned_when_it_is_our_turn(self, path):
        book, _ = opened(path)
        opened(path)[0].note("/f", "1")
        assert book.original("/f") is None
        book.load_again()
        assert book.original("/f") == "1"

    def test_nothing_is_known_of_other_files(self, path):
        assert opened(path)[0].original("/f") is None

    def test_only_we_may_read_it(self, path):
        opened(path)[0].note("/f", "1")
        assert path.stat().st_mode & 0o777 == 0o600

    def test_any_text_survives(self, path):
        text = 'default 100\n8:0 50\n"\u2028é'
        opened(path)[0].note("/f", text)
        assert load(str(path)) == {"/f": text}


class TestPaths:
    def test_files_are_kept_as_the_host_names_them(self, path):
        book, _ = opened(path, "/host/")
        book.note("/host/cg/f", "1")
        assert load(str(path)) == {"/cg/f": "1"}
        assert book.original("/host/cg/f") == "1"
        assert book.files() == ["/host/cg/f"]

    def test_a_folders_own_files_are_found_but_none_below(self, path):
        book, _ = opened(path)
        for file in ("/cg/a/x", "/cg/a/y", "/cg/a/b/x", "/cg/ab"):
            book.note(file, "1")
        assert sorted(book.below("/cg/a")) == ["/cg/a/x", "/cg/a/y"]
        assert book.below("/nowhere") == {}


class TestForgetting:
    def test_a_file_that_has_its_value_again_is_forgotten(self, path):
        book, _ = opened(path)
        book.note("/cg/f", "1")
        book.forget("/cg/f")
        assert (book.original("/cg/f"), book.below("/cg"), load(str(path))) == (None, {}, {})

    def test_what_it_holds_the_next_time_is_another_original(self, path):
        book, _ = opened(path)
        book.note("/f", "1")
        book.forget("/f")
        book.note("/f", "2")
        assert load(str(path)) == {"/f": "2"}

    def test_what_was_never_known_is_not_forgotten_twice(self, path):
        opened(path)[0].forget("/f")
        assert not path.exists()

    def test_nothing_is_left_of_a_folder_whose_last_file_is_forgotten(self, path):
        book, _ = opened(path)
        for number in range(9):
            book.note(f"/cg/pod{number}/cpu.shares", "512")
            book.forget(f"/cg/pod{number}/cpu.shares")
        assert book._in_folder == {}

    def test_cgroups_that_are_gone_are_forgotten(self, path, tmp_path):
        book, reports = opened(path)
        here = tmp_path / "here"
        here.write_text("")
        book.note(str(here), "1")
        book.note(str(tmp_path / "gone"), "2")
        book.forget_gone()
        assert load(str(path)) == {str(here): "1"} == dict.fromkeys(book.files(), "1")
        assert reports == []

    def test_while_all_are_there_the_file_is_not_written_again(self, path, tmp_path):
        book, _ = opened(path)
        book.note(str(tmp_path), "1")
        inode = path.stat().st_ino
        book.forget_gone()
        assert path.stat().st_ino == inode

    def test_it_is_cluttered_where_most_of_it_may_be_gone_and_not_once_that_was_looked_at(
        self, path, tmp_path
    ):
        book, _ = opened(path)
        for number in range(journal.CLUTTER):
            book.note(str(tmp_path / f"gone{number}"), "1")
        found = [book.is_cluttered]
        book.note(str(tmp_path), "1")
        found.append(book.is_cluttered)
        book.forget_gone()
        assert [*found, book.is_cluttered] == [False, True, False]

    def test_a_node_of_many_cgroups_that_stay_is_not_cluttered(self, path, tmp_path):
        book, _ = opened(path)
        for number in range(2 * journal.CLUTTER):
            (tmp_path / f"here{number}").touch()
            book.note(str(tmp_path / f"here{number}"), "1")
        book.forget_gone()
        assert not book.is_cluttered

    def test_a_file_of_lines_that_say_nothing_any_more_is_written_anew(self, path, tmp_path):
        book, _ = opened(path)
        book.note(str(tmp_path), "1")
        for _ in range(journal.SUPERFLUOUS // 2):
            book.note("/cg/cpu.cfs_quota_us", "50000")
            book.forget("/cg/cpu.cfs_quota_us")
        book.forget_gone()
        assert path.read_text() == journal.lines({str(tmp_path): "1"})


class TestTornLines:
    @pytest.mark.parametrize(
        "torn",
        [
            '{"file":"/t","wa',
            "\x00\x00\x00\x00",
            "null",
            "[]",
            "[" * 100_000,
            '{"file":"relative","was":"1"}',
            '{"file":"/nul\\u0000","was":"1"}',
            '{"file":"/\\ud800","was":"1"}',
            '{"was":"1"}',
            "\udcff",
        ],
        ids=[
            "half",
            "zeros",
            "null",
            "list",
            "too-deep",
            "relative",
            "nul",
            "no-path",
            "nameless",
            "bytes",
        ],
    )
    def test_what_is_no_entry_is_skipped_and_the_rest_counts(self, path, torn):
        lines = ['{"file":"/a","was":"1"}', torn, '{"file":"/b","was":"2"}']
        path.write_bytes("\n".join(lines).encode(errors="surrogateescape") + b"\n")
        assert load(str(path)) == {"/a": "1", "/b": "2"}

    def test_a_line_that_a_crash_cut_off_does_not_swallow_the_next(self, path):
        path.write_text('{"file":"/a","was":"1"}\n{"file":"/t","wa')
        opened(path)[0].note("/b", "2")
        assert load(str(path)) == {"/a": "1", "/b": "2"}

    @pytest.mark.parametrize("cut", range(1, 25))
    def test_a_journal_cut_anywhere_loses_its_last_line_only(self, path, cut):
        book, _ = opened(path)
        book.note("/a", "1")
        book.note("/b", "2")
        whole = path.read_bytes()
        path.write_bytes(whole[:-cut])
        opened(path)[0].note("/c", "3")
        found = load(str(path))
        assert found | {"/b": "2"} == {"/a": "1", "/b": "2", "/c": "3"}

    def test_a_journal_that_is_not_there_is_empty(self, path):
        assert load(str(path)) == {}

    def test_a_journal_that_cannot_be_read_is_empty(self, tmp_path):
        assert load(str(tmp_path)) == {}


class TestFullDisk:
    """A journal that cannot be written costs restore, never placement."""

    def test_a_failure_is_told_once_and_the_value_is_known_all_the_same(self, path):
        book, reports = opened(path)
        path.symlink_to("/dev/full")
        book.note("/a", "1")
        book.note("/b", "2")
        assert reports == [
            f"cannot write the restore journal {path}: No space left on device; placing goes on"
        ]
        assert book.original("/b") == "2"

    def test_a_folder_that_is_not_there_is_a_failure_too(self, tmp_path):
        book, reports = opened(tmp_path / "missing/journal")
        book.note("/a", "1")
        assert len(reports) == 1
        assert "No such file or directory" in reports[0]

    def test_a_line_that_did_not_fit_is_told_and_harms_no_other(self, path):
        book, reports = opened(path)
        book.note("/a", "1")
        with disk_of(path.stat().st_size + 10):
            book.note("/b", "2")
        book.note("/c", "3")
        assert len(reports) == 1
        assert load(str(path)) == {"/a": "1", "/c": "3"}

    def test_the_whole_journal_is_tried_again_with_the_next_cleaning(self, path, tmp_path):
        book, reports = opened(path)
        file = str(tmp_path)
        with disk_of(5):
            book.note(file, "1")
        book.forget_gone()
        assert load(str(path)) == {file: "1"}
        with disk_of(5):
            book.forget(file)
        assert len(reports) == 2

    def test_a_cleaning_that_fails_leaves_the_old_journal(self, path, tmp_path):
        book, reports = opened(path)
        book.note(str(tmp_path), "1")
        book.note(str(tmp_path / "gone"), "2")
        before = path.read_text()
        with disk_of(5):
            book.forget_gone()
        assert path.read_text() == before
        assert len(reports) == 1
        assert [p.name for p in tmp_path.iterdir()] == ["journal"]


def test_entries_are_one_line_each():
    text = journal.lines({"/a": "1", "/b": None})
    assert [json.loads(line) for line in text.splitlines()] == [
        {"file": "/a", "was": "1"},
        {"file": "/b", "was": None},
    ]
