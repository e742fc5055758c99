"""A network and a mount namespace in which a node's programs run, and the folders they see at the usual places.

The namespace lives as long as one process, `sleep`, which is ended by its id. Folders such as `/run/containerd` are
bound from the rig's own folder, so the DaemonSet's manifest finds the paths that it names and no file of this
machine's own.
"""

import contextlib
import ctypes
import http.client
import os
import shlex
import socket
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Final

from tests.rig import RigError, commands
from tests.rig.waiting import PATIENCE_SECONDS, poll

NODE_ADDRESS: Final = "10.77.0.1"
SERVICE_ADDRESS: Final = "10.78.0.1"
"""The address of the service `kubernetes`. No kube-proxy runs: the node has the address itself."""

BRIDGE: Final = "node0"
HOST_LINK: Final = "nri-coloc0"
_NETWORK: Final = "10.77.0.0/24"
_HOST_END, _NODE_END = "10.77.255.1", "10.77.255.2"
PLACES: Final = (
    "/run/containerd",
    "/run/netns",
    "/var/run/nri",
    "/run/nri-coloc",
    "/run/nri-coloc-cluster",
    "/var/lib/nri-coloc",
    "/var/lib/kubelet",
    "/var/lib/cni",
    "/var/log/pods",
    "/var/log/containers",
)
_CLONE_NEWNET: Final = 0x40000000

_SCRIPT: Final = """
set -e
mount --make-rshared /
for place in {places}; do mount --bind "{folder}/at$place" "$place"; done
ip link set lo up
ip link add {bridge} type bridge
ip address add {address}/24 dev {bridge}
ip address add {service}/32 dev {bridge}
ip link set {bridge} up
ip route add default dev {bridge}
echo up
exec sleep infinity
"""


class Namespace:
    """Hold the two namespaces; `start` makes them, `stop` ends them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[str] | None = None
        self._made: list[Path] = []

    def start(self) -> None:
        """Make both and bind the folders."""
        for place in PLACES:
            self._at(place).mkdir(parents=True)
            self._make(Path(place))
        values = {
            "places": " ".join(PLACES),
            "folder": self._folder,
            "bridge": BRIDGE,
            "address": NODE_ADDRESS,
            "service": SERVICE_ADDRESS,
        }
        self._process = subprocess.Popen(
            ["unshare", "--net", "--mount", "--propagation", "private", "sh", "-c", _SCRIPT.format(**values)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        assert self._process.stdout is not None  # stdout is a pipe
        with self._process.stdout as output:  # `sleep` writes nothing more
            said = output.readline().strip()
        if said != "up":
            raise RigError(f"the node's namespaces could not be made: {said}")

    def join(self) -> None:
        """Let the host reach the node's network; the link goes with the namespace."""
        steps = (
            f"ip link add {HOST_LINK} type veth peer name host0 netns {self._pid}",
            f"ip address add {_HOST_END}/30 dev {HOST_LINK}",
            f"ip link set {HOST_LINK} up",
        )
        inside = (f"ip address add {_NODE_END}/30 dev host0", "ip link set host0 up")
        route = f"ip route add {_NETWORK} via {_NODE_END}"
        for command in (
            *map(str.split, steps),
            *(self.inside(step.split()) for step in inside),
            route.split(),
        ):
            commands.output(command, seconds=PATIENCE_SECONDS)

    def stop(self) -> None:
        """End the process that keeps the namespaces; mounts and interfaces go with the last process inside."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        for folder in reversed(self._made):
            with contextlib.suppress(OSError):  # another program has put a file there meanwhile
                folder.rmdir()
        self._made.clear()

    def inside(self, command: Sequence[str]) -> list[str]:
        """Return the command line that runs a command inside."""
        return ["nsenter", f"--target={self._pid}", "--net", "--mount", "--", *map(str, command)]

    def run(self, command: Sequence[str], *, stdin: str = "", seconds: float = PATIENCE_SECONDS) -> str:
        """Run a command inside to its end and return its output; RigError shows all that a failed one printed."""
        title = shlex.join(map(str, command))
        return commands.output(self.inside(command), stdin=stdin, seconds=seconds, title=title)

    def spawn(
        self, command: Sequence[str], log: IO[bytes], environment: Mapping[str, str] | None = None
    ) -> "subprocess.Popen[bytes]":
        """Start a program inside that writes to a log."""
        return subprocess.Popen(
            self.inside(command),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
        )

    def get(self, port: int, path: str, host: str = "127.0.0.1", seconds: float = 30) -> tuple[int, str]:
        """Return status and body of a server inside, over HTTP; (0, "") if none listens."""
        connection = http.client.HTTPConnection(host, port, timeout=seconds)
        try:
            connection.sock = self._connected(host, port, seconds)
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()
        except (OSError, http.client.HTTPException):
            return 0, ""
        finally:
            connection.close()

    @property
    def pid(self) -> int:
        """Return the id of the process that keeps the namespaces; 0 when there is none."""
        return 0 if self._process is None else self._process.pid

    @property
    def _pid(self) -> int:
        if self._process is None:
            raise RigError("the node's namespaces are not there")
        return self._process.pid

    def _connected(self, host: str, port: int, seconds: float) -> socket.socket:
        """Return a connection made inside: a socket belongs to the namespace of the thread that made it."""
        found: list[socket.socket | OSError] = []
        network = Path(f"/proc/{self._pid}/ns/net")

        def connect() -> None:
            try:
                _enter(network)
                found.append(socket.create_connection((host, port), timeout=seconds))
            except OSError as error:
                found.append(error)

        thread = threading.Thread(target=connect)
        thread.start()
        thread.join()
        if isinstance(found[0], OSError):
            raise found[0]
        return found[0]

    def _at(self, place: str) -> Path:
        return self._folder / "at" / place.lstrip("/")

    def _make(self, place: Path) -> None:
        missing = [path for path in (place, *place.parents) if not path.exists()]
        place.mkdir(parents=True, exist_ok=True)
        self._made += reversed(missing)


def _enter(namespace: Path) -> None:
    """Move the calling thread into a network namespace."""
    with namespace.open() as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"setns {namespace}")


def ends(process: "subprocess.Popen[bytes] | None", seconds: float = 20) -> None:
    """End a program with SIGTERM, then with SIGKILL."""
    if process is None or process.poll() is not None:
        return
    process.terminate()
    if not poll(lambda: process.poll() is not None, seconds):
        process.kill()
    process.wait()
