"""The kernel reports writes to real files."""

import ctypes
import errno
import os
from collections.abc import Callable, Iterator
from threading import Thread

import pytest

from nri_coloc.host import inotify as module
from nri_coloc.host.inotify import Touched, Watches
from tests.rig import kubepods

PATIENCE_S = 20


@pytest.fixture
def watches() -> Iterator[Watches]:
    found = Watches()
    found.open()
    yield found
    found.close()


def file(tmp_path, name: str = "cpu.shares") -> str:
    path = tmp_path / name
    path.write_text("1024")
    return str(path)


def write(path: str, text: str = "2") -> None:
    with open(path, "w") as stream:  # noqa: PTH123 - as any program
        stream.write(text)


def refusal(number: int) -> Callable[..., int]:
    """Return a call of libc that fails with this errno."""

    def refuse(*_: object) -> int:
        ctypes.set_errno(number)
        return -1

    return refuse


def test_a_write_is_told_once(watches, tmp_path):
    path = file(tmp_path)
    assert watches.add(path)
    write(path)
    assert watches.wait(PATIENCE_S)
    assert watches.read() == Touched(frozenset({path}))
    assert watches.read() == Touched()
    assert not watches.wait(0)


def test_a_file_that_is_read_is_not_written(watches, tmp_path):
    path = file(tmp_path)
    watches.add(path)
    with open(path) as stream:  # noqa: PTH123 - as any program
        stream.read()
    assert not watches.wait(0)


def test_a_file_that_is_not_there_cannot_be_watched(watches, tmp_path):
    assert not watches.add(str(tmp_path / "cpu.weight"))
    assert not watches.add(f"{file(tmp_path)}/cpu.weight")
    assert watches.files == frozenset()


def test_who_is_not_watched_any_more_is_not_told_of(watches, tmp_path):
    path, other = file(tmp_path), file(tmp_path, "other")
    watches.add(path)
    watches.add(other)
    write(path)
    watches.remove(path)
    watches.remove(path)
    write(path)
    assert watches.read() == Touched()
    assert watches.files == {other}


def test_a_deleted_file_is_reported_and_unwatched(watches, tmp_path):
    path = file(tmp_path)
    watches.add(path)
    os.unlink(path)  # noqa: PTH108 - as any program
    assert watches.read() == Touched(frozenset({path}), frozenset({path}))
    assert watches.files == frozenset()


def test_a_file_made_anew_is_watched_when_requested(watches, tmp_path):
    path = file(tmp_path)
    watches.add(path)
    fresh = file(tmp_path, "fresh")
    held = os.open(path, os.O_RDONLY)  # the old file stays, as a removed cgroup's does
    os.rename(fresh, path)  # noqa: PTH104 - as any program
    watches.add(path)
    write(path)
    assert watches.read() == Touched(frozenset({path}))
    assert watches.files == {path}
    os.close(held)


def test_a_deleted_file_requested_again_is_unwatched(watches, tmp_path):
    path = file(tmp_path)
    watches.add(path)
    held = os.open(path, os.O_RDONLY)
    os.unlink(path)  # noqa: PTH108 - as any program
    assert not watches.add(path)
    assert watches.files == frozenset()
    os.close(held)


def test_a_ring_ends_the_wait_and_is_no_write(watches):
    ringer = Thread(target=watches.ring)
    ringer.start()
    assert not watches.wait(PATIENCE_S)
    ringer.join()
    assert watches.read() == Touched()


def test_rings_while_nobody_waits_are_one(watches):
    watches.ring()
    watches.ring()
    assert not watches.wait(PATIENCE_S)
    assert not watches.wait(0)


def test_a_queue_that_ran_over_says_so(watches, tmp_path, monkeypatch):
    path = file(tmp_path)
    watches.add(path)
    monkeypatch.setattr(watches, "_data", lambda: module._HEAD.pack(-1, module._OVERFLOW, 0, 0))
    assert watches.read() == Touched(lost=True)


def test_a_kernel_that_grants_no_further_watch_raises(watches, tmp_path, monkeypatch):
    monkeypatch.setattr(module._libc, "inotify_add_watch", refusal(errno.ENOSPC))
    with pytest.raises(OSError, match="No space left"):
        watches.add(file(tmp_path))


def test_a_kernel_without_watches_raises_and_leaks_nothing(monkeypatch):
    monkeypatch.setattr(module._libc, "inotify_init1", refusal(errno.EMFILE))
    with pytest.raises(OSError, match="Too many open files"):
        Watches().open()


def test_closed_twice_is_closed_once_and_a_ring_then_is_nothing(tmp_path):
    found = Watches()
    found.open()
    found.close()
    reused = os.open(file(tmp_path), os.O_RDWR)
    found.close()
    found.ring()
    assert os.read(reused, 100) == b"1024"
    os.close(reused)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make cgroups")
class TestThisKernel:
    """Cgroups behave as the docstring of host/inotify.py says."""

    PATH = f"/nri-coloc-test-watches-{os.getpid()}"

    @pytest.fixture
    def shares(self) -> Iterator[str]:
        kubepods.create(self.PATH)
        found = [
            folder / name for folder in kubepods.folders(self.PATH) for name in ("cpu.shares", "cpu.weight")
        ]
        yield str(next(path for path in found if path.exists()))
        assert kubepods.remove(self.PATH)

    def test_a_write_into_a_cgroup_is_told(self, watches, shares):
        assert watches.add(shares)
        write(shares, "77")
        assert watches.read() == Touched(frozenset({shares}))

    def test_a_cgroup_made_anew_is_watched_when_requested(self, watches, shares):
        watches.add(shares)
        assert kubepods.remove(self.PATH)
        kubepods.create(self.PATH)
        watches.add(shares)
        write(shares, "77")
        assert watches.read() == Touched(frozenset({shares}))
        assert watches.files == {shares}
