"""etcd, API server, controller manager and scheduler, each a process in the node's namespaces."""

import subprocess
from pathlib import Path
from typing import Final

from tests.cluster import credentials
from tests.cluster.namespace import NODE_ADDRESS, Namespace
from tests.rig import RigError, logs
from tests.rig.waiting import comes

ADMIN: Final = "admin"
NODE: Final = "node"
NODE_NAME: Final = "node"
PORT: Final = 443
"""The port of the service `kubernetes`, so that pods reach the API server without a kube-proxy."""

SERVER: Final = f"https://{NODE_ADDRESS}:{PORT}"
ORDER: Final = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
_SERVICES: Final = "10.78.0.0/24"


class ControlPlane:
    """Run the four programs; `start` returns when the API server answers and can give a service account."""

    def __init__(self, namespace: Namespace, folder: Path, kube: Path, etcd: Path) -> None:
        self._namespace = namespace
        self._folder = folder
        self._kube = str(kube)
        self._etcd = str(etcd)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """Write keys and credentials, start all four in order."""
        self._write_keys()
        for user in (ADMIN, NODE):
            self._write_kubeconfig(user)
        for name in ORDER:
            self.start_one(name)
            if name == "kube-apiserver":
                self._wait_for_server()

    def start_one(self, name: str) -> None:
        """Start one of the four."""
        with (self._folder / f"{name}.log").open("ab") as log:
            self._processes[name] = self._namespace.spawn(self._command(name), log)

    def kill_one(self, name: str) -> None:
        """Kill one with SIGKILL, if it runs. After SIGTERM an API server serves its watches for a while."""
        process = self._processes.pop(name, None)
        if process is not None:
            process.kill()
            process.wait()

    def stop(self) -> None:
        """Kill all four, the last started first."""
        for name in reversed(ORDER):
            self.kill_one(name)

    def kubeconfig(self, user: str) -> Path:
        """Return the file with a user's credentials."""
        return self._folder / f"{user}.kubeconfig"

    def is_up(self) -> bool:
        """Return whether the API server is ready; RigError if it has ended."""
        process = self._processes.get("kube-apiserver")
        if process is None or process.poll() is not None:
            raise RigError(f"the API server ended:\n{self.log_tail('kube-apiserver')}")
        ask = [self._kube, "kubectl", f"--kubeconfig={self.kubeconfig(ADMIN)}", "get", "--raw=/readyz"]
        return subprocess.run(self._namespace.inside(ask), capture_output=True, check=False).returncode == 0

    def log_tail(self, name: str, lines: int = 30) -> str:
        """Return the end of one program's log."""
        return logs.tail(self._folder / f"{name}.log", lines)

    def _wait_for_server(self) -> None:
        if not comes(self.is_up):
            raise RigError(f"the API server did not come up:\n{self.log_tail('kube-apiserver')}")

    def _command(self, name: str) -> list[str]:
        folder = self._folder
        if name == "etcd":
            return [self._etcd, f"--data-dir={folder}/etcd", "--name=node", "--snapshot-count=10000"]
        admin = f"--kubeconfig={folder}/{ADMIN}.kubeconfig"
        arguments = {
            "kube-apiserver": self._server_arguments(),
            "kube-controller-manager": [
                admin,
                "--leader-elect=false",
                f"--service-account-private-key-file={folder}/accounts.key",
                f"--root-ca-file={folder}/apiserver/apiserver.crt",
            ],
            "kube-scheduler": [admin, "--leader-elect=false"],
        }
        return [self._kube, name, *arguments[name]]

    def _server_arguments(self) -> list[str]:
        folder = self._folder
        return [
            "--etcd-servers=http://127.0.0.1:2379",
            f"--service-cluster-ip-range={_SERVICES}",
            "--bind-address=0.0.0.0",
            f"--secure-port={PORT}",
            f"--advertise-address={NODE_ADDRESS}",
            f"--cert-dir={folder}/apiserver",
            f"--token-auth-file={folder}/tokens.csv",
            "--authorization-mode=Node,RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={folder}/accounts.pub",
            f"--service-account-signing-key-file={folder}/accounts.key",
            # no resolver here knows the node's name
            "--kubelet-preferred-address-types=InternalIP",
            "--allow-privileged=true",
        ]

    def _write_keys(self) -> None:
        credentials.write_account_keys(self._folder)
        users = (
            f'{ADMIN}-token,{ADMIN},1,"system:masters"',
            f'{NODE}-token,system:node:{NODE_NAME},2,"system:nodes"',
        )
        (self._folder / "tokens.csv").write_text("\n".join(users) + "\n")

    def _write_kubeconfig(self, user: str) -> None:
        certificate = self._folder / "apiserver/apiserver.crt"
        text = credentials.kubeconfig(SERVER, certificate, user, f"{user}-token")
        self.kubeconfig(user).write_text(text)
