"""Run the companion: `nri-coloc cluster`, in a pod of its own beside the daemon's."""

import argparse
import signal
from collections.abc import Mapping
from threading import Thread
from typing import Any, Final

from nri_coloc.cli.exit_codes import DONE
from nri_coloc.errors import SettingsError

DEFAULT_SOCKET: Final = "/run/nri-coloc-cluster/cluster.sock"


def run(options: argparse.Namespace, environment: Mapping[str, str]) -> int:
    """Report until SIGTERM or SIGINT; return the exit code."""
    from importlib.metadata import version

    from nri_coloc.kubernetes import api
    from nri_coloc.kubernetes.companion import Companion, Own
    from nri_coloc.service import logs
    from nri_coloc.service.monitor import serve

    node = options.node or environment.get("NODE_NAME", "")
    if not node:
        raise SettingsError("no node: name it with --node, or NODE_NAME in the environment (spec.nodeName)")
    logs.configure("info")
    api_server = api.connect(options.kubeconfig)
    own = Own(node, version("nri-coloc"))
    companion = Companion(api_server, options.socket or DEFAULT_SOCKET, own, log=logs.logger("companion"))
    _stop_at_signals(companion)
    server = serve(options.http, companion.problem, logs.logger("companion").warning)
    try:
        companion.run()
    finally:
        if server is not None:
            server.close()
    return DONE


def _stop_at_signals(companion: Any) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        # a handler that sets an Event itself can wait for ever for the main thread, which it interrupts
        signal.signal(number, lambda *_: Thread(target=companion.stop).start())
