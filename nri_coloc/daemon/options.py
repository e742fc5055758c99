"""What the command line and the environment order; flags beat the file."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from nri_coloc.errors import SettingsError
from nri_coloc.model.tuning import Settings

DEFAULT_STATE_DIR = "/var/lib/nri-coloc"
DEFAULT_ADMIN_SOCKET = "/run/nri-coloc/admin.sock"


@dataclass(frozen=True, slots=True)
class Launched:
    """The runtime started us: the socket is an open descriptor, name and index are its own."""

    fd: int
    name: str
    index: str


def launched(environment: Mapping[str, str]) -> Launched | None:
    """Read what the runtime leaves in the environment of a plugin that it launches (nri-protocol §3.2)."""
    text = environment.get("NRI_PLUGIN_SOCKET", "")
    if not text:
        return None
    if not text.isascii() or not text.isdigit():
        raise SettingsError(f"NRI_PLUGIN_SOCKET={text!r} is not the number of an open descriptor")
    name, index = environment.get("NRI_PLUGIN_NAME", "nri-coloc"), environment.get("NRI_PLUGIN_IDX", "50")
    return Launched(int(text), name, index)


@dataclass(frozen=True, slots=True)
class Options:
    """Empty means that the flag was not given."""

    config: str = ""
    nri_socket: str = ""
    cri_socket: str = ""
    host_root: str = "/"
    state_dir: str = DEFAULT_STATE_DIR
    admin_socket: str = DEFAULT_ADMIN_SOCKET
    http: str = ""
    observe: bool = False
    launched: Launched | None = None

    def over(self, settings: Settings) -> Settings:
        """Lay the flags over what a file said."""
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
