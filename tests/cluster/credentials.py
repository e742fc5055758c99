"""Keys of an API server, and the files with which its clients find it."""

import base64
import json
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.rig import commands
from tests.rig.waiting import PATIENCE_SECONDS

HOUR_S: Final = 3600


def write_account_keys(folder: Path) -> None:
    """Write `accounts.key`, with which an API server signs service accounts' tokens, and its public part."""
    key, public = folder / "accounts.key", folder / "accounts.pub"
    for command in (
        ["openssl", "genrsa", "-out", str(key), "2048"],
        ["openssl", "rsa", "-in", str(key), "-pubout", "-out", str(public)],
    ):
        commands.output(command, seconds=PATIENCE_SECONDS)


def ended(token: str, key: Path) -> str:
    """Return a service account's token whose times lie in the past, signed again with the API server's own key.

    Kubernetes makes no token for less than ten minutes.
    """
    head, claims, _ = token.split(".")
    found = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
    earlier_s = found["exp"] - int(time.time()) + HOUR_S
    found |= {name: found[name] - earlier_s for name in ("iat", "nbf", "exp")}
    signed = f"{head}.{_encoded(json.dumps(found).encode())}"
    command = ["openssl", "dgst", "-sha256", "-sign", str(key)]
    done = subprocess.run(
        command, input=signed.encode(), capture_output=True, check=True, timeout=PATIENCE_SECONDS
    )
    return f"{signed}.{_encoded(done.stdout)}"


def _encoded(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).decode().rstrip("=")


def kubeconfig(server: str, certificate: Path, user: str, token: str) -> str:
    """Return the text of a kubeconfig with a bearer token. `certificate`: file with the server's authority."""
    return _kubeconfig(server, certificate, user, {"token": token})


def kubeconfig_of_file(server: str, certificate: Path, user: str, token_file: Path) -> str:
    """Return the text of a kubeconfig whose token another program renews in a file, as the kubelet does."""
    return _kubeconfig(server, certificate, user, {"tokenFile": str(token_file)})


def _kubeconfig(server: str, certificate: Path, user: str, credentials: Mapping[str, str]) -> str:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "rig", "cluster": {"server": server, "certificate-authority": str(certificate)}}
        ],
        "users": [{"name": user, "user": credentials}],
        "contexts": [{"name": "rig", "context": {"cluster": "rig", "user": user}}],
        "current-context": "rig",
    }
    return json.dumps(config)
