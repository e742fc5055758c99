"""Keys of an API server, and the files with which its clients find it."""

import json
from pathlib import Path

from tests.rig import commands
from tests.rig.waiting import PATIENCE_SECONDS


def write_account_keys(folder: Path) -> None:
    """Write `accounts.key`, with which an API server signs service accounts' tokens, and its public part."""
    key, public = folder / "accounts.key", folder / "accounts.pub"
    for command in (
        ["openssl", "genrsa", "-out", str(key), "2048"],
        ["openssl", "rsa", "-in", str(key), "-pubout", "-out", str(public)],
    ):
        commands.output(command, seconds=PATIENCE_SECONDS)


def kubeconfig(server: str, certificate: Path, user: str, token: str) -> str:
    """Return the text of a kubeconfig with a bearer token. `certificate`: file with the server's authority."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "rig", "cluster": {"server": server, "certificate-authority": str(certificate)}}
        ],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": "rig", "context": {"cluster": "rig", "user": user}}],
        "current-context": "rig",
    }
    return json.dumps(config)
