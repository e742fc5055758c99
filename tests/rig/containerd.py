"""One containerd in a folder of its own: started, killed, started again, and removed without remains.

It knows processes and sockets; `cri.py` has the calls over CRI. A kill ends containerd alone, its
shims and containers live on, as on a node. The folder is short, since a Unix socket's path may not be
longer than 107 bytes.
"""

import logging
import os
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.rig import RigError, cleanup, commands, configuration, image, kubepods, logs, owner, packages
from tests.rig.configuration import Options, Version
from tests.rig.cri import Cri
from tests.rig.packages import Unpacked
from tests.rig.waiting import poll

READY_SECONDS: Final = 180  # an emulated machine needs 8 seconds, a real one a fraction of a second
LONGEST_SOCKET_PATH: Final = 107  # unix(7): sun_path is 108 bytes with its zero
LOGS: Final = Path("build/rig")
LOGS_KEPT: Final = 20
_LOG: Final = logging.getLogger(__name__)


class Containerd:
    """Run a containerd of one version, with Debian's runc or another; nothing happens before `start`."""

    def __init__(
        self,
        version: Version,
        options: Options | None = None,
        folder: Path | None = None,
        package: Unpacked | None = None,
        runc: Path | None = None,
    ) -> None:
        self.version = version
        self.package = package or packages.unpacked(f"containerd-{version}")
        self._runc = runc or packages.unpacked("runc").program("runc")
        self._options = options or Options()
        self._process: subprocess.Popen[bytes] | None = None
        self.stopped: list[cleanup.Traces] = []  # where to look for remains
        self._settle(_prepared(folder))

    def _settle(self, folder: Path) -> None:
        self.folder = folder
        self.cri_socket = folder / "containerd.sock"
        self.nri_socket = folder / "nri.sock"
        self.log = folder / "containerd.log"
        self.ledger = kubepods.Ledger(folder)
        self._sessions: list[int] = []

    def start(self) -> None:
        """Start containerd, for the first time or again on the same folders, and wait until CRI answers."""
        if not self._sessions:
            self._write_files()
        self._launch()
        if not poll(self._is_up_or_dead, READY_SECONDS) or self.pid is None:
            raise RigError(f"containerd {self.package.version} did not come up\n{self.log_tail()}")
        if not (self.folder / "imported").exists():
            self._import_images()

    def kill(self) -> None:
        """Kill containerd alone; shims and containers stay. `start` starts it again."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        """End containerd and remove everything that it and its pods left; its log is kept in build/rig."""
        self.terminate()
        self._keep_log()
        self.stopped.append(cleanup.traces(self.folder, self._sessions))
        cleanup.clear(self.stopped[-1])

    def rebuild(self) -> None:
        """Remove a containerd that a test has wedged, and start one in a new folder with new sockets."""
        self.stop()
        self._settle(_prepared(None))
        self.start()

    def terminate(self) -> None:
        """End containerd alone: with SIGTERM, then with SIGKILL if it does not react."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(30)
        self.kill()

    def wait(self) -> None:
        """Wait until containerd ends by itself, without a limit."""
        if self._process is not None:
            self._process.wait()

    @property
    def pid(self) -> int | None:
        """Return the pid of the running containerd; None if none runs."""
        alive = self._process is not None and self._process.poll() is None
        return self._process.pid if alive and self._process else None

    def cri(self) -> Cri:
        """Return a new CRI client of this containerd; the clean-up knows the client's pods."""
        return Cri(self.cri_socket, self.ledger)

    def log_tail(self, lines: int = 40) -> str:
        """Return the last lines of the log."""
        return logs.tail(self.log, lines)

    def _launch(self) -> None:
        programs = [self.package.program("containerd").parent, self._runc.parent]
        path = ":".join([*map(str, programs), os.environ.get("PATH", os.defpath)])
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [self.package.program("containerd"), "--config", self.folder / "config.toml"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "PATH": path},
                start_new_session=True,  # its shims and plugins are found afterwards by the session
            )
        self._sessions.append(self._process.pid)

    def _is_up_or_dead(self) -> bool:
        if self.pid is None:
            return True
        if not (self.cri_socket.exists() and self.nri_socket.exists()):
            return False
        with self.cri() as cri:
            return cri.answers()

    def _write_files(self) -> None:
        owner.note(self.folder)
        for name in ("cni", "cniconf", "nriplugins", "nriconf", "logs"):
            (self.folder / name).mkdir()
        for name, text in self._options.plugins.items():
            (self.folder / "nriplugins" / name).write_text(text)
            (self.folder / "nriplugins" / name).chmod(0o755)
        for name, text in self._options.plugin_configs.items():
            (self.folder / "nriconf" / name).write_text(text)
        (self.folder / configuration.BLOCKIO_CLASSES).write_text(self._options.blockio_classes)
        text = configuration.render(self.version, self.folder, self._runc, self._options)
        (self.folder / "config.toml").write_text(text)

    def _import_images(self) -> None:
        busybox = packages.unpacked("busybox").program("busybox")
        archive = image.write_archive(busybox, self.folder / "images.tar")
        ctr = str(self.package.program("ctr"))
        command = [ctr, "--address", str(self.cri_socket), "--namespace", "k8s.io", "images", "import"]
        try:
            commands.output([*command, str(archive)], seconds=300)
        except RigError as error:
            raise RigError(f"{error}\n{self.log_tail()}") from None
        (self.folder / "imported").touch()

    def _keep_log(self) -> None:
        if self.log.exists():
            LOGS.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self.log, LOGS / f"containerd-{self.version}-{self.folder.name}.log")
            for old in sorted(LOGS.iterdir(), key=lambda path: path.stat().st_mtime)[:-LOGS_KEPT]:
                old.unlink()


def bring_up(version: Version, options: Options | None = None, package: Unpacked | None = None) -> Containerd:
    """Return a running containerd; a failed start is tried once more, with a fresh folder.

    package: the package of its programs; default: the version's Debian package.
    """
    try:
        return _brought_up(version, options, package)
    except RigError as error:
        _LOG.warning("containerd %s did not come up and is tried once more: %s", version, error)
        return _brought_up(version, options, package)


def _brought_up(version: Version, options: Options | None, package: Unpacked | None) -> Containerd:
    containerd = Containerd(version, options, package=package)
    try:
        containerd.start()
    except BaseException:
        containerd.stop()
        raise
    return containerd


def _prepared(folder: Path | None) -> Path:
    """Return an empty folder whose sockets can be reached."""
    if folder is None:
        folder = Path(tempfile.mkdtemp(prefix=cleanup.PREFIX, dir=cleanup.FOLDERS))
    folder = folder.absolute()
    if len(bytes(folder / "containerd.sock.ttrpc")) > LONGEST_SOCKET_PATH:
        raise RigError(f"{folder} is too long a path for the sockets in it")
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise RigError(f"{folder} is not empty")
    return folder.resolve()
