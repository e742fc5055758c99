"""host/journal.py: original values survive crashes and full disks."""

import json
import resource
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from nri_coloc.host import journal, journal_file
from nri_coloc.host.journal import Journal
from nri_coloc.host.originals import Entry
from tests.rig import whole_process
from tests.rig.journals import lines, load


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal"


def disk_of(size: int) -> AbstractContextManager[None]:
    """Let no file grow beyond `size` bytes: writes are cut off there, as on a disk that fills up."""
    return whole_process.limited(resource.RLIMIT_FSIZE, size)


class TestRemembering:
    def test_a_value_is_on_disk_before_anything_else_happens(self, path):
        Journal(str(path)).note("/cg/cpu.shares", "512")
        assert path.read_text().splitlines()[1:] == ['{"file":"/cg/cpu.shares","was":"512"}']
        assert load(path) == {"/cg/cpu.shares": "512"}

    def test_the_first_value_is_the_original(self, path):
        book = Journal(str(path))
        book.note("/f", "1")
        book.note("/f", "2")
        assert book.original("/f") == "1"
        assert load(path) == {"/f": "1"}

    @pytest.mark.parametrize("known", [{}, {"/f": "1"}, {"/f": "2"}], ids=["new", "another", "the same"])
    def test_an_original_can_be_replaced(self, path, known):
        book = Journal(str(path))
        for file, was in known.items():
            book.note(file, was)
        book.renew("/f", "2")
        assert book.original("/f") == "2"
        assert load(path) == {"/f": "2"}

    def test_an_original_that_stays_is_not_written_again(self, path):
        book = Journal(str(path))
        book.renew("/f", "batch")
        before = path.read_bytes()
        book.renew("/f", "batch")
        assert path.read_bytes() == before

    def test_a_later_process_knows_the_entries(self, path):
        Journal(str(path)).note("/f", "1")
        again = Journal(str(path))
        again.note("/f", "ours by now")
        assert again.original("/f") == "1"

    def test_another_copys_entries_are_learnt_at_our_turn(self, path):
        book = Journal(str(path))
        Journal(str(path)).note("/f", "1")
        assert book.original("/f") is None
        book.begin()
        assert book.original("/f") == "1"

    def test_nothing_is_known_of_other_files(self, path):
        assert Journal(str(path)).original("/f") is None

    @pytest.mark.parametrize("rewritten", [False, True])
    def test_only_we_may_read_it(self, path, rewritten):
        book = Journal(str(path))
        book.note("/f", "1")
        if rewritten:
            book.begin()
        assert path.stat().st_mode & 0o777 == 0o600

    @pytest.mark.parametrize("is_there", [False, True], ids=["no file", "an empty file"])
    def test_the_header_comes_first_and_once(self, path, is_there):
        if is_there:
            path.touch()
        book = Journal(str(path))
        for file in ("/a", "/b"):
            book.note(file, "1")
        header, *entries = path.read_text().split("\n")
        assert header.startswith('{"journal":2')
        assert entries == [*lines({"/a": "1", "/b": "1"}).splitlines(), ""]

    def test_any_text_survives(self, path):
        text = 'default 100\n8:0 50\n"\u2028é'
        Journal(str(path)).note("/f", text)
        assert load(path) == {"/f": text}


class TestPaths:
    def test_files_are_kept_as_the_host_names_them(self, path):
        book = Journal(str(path), "/host/")
        book.note("/host/cg/f", "1")
        assert load(path) == {"/cg/f": "1"}
        assert book.original("/host/cg/f") == "1"
        assert book.files() == ["/host/cg/f"]

    def test_a_folders_own_files_are_found_but_none_below(self, path):
        book = Journal(str(path))
        for file in ("/cg/a/x", "/cg/a/y", "/cg/a/b/x", "/cg/ab"):
            book.note(file, "1")
        assert sorted(book.below("/cg/a")) == ["/cg/a/x", "/cg/a/y"]
        assert book.below("/nowhere") == {}


class TestForgetting:
    def test_a_file_that_has_its_value_again_is_forgotten(self, path):
        book = Journal(str(path))
        book.note("/cg/f", "1")
        book.forget("/cg/f")
        assert (book.original("/cg/f"), book.below("/cg"), load(path)) == (None, {}, {})

    def test_its_next_value_is_another_original(self, path):
        book = Journal(str(path))
        book.note("/f", "1")
        book.forget("/f")
        book.note("/f", "2")
        assert load(path) == {"/f": "2"}

    def test_a_file_that_was_never_known_is_not_forgotten(self, path):
        Journal(str(path)).forget("/f")
        assert not path.exists()

    def test_nothing_is_left_of_a_folder_without_files(self, path):
        book = Journal(str(path))
        for number in range(9):
            book.note(f"/cg/pod{number}/cpu.shares", "512")
            book.forget(f"/cg/pod{number}/cpu.shares")
        assert book._in_folder == {}

    def test_cgroups_that_are_gone_are_forgotten(self, path, tmp_path):
        book = Journal(str(path))
        here = tmp_path / "here"
        here.write_text("")
        book.note(str(here), "1")
        book.note(str(tmp_path / "gone"), "2")
        book.forget_gone()
        assert load(path) == {str(here): "1"} == dict.fromkeys(book.files(), "1")
        assert book.problem == ""

    def test_while_all_are_there_it_is_not_rewritten(self, path, tmp_path):
        book = Journal(str(path))
        book.note(str(tmp_path), "1")
        inode = path.stat().st_ino
        book.forget_gone()
        assert path.stat().st_ino == inode

    def test_it_is_cluttered_where_most_may_be_gone(self, path, tmp_path):
        book = Journal(str(path))
        for number in range(journal.CLUTTER):
            book.note(str(tmp_path / f"gone{number}"), "1")
        found = [book.is_cluttered]
        book.note(str(tmp_path), "1")
        found.append(book.is_cluttered)
        book.forget_gone()
        assert [*found, book.is_cluttered] == [False, True, False]

    def test_many_cgroups_that_stay_are_no_clutter(self, path, tmp_path):
        book = Journal(str(path))
        for number in range(2 * journal.CLUTTER):
            (tmp_path / f"here{number}").touch()
            book.note(str(tmp_path / f"here{number}"), "1")
        book.forget_gone()
        assert not book.is_cluttered

    def test_one_entry_more_than_twice_the_kept_is_clutter(self, path, tmp_path):
        book = Journal(str(path))
        book.note(str(tmp_path), "1")
        book.forget_gone()
        found = []
        for number in range(journal.CLUTTER + 2):
            book.note(f"/cg/{number}", "1")
            found.append(book.is_cluttered)
        assert found == [False] * (journal.CLUTTER + 1) + [True]

    @pytest.mark.parametrize(("pairs", "rewritten"), [(499, False), (500, True)])
    @pytest.mark.parametrize("act", ["forget", "renew"])
    def test_the_thousandth_line_without_effect_is_too_many(self, path, tmp_path, act, pairs, rewritten):
        book = Journal(str(path))
        book.note(str(tmp_path), "0")
        for number in range(pairs):
            if act == "renew":
                book.renew(str(tmp_path), f"{number + 1}")
            else:
                book.note("/cg/cpu.max", "1")
                book.forget("/cg/cpu.max")
        before = path.stat().st_size
        book.forget_gone()
        assert (path.stat().st_size < before) == rewritten

    def test_lines_without_effect_are_cleared_away(self, path, tmp_path):
        book = Journal(str(path))
        book.note(str(tmp_path), "1")
        for _ in range(journal.SUPERFLUOUS // 2):
            book.note("/cg/cpu.cfs_quota_us", "50000")
            book.forget("/cg/cpu.cfs_quota_us")
        book.forget_gone()
        assert path.read_text().splitlines()[1:] == lines({str(tmp_path): "1"}).splitlines()


class TestTornLines:
    @pytest.mark.parametrize(
        "torn",
        [
            '{"file":"/t","wa',
            "\x00\x00\x00\x00",
            "null",
            "[]",
            "[" * 50_000,
            '{"file":"relative","was":"1"}',
            '{"file":"/nul\\u0000","was":"1"}',
            '{"file":"/\\ud800","was":"1"}',
            '{"was":"1"}',
            "\udcff",
        ],
        ids=[
            *("half", "zeros", "null", "list", "too-deep"),
            *("relative", "nul", "no-path", "nameless", "bytes"),
        ],
    )
    def test_a_line_that_is_no_entry_is_skipped(self, path, torn):
        text = ['{"file":"/a","was":"1"}', torn, '{"file":"/b","was":"2"}']
        path.write_bytes("\n".join(text).encode(errors="surrogateescape") + b"\n")
        assert load(path) == {"/a": "1", "/b": "2"}

    def test_a_line_that_was_cut_off_does_not_swallow_the_next(self, path):
        path.write_text('{"file":"/a","was":"1"}\n{"file":"/t","wa')
        Journal(str(path)).note("/b", "2")
        assert load(path) == {"/a": "1", "/b": "2"}

    @pytest.mark.parametrize("cut", range(1, 25))
    def test_a_journal_cut_anywhere_loses_its_last_line_only(self, path, cut):
        book = Journal(str(path))
        book.note("/a", "1")
        book.note("/b", "2")
        whole = path.read_bytes()
        path.write_bytes(whole[:-cut])
        Journal(str(path)).note("/c", "3")
        assert load(path) | {"/b": "2"} == {"/a": "1", "/b": "2", "/c": "3"}

    def test_a_journal_that_is_not_there_is_empty(self, path):
        assert load(path) == {}


class TestFullDisk:
    """A journal that cannot be written costs restore, never placement."""

    def test_the_value_is_known_all_the_same(self, path):
        book = Journal(str(path))
        with disk_of(0):
            book.note("/a", "1")
        assert book.problem == f"cannot write the restore journal {path}: File too large"
        assert book.original("/a") == "1"

    def test_a_folder_that_is_not_there_is_a_failure(self, tmp_path):
        book = Journal(str(tmp_path / "missing/journal"))
        book.note("/a", "1")
        assert book.problem.endswith("No such file or directory")

    def test_a_line_that_did_not_fit_harms_no_other(self, path):
        book = Journal(str(path))
        book.note("/a", "1")
        with disk_of(path.stat().st_size + 10):
            book.note("/b", "2")
        book.note("/c", "3")
        assert book.problem.endswith("No space left on device")
        assert load(path) == {"/a": "1", "/c": "3"}

    @pytest.mark.parametrize("again", [Journal.look, Journal.forget_gone], ids=["a look", "a cleaning"])
    def test_the_whole_journal_is_tried_again(self, path, tmp_path, again):
        book = Journal(str(path))
        with disk_of(5):
            book.note(str(tmp_path), "1")
        again(book)
        assert (load(path), book.problem) == ({str(tmp_path): "1"}, "")

    def test_a_cleaning_that_fails_leaves_the_old_journal(self, path, tmp_path):
        book = Journal(str(path))
        book.note(str(tmp_path), "1")
        book.note(str(tmp_path / "gone"), "2")
        before = path.read_text()
        with disk_of(5):
            book.forget_gone()
        assert path.read_text() == before
        assert book.problem
        assert [p.name for p in tmp_path.iterdir()] == ["journal"]

    def test_a_look_that_cannot_rewrite_does_not_claim_it(self, path):
        book = Journal(str(path))
        with disk_of(5):
            book.note("/a", "1")
            assert not book.look()
        assert book.look()


class TestAFileThatIsGone:
    """A state folder may be deleted under a running daemon."""

    def test_all_that_is_known_is_rewritten(self, path):
        book = Journal(str(path))
        book.note("/a", "1")
        path.unlink()
        assert book.look()
        assert load(path) == {"/a": "1"}
        assert not book.look()

    @pytest.mark.parametrize("found", ["", '{"file":"/a","was":"1"}\n'], ids=["no file", "a journal"])
    def test_a_first_note_is_no_loss(self, path, found):
        if found:
            path.write_text(found)
        book = Journal(str(path))
        book.note("/b", "2")
        assert not book.look()

    def test_a_note_in_between_does_not_pass_for_all(self, path):
        book = Journal(str(path))
        book.note("/a", "1")
        path.unlink()
        book.note("/b", "2")
        assert load(path) == {"/a": "1", "/b": "2"}
        assert book.look()

    def test_another_file_in_its_place_is_replaced(self, path):
        book = Journal(str(path))
        book.note("/a", "1")
        path.rename(path.with_name("copy"))
        path.write_text(lines({"/foreign": "1"}))
        assert book.look()
        assert load(path) == {"/a": "1"}


class TestBoots:
    """Entries of another boot belong to cgroups that ended with it."""

    def boot(self, root: Path, name: str) -> None:
        file = root / "proc/sys/kernel/random/boot_id"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{name}\n")

    def test_the_journal_names_its_boot(self, path, tmp_path):
        self.boot(tmp_path, "one")
        Journal(str(path), str(tmp_path)).note("/f", "1")
        header = json.loads(path.read_text().splitlines()[0])
        assert header == {"journal": 2, "boot": "one", "whole": True, "name": header["name"]}

    def test_after_a_boot_entries_are_no_originals(self, path, tmp_path):
        self.boot(tmp_path, "one")
        Journal(str(path), str(tmp_path)).note(f"{tmp_path}/f", "former")
        self.boot(tmp_path, "two")
        book = Journal(str(path), str(tmp_path))
        ((_, inputs),) = book.begin()
        assert inputs["dropped"] == 1
        book.note(f"{tmp_path}/f", "new")
        assert load(path) == {"/f": "new"}

    def test_in_the_same_boot_they_are(self, path, tmp_path):
        self.boot(tmp_path, "one")
        Journal(str(path), str(tmp_path)).note("/f", "1")
        assert Journal(str(path), str(tmp_path)).original("/f") == "1"

    @pytest.mark.parametrize(
        "header", ["", '{"journal":2,"boot":"","whole":true}\n'], ids=["none", "nameless"]
    )
    def test_a_journal_of_no_known_boot_counts(self, path, tmp_path, header):
        self.boot(tmp_path, "one")
        path.write_text(header + lines({"/f": "1"}))
        assert Journal(str(path), str(tmp_path)).original("/f") == "1"

    def test_without_a_boot_id_every_entry_counts(self, path, tmp_path):
        path.write_text('{"journal":2,"boot":"one","whole":true}\n' + lines({"/f": "1"}))
        assert Journal(str(path), str(tmp_path)).original("/f") == "1"


class TestKeeping:
    """`restore` shortens the journal to the entries that are needed again."""

    def test_only_they_stay(self, path):
        path.write_text(lines({"/a": "1", "/b": "2"}))
        assert Journal(str(path)).keep(["/b"]) == ""
        assert load(path) == {"/b": "2"}

    def test_with_nothing_left_only_the_name_stays(self, path):
        path.write_text(lines({"/a": "1"}))
        Journal(str(path)).keep([])
        assert load(path) == {}
        assert journal_file.read(str(path)).name

    def test_another_versions_journal_stays(self, path):
        path.write_text('{"journal":3}\n')
        book = Journal(str(path))
        assert book.keep([]) == ""
        assert "another version" in book.lacking
        assert path.read_text() == '{"journal":3}\n'


def test_a_value_that_is_not_known_is_marked_so(path):
    path.write_text('{"file":"/f","was":"max","unknown":true}\n')
    assert Journal(str(path)).entries() == {"/f": Entry("max", is_known=False)}
    Journal(str(path)).begin()
    assert '"unknown":true' in path.read_text()
