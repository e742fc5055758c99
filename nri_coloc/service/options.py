"""Read the orders of the command line and the environment; flags replace values of the file."""

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from nri_coloc.core import endpoint
from nri_coloc.core.settings import Settings
from nri_coloc.errors import SettingsError

DEFAULT_STATE_DIR = "/var/lib/nri-coloc"
DEFAULT_ADMIN_SOCKET = "/run/nri-coloc/admin.sock"
DEFAULT_CLUSTER_SOCKET = "/run/nri-coloc-cluster/cluster.sock"

LONGEST_SOCKET: Final = 107
"""Bytes. sockaddr_un.sun_path has 108 with its end (unix(7))."""

LONGEST_ADMIN_SOCKET: Final = LONGEST_SOCKET - 1
"""Bytes. A second socket is beside it for a while, with a name longer by one character (`service.admin_gate`)."""


@dataclass(frozen=True, slots=True)
class Launched:
    """The start of this plugin by the runtime.

    fd: open descriptor of the socket.
    name, index: the plugin's, from the runtime.
    """

    fd: int
    name: str
    index: str


def launched(environment: Mapping[str, str]) -> Launched | None:
    """Return the start by the runtime from a launched plugin's environment (nri-protocol §3.2); None without it."""
    text = environment.get("NRI_PLUGIN_SOCKET", "")
    if not text:
        return None
    if not _is_open_socket(text):
        raise SettingsError(f"NRI_PLUGIN_SOCKET={text[:80]!r} is not the number of an open socket")
    name, index = environment.get("NRI_PLUGIN_NAME", ""), environment.get("NRI_PLUGIN_IDX", "")
    # the runtime uses the name of our file, not the name that we send; exiting here could stop its CRI
    own = Settings()
    return Launched(
        int(text),
        name if re.fullmatch(r"[A-Za-z0-9._+-]+", name) else own.plugin_name,
        index if re.fullmatch(r"[0-9]{2}", index) else own.plugin_index,
    )


def _is_open_socket(text: str) -> bool:
    try:
        return text.isascii() and text.isdigit() and stat.S_ISSOCK(os.fstat(int(text)).st_mode)
    except (OSError, OverflowError, ValueError):
        return False


@dataclass(frozen=True, slots=True)
class Options:
    """Options of the command line. "" means that the flag was not given."""

    config: str = ""
    nri_socket: str = ""
    cri_socket: str = ""
    host_root: str = "/"
    state_dir: str = DEFAULT_STATE_DIR
    admin_socket: str = DEFAULT_ADMIN_SOCKET
    cluster_socket: str = DEFAULT_CLUSTER_SOCKET
    http: str = ""
    observe: bool = False
    launched: Launched | None = None

    def over(self, settings: Settings) -> Settings:
        """Return the settings with the flags applied; raise SettingsError for a flag that can never work."""
        self._check()
        tuning = replace(settings.tuning, observe=True) if self.observe else settings.tuning
        return replace(
            settings,
            tuning=tuning,
            nri_socket=self.nri_socket or settings.nri_socket,
            cri_socket=self.cri_socket or settings.cri_socket,
            http=self.http or settings.http,
            plugin_name=self.launched.name if self.launched else settings.plugin_name,
            plugin_index=self.launched.index if self.launched else settings.plugin_index,
        )

    def _check(self) -> None:
        sockets = (
            ("--nri-socket", self.nri_socket, LONGEST_SOCKET),
            ("--cri-socket", self.cri_socket, LONGEST_SOCKET),
            ("--admin-socket", self.admin_socket, LONGEST_ADMIN_SOCKET),
            ("--cluster-socket", self.cluster_socket, LONGEST_SOCKET),
        )
        for flag, path, longest in sockets:
            if len(os.fsencode(path)) > longest:
                raise SettingsError(f"{flag} {path[:40]}…: a socket's path has at most {longest} bytes")
        try:
            if self.http not in ("", "off"):
                endpoint.split(self.http)
        except ValueError as error:
            raise SettingsError(f"--http: {error}; allowed: {endpoint.OR_OFF}") from error
