"""The command `nri-coloc controller`: its configuration, its HTTP port, and the signals that end it."""

import secrets
import socket
import time
from collections.abc import Callable
from functools import partial
from threading import Event, Lock
from typing import Final

from prometheus_client import generate_latest

from nri_coloc.cli.exit_codes import DONE
from nri_coloc.cli.stop_signals import stop_at_signals
from nri_coloc.core.settings import Settings
from nri_coloc.errors import SettingsError
from nri_coloc.kubernetes import api
from nri_coloc.kubernetes.controller import Controller
from nri_coloc.kubernetes.eviction import Rules
from nri_coloc.kubernetes.presets import Preset
from nri_coloc.service import logs, monitor
from nri_coloc.service.configuration import loading

LOOK_S: Final = 5.0
"""Seconds between two looks at the configuration file."""


class Configuration:
    """The daemons' configuration file, read again when it changes. A file with a mistake changes nothing."""

    def __init__(self, path: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._lock = Lock()
        self._text = loading.text_of(path) if path else ""
        self._settings = loading.load(self._text, path) if path else Settings()
        self._looked_s = clock()
        self._problem = ""

    def settings(self) -> Settings:
        """Return the newest valid settings."""
        with self._lock:
            now_s = self._clock()
            if self._path and now_s - self._looked_s >= LOOK_S:
                self._looked_s = now_s
                self._look()
            return self._settings

    def rules(self) -> Rules:
        """Return the settings that eviction orders depend on."""
        found = self.settings()
        return Rules(may_evict=found.kubernetes.evict, tuning=found.tuning)

    def preset(self) -> Preset:
        """Return the names of the lent amounts."""
        found = self.settings().kubernetes
        return Preset(found.cpu_resource, found.memory_resource)

    def _look(self) -> None:
        try:
            text = loading.text_of(self._path)
            if text != self._text:
                self._text = text
                self._settings = loading.load(text, self._path)
                logs.logger("controller").info("configuration read again", file=self._path)
            self._problem = ""
        except SettingsError as error:
            if str(error) != self._problem:
                self._problem = str(error)
                logs.logger("controller").warning(
                    "configuration not used; the former one holds", because=self._problem
                )


def run(config: str, kubeconfig: str, http: str) -> int:
    """Run a replica of the controller until SIGTERM or SIGINT; return the exit code."""
    configuration = Configuration(config)
    logs.configure(configuration.settings().log_level)
    controller = Controller(
        api.connect(kubeconfig),
        identity=f"{socket.gethostname()}_{secrets.token_hex(4)}",
        rules=configuration.rules,
        preset=configuration.preset,
        log=logs.logger("controller"),
    )
    stop = Event()
    stop_at_signals(stop.set)
    report = logs.logger("controller").warning
    metrics = partial(generate_latest, controller.registry)
    with monitor.served(http, controller.problem, report, metrics):
        controller.run(stop)
    return DONE
