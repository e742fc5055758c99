"""A real API server with etcd and nothing else, on ports of its own: up in a few seconds, without root.

Nodes and pods are objects that a test makes. No kubelet runs, and no controller manager: garbage collection, disruption
controller and service accounts of new namespaces do not exist, so a test writes those objects or their status itself.
"""

import itertools
import random
import shutil
import socket
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, Final

from nri_coloc.kubernetes import api
from nri_coloc.kubernetes.api import Api
from tests.cluster import binaries, credentials
from tests.cluster.namespace import ends
from tests.rig import RigError, commands, logs
from tests.rig.waiting import PATIENCE_SECONDS, comes

ADDRESS: Final = "127.0.0.1"
ADMIN: Final = "admin-token"
_ACCOUNTS: Final = "https://kubernetes.default.svc"


class ApiServer:
    """etcd and API server of one version; `start` returns when the API server is ready."""

    def __init__(self, version: str, folder: Path) -> None:
        self.version = version
        self.folder = folder
        self._kube = str(binaries.programs(binaries.kubernetes(version)) / "kube")
        self._port, self._etcd_port, self._peer_port = _free_ports(3)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def port(self) -> int:
        """Return the port of the API server."""
        return self._port

    @property
    def pids(self) -> tuple[int, ...]:
        """Return the processes that run now."""
        return tuple(each.pid for each in self._processes.values())

    def start(self) -> None:
        """Write keys and credentials, start both."""
        self._write_keys()
        self._start_both()

    def _start_both(self) -> None:
        self._spawn("etcd", self._etcd_command())
        self.start_server()

    def _stop_both(self) -> None:
        self.stop_server()
        ends(self._processes.pop("etcd", None))

    def back_up(self) -> None:
        """Keep a copy of etcd's files; both are stopped meanwhile."""
        self._stop_both()
        shutil.copytree(self.folder / "etcd", self.folder / "backup")
        self._start_both()

    def restore(self, meanwhile: Callable[[], None]) -> None:
        """Start both with the copy of etcd's files. `meanwhile`: called while both are stopped."""
        self._stop_both()
        shutil.rmtree(self.folder / "etcd")
        (self.folder / "backup").rename(self.folder / "etcd")
        meanwhile()
        self._start_both()

    def start_server(self) -> None:
        """Start the API server, again after `stop_server` on the same port."""
        self._spawn("kube-apiserver", self._server_command())
        if not comes(self._is_ready):
            raise RigError(f"the API server did not come up:\n{self.log_tail('kube-apiserver')}")

    def start_scheduler(self) -> None:
        """Start the stock scheduler; `stop` ends it."""
        admin = f"--kubeconfig={self.kubeconfig('admin', ADMIN)}"
        self._spawn(
            "kube-scheduler", [self._kube, "kube-scheduler", admin, "--leader-elect=false", "--secure-port=0"]
        )

    def stop_server(self) -> None:
        """End the API server; etcd lives on."""
        ends(self._processes.pop("kube-apiserver", None))

    def stop(self) -> None:
        """End all and remove their files."""
        ends(self._processes.pop("kube-scheduler", None))
        self._stop_both()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def url(self) -> str:
        """Return the address of the API server."""
        return f"https://{ADDRESS}:{self._port}"

    @property
    def certificate(self) -> Path:
        """Return the file with the API server's authority."""
        return self.folder / "certs" / "apiserver.crt"

    @property
    def accounts_key(self) -> Path:
        """Return the file with the key that signs the tokens of service accounts."""
        return self.folder / "accounts.key"

    def kubeconfig(self, name: str, token: str) -> Path:
        """Write a kubeconfig with a bearer token; return its path."""
        path = self.folder / f"{name}.kubeconfig"
        path.write_text(credentials.kubeconfig(self.url, self.certificate, name, token))
        return path

    def kubeconfig_of_file(self, name: str, token_file: Path) -> Path:
        """Write a kubeconfig that names a file with the token; return its path."""
        path = self.folder / f"{name}.kubeconfig"
        path.write_text(credentials.kubeconfig_of_file(self.url, self.certificate, name, token_file))
        return path

    def admin(self) -> Api:
        """Return the API as the administrator."""
        return api.connect(str(self.kubeconfig("admin", ADMIN)))

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        """Run kubectl as the administrator and return its output; RigError shows all that a failed one printed."""
        command = [self._kube, "kubectl", f"--kubeconfig={self.kubeconfig('admin', ADMIN)}", *arguments]
        title = f"kubectl {' '.join(arguments)}"
        return commands.output(command, stdin=stdin, seconds=PATIENCE_SECONDS, title=title)

    def log_tail(self, name: str, lines: int = 30) -> str:
        """Return the end of one program's log."""
        return logs.tail(self.folder / f"{name}.log", lines)

    def _is_ready(self) -> bool:
        if self._processes["kube-apiserver"].poll() is not None:
            raise RigError(f"the API server ended:\n{self.log_tail('kube-apiserver')}")
        if not (self.folder / "certs" / "apiserver.crt").exists():
            return False
        try:
            self.kubectl("get", "--raw=/readyz")
        except RigError:
            return False
        return True

    def _spawn(self, name: str, command: Sequence[str]) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self._processes[name] = _started(command, log)

    def _etcd_command(self) -> list[str]:
        clients, peers = f"http://{ADDRESS}:{self._etcd_port}", f"http://{ADDRESS}:{self._peer_port}"
        return [
            str(binaries.etcd()),
            f"--data-dir={self.folder}/etcd",
            "--name=rig",
            f"--listen-client-urls={clients}",
            f"--advertise-client-urls={clients}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=rig={peers}",
            # files of a test need not survive a crash of the machine
            "--unsafe-no-fsync",
        ]

    def _server_command(self) -> list[str]:
        folder = self.folder
        return [
            self._kube,
            "kube-apiserver",
            f"--etcd-servers=http://{ADDRESS}:{self._etcd_port}",
            "--service-cluster-ip-range=10.78.0.0/24",
            f"--bind-address={ADDRESS}",
            f"--advertise-address={ADDRESS}",
            # an endpoint may not have a loopback address
            "--endpoint-reconciler-type=none",
            f"--secure-port={self._port}",
            f"--cert-dir={folder}/certs",
            f"--token-auth-file={folder}/tokens.csv",
            "--authorization-mode=Node,RBAC",
            f"--service-account-issuer={_ACCOUNTS}",
            f"--service-account-key-file={folder}/accounts.pub",
            f"--service-account-signing-key-file={folder}/accounts.key",
            "--allow-privileged=true",
        ]

    def _write_keys(self) -> None:
        credentials.write_account_keys(self.folder)
        (self.folder / "tokens.csv").write_text(f'{ADMIN},admin,1,"system:masters"\n')


# ---- objects that tests make ----


def node(name: str, **labels: str) -> dict[str, Any]:
    """Return a Node as a kubelet registers it."""
    resources = {"cpu": "8", "memory": "16Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
        "status": {"capacity": resources, "allocatable": resources},
    }


def pod(
    name: str, on: str, namespace: str = "default", *, account: str = "", **metadata: Any
) -> dict[str, Any]:
    """Return a pod that is bound to a node; without requests, so of Kubernetes' class BestEffort."""
    spec = {"nodeName": on, "containers": [{"name": "main", "image": "none"}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, **metadata},
        "spec": spec | ({"serviceAccountName": account} if account else {}),
    }


def _started(command: Sequence[str], log: IO[bytes]) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)


def _free_ports(count: int) -> list[int]:
    """Return ports that no program listens on, below those that the kernel gives to outgoing connections."""
    return list(itertools.islice(filter(_is_free, random.sample(range(16_384, 32_768), 1_000)), count))


def _is_free(port: int) -> bool:
    try:
        socket.create_server((ADDRESS, port)).close()
    except OSError:
        return False
    return True
