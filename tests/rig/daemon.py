"""The product under test: the unmodified `nri-coloc run` as a process of its own beside a rig's containerd.

It has a state folder, a port and an output file of its own. Flags and one configuration file are all its settings, as
on an operator's node. The file lies behind a `..data` link as in a ConfigMap mount.
"""

import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypedDict, Unpack

from nri_coloc.cli import admin
from nri_coloc.service.admin_client import AdminUnreachable
from tests.rig import RigError, last_words
from tests.rig.containerd import Containerd
from tests.rig.lane import free_port
from tests.rig.own_time import ends_within
from tests.rig.records import broken, lines, sentence_of
from tests.rig.waiting import PATIENCE_SECONDS, POLL_SECONDS, comes, wait_until

READY_SECONDS: Final = 180
HTTP_SECONDS: Final = 60
PROGRAM: Final = ("-m", "nri_coloc")
SLOW_PROGRAM: Final = ("-m", "tests.rig.slow_daemon")
LAST_WORDS: Final = 8_000
LONGEST_RECORD: Final = 1_200
LAST_WORDS_SECONDS: Final = 60
PROJECT: Final = Path(__file__).parents[2]


class ConfigMap:
    """Mount a folder as the kubelet mounts a ConfigMap: one link switches to each new version as a whole."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "config.yaml"
        self._folder = folder
        self.asked = ""
        self._versions = 0
        folder.mkdir()
        self.file.symlink_to("..data/config.yaml")

    def write(self, text: str) -> None:
        """Publish a new content; without a section `reclaim` it switches lending off.

        Such a test is about placement, and the reclaim pool is then the whole pool `share`. With lending, the pool
        would follow the load of this machine, and so all other work on it.
        """
        self.asked = text
        if "reclaim:" not in text:
            text = f"{text.rstrip()}\nreclaim: {{enabled: false}}\n"
        self._versions += 1
        version = self._folder / f"..version_{self._versions}"
        version.mkdir()
        (version / "config.yaml").write_text(text)
        link = self._folder / "..data_tmp"
        link.symlink_to(version.name)
        link.rename(self._folder / "..data")


class Setup(TypedDict, total=False):
    """Hold the settings that a test may change: configuration text, flags, program, folders."""

    config: str
    flags: Sequence[str]
    program: Sequence[str]
    state_dir: Path | None
    audit_to: Path | None


class Daemon:
    """Run one copy of the daemon; `with` starts it and always stops it. It may be killed and started again."""

    def __init__(self, containerd: Containerd, **setup: Unpack[Setup]) -> None:
        self._home = tempfile.TemporaryDirectory(prefix="daemon-")
        self.folder = Path(self._home.name)
        self.state_dir = setup.get("state_dir") or self.folder / "state"
        self._audit = setup.get("audit_to") or self.folder / "audit"
        self.config = ConfigMap(self.folder / "etc")
        self.config.write(setup.get("config", ""))
        self._containerd = containerd
        self._port = free_port()
        self._arguments = ([*setup.get("program", PROGRAM), "run"], [*setup.get("flags", ())])
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0
        self._audit_start = 0
        self._served = ""
        last_words.know(self)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        found = self.broken_records() if error is None else []
        self.close()
        assert found == []

    def broken_records(self) -> list[str]:
        """Return a sentence for each fault in a record of its audit, over all its starts."""
        text = self._audit.read_bytes() if self._audit.is_file() else b""
        return list(broken(lines(text)))

    def close(self) -> None:
        """End the daemon and remove its files."""
        self.kill()
        self._home.cleanup()

    def start(self) -> None:
        """Start the daemon, for the first time or again with the same folders."""
        with self._audit.open("ab") as audit, (self.folder / "log").open("ab") as log:
            self._served = str(self._containerd.nri_socket)
            self._audit_start, self._log_start = self._audit.stat().st_size, len(self.log())
            self._process = subprocess.Popen(
                self._command(),
                cwd=PROJECT,
                env=os.environ | {"PYTHONFAULTHANDLER": "1"},
                stdin=subprocess.DEVNULL,
                stdout=audit,
                stderr=log,
            )

    def _command(self) -> list[str]:
        program, flags = self._arguments
        paths = {
            "--config": self.config.file,
            "--nri-socket": self._containerd.nri_socket,
            "--cri-socket": self._containerd.cri_socket,
            "--state-dir": self.state_dir,
            "--admin-socket": self.folder / "admin" / "admin.sock",
            "--http": f"127.0.0.1:{self._port}",
        }
        own = [str(part) for pair in paths.items() for part in pair]
        return [sys.executable, *program, *own, *flags]

    def places(self) -> list[str]:
        """Return the flags that name the state folder and the runtime for `nri-coloc restore`."""
        paths = {
            "--state-dir": self.state_dir,
            "--nri-socket": self._containerd.nri_socket,
            "--cri-socket": self._containerd.cri_socket,
        }
        return [str(part) for pair in paths.items() for part in pair]

    def wait_synchronised(self, seconds: float = READY_SECONDS) -> None:
        """Wait until the daemon knows the runtime's containers, for the first time since its start.

        From here on it misses no event. After a restart of the runtime alone, use `wait_back`.
        """
        if not comes(lambda: self._is_synchronised() or self.is_dead, seconds) or self.is_dead:
            raise RigError(f"the daemon was not synchronised: {self.readyz()}\n{self.log()}")

    def wait_lost(self, seconds: float = READY_SECONDS) -> None:
        """Wait until the daemon knows that its runtime has ended."""
        wait_until(
            lambda: self.check("connected").get("ok") is False, seconds, "the daemon to notice the loss"
        )

    def wait_back(self, seconds: float = READY_SECONDS) -> None:
        """Wait until the daemon knows the containers of a runtime that was started again after `wait_lost`."""
        checks = ("connected", "synchronised")
        wait_until(
            lambda: all(self.check(each).get("ok") for each in checks), seconds, "the daemon to be back"
        )

    def _is_synchronised(self) -> bool:
        return " synchronised " in self.log()[self._log_start :]

    def wait_written(self, seconds: float = READY_SECONDS) -> None:
        """Wait until the values that were decided are written: an ordered sweep comes after all earlier orders."""
        wait_until(self._swept, seconds, "the sweep that was ordered")

    def _swept(self) -> bool:
        try:
            return admin.repair(str(self.folder / "admin" / "admin.sock")) == 0
        except AdminUnreachable:  # it serves orders some time after it is synchronised
            return False

    def wait_ready(self, seconds: float = READY_SECONDS) -> None:
        """Wait until `/readyz` reports that the daemon is ready."""
        if not comes(lambda: self.readyz().get("ready") or self.is_dead, seconds) or self.is_dead:
            raise RigError(f"the daemon did not get ready: {self.readyz()}\n{self.log()}")

    def kill(self) -> None:
        """Kill the daemon with SIGKILL."""
        self._end(signal.SIGKILL)

    def terminate(self, seconds: float = PATIENCE_SECONDS) -> int:
        """End the daemon with SIGTERM and return its exit code.

        AssertionError if that takes more than `seconds` of its own time (`own_time.py`).
        """
        return self._end(signal.SIGTERM, seconds)

    def _end(self, number: signal.Signals, seconds: float = PATIENCE_SECONDS) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(number)
        if ends_within(process, seconds):
            return process.wait()
        process.send_signal(signal.SIGABRT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(LAST_WORDS_SECONDS)
        process.kill()
        process.wait()
        words = f"the daemon did not end within {seconds:.0f} s; its log ends with where its threads stood"
        raise AssertionError(f"{words}:\n{self.log()[-LAST_WORDS:]}")

    @property
    def is_fit(self) -> bool:
        """Return whether the daemon serves the containerd that runs now."""
        if self.is_dead or self._served != str(self._containerd.nri_socket):
            return False
        return bool(self.check("connected").get("ok"))

    @property
    def is_dead(self) -> bool:
        """Return whether the daemon has ended by itself, or was never started."""
        return self._process is None or self._process.poll() is not None

    @property
    def pid(self) -> int:
        """Return the pid of the running daemon."""
        return 0 if self._process is None else self._process.pid

    # ---- state and output ----

    def state(self) -> dict[str, Any]:
        """Return `/v1/state`."""
        return self._json("/v1/state")

    def capacity(self) -> dict[str, Any]:
        """Return the body of `/v1/capacity`."""
        return self._json("/v1/capacity")

    def container(self, container_id: str) -> dict[str, Any]:
        """Return one container of `/v1/state`; empty if it is not there."""
        return next((c for c in self.state().get("containers", []) if c["id"] == container_id), {})

    def readyz(self) -> dict[str, Any]:
        """Return `/readyz`; empty while no process listens on the port."""
        return self._json("/readyz")

    def check(self, name: str) -> dict[str, Any]:
        """Return one check of `/readyz`."""
        found: dict[str, Any] = self.readyz().get("checks", {}).get(name, {})
        return found

    def metric(self, sample: str) -> float:
        """Return a sample such as `nri_coloc_connected`, labels included; 0 if there is none."""
        lines = (line.rpartition(" ") for line in self._get("/metrics").splitlines())
        return next((float(value) for name, _, value in lines if name == sample), 0.0)

    def audit(self, event: str = "", **fields: Any) -> list[dict[str, Any]]:
        """Return the audit records since its last start that have these fields, oldest first."""
        with self._audit.open() as file:
            file.seek(self._audit_start)
            texts = file.read().split("\n")[:-1]  # the text after the last newline is not a whole line yet
        wanted = {"event": event, **fields} if event else fields
        records = [json.loads(text) for text in texts]
        return [r for r in records if all(r.get(name) == value for name, value in wanted.items())]

    def audited(
        self, event: str, seconds: float = PATIENCE_SECONDS, *, saying: str = "", **fields: Any
    ) -> dict[str, Any]:
        """Wait for an audit record and return it; records are written after the reply.

        saying: a text that the record's reason contains.
        """

        def found() -> list[dict[str, Any]]:
            return [record for record in self.audit(event, **fields) if saying in sentence_of(record)]

        wait_until(found, seconds, f"{event} {fields} {saying} in the audit")
        return found()[-1]

    def log(self) -> str:
        """Return the daemon's stderr."""
        path = self.folder / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    @property
    def title(self) -> str:
        """Return the daemon's name above its words."""
        return f"the log and the audit of the daemon in {self.folder}"

    @property
    def logs(self) -> tuple[Path, ...]:
        """Return the files that it writes."""
        return self.folder / "log", self._audit

    def last_words(self, lines: int = 40) -> str:
        """Return the end of its log and of its audit, whose lines may be broken."""
        audit = self._audit.read_text(errors="replace") if self._audit.is_file() else ""
        shown = [line[:LONGEST_RECORD] for line in audit.splitlines()[-lines:]]
        return "\n".join([*self.log().splitlines()[-lines:], *shown])

    def _json(self, path: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._get(path) or "{}")
        return found

    def _get(self, path: str) -> str:
        return fetch(self._port, path)


def fetch(port: int, path: str) -> str:
    """Return the text that a daemon serves at a path; empty while no process listens or answers."""
    return answer(port, path)[1]


def answer(port: int, path: str) -> tuple[int, str]:
    """Return the HTTP status and the body; 0 and an empty text while no process listens or answers.

    The daemon closes a connection on which it has read nothing for seconds, as after the machine stood still. This
    function then asks again.
    """
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=HTTP_SECONDS)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()
        except (ConnectionRefusedError, TimeoutError):
            break
        except (ConnectionError, http.client.HTTPException):
            time.sleep(POLL_SECONDS)
        finally:
            connection.close()
    return 0, ""
