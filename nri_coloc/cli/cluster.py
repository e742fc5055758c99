"""Run the companion: `nri-coloc cluster`, in a pod of its own beside the daemon's."""

import argparse
from collections.abc import Mapping
from typing import Final

from nri_coloc.cli.exit_codes import DONE
from nri_coloc.cli.stop_signals import stop_at_signals
from nri_coloc.errors import SettingsError

DEFAULT_SOCKET: Final = "/run/nri-coloc-cluster/cluster.sock"


def run(options: argparse.Namespace, environment: Mapping[str, str]) -> int:
    """Report until SIGTERM or SIGINT; return the exit code."""
    from importlib.metadata import version

    from nri_coloc.kubernetes import api
    from nri_coloc.kubernetes.companion import Companion, Own
    from nri_coloc.service import logs
    from nri_coloc.service.monitor import served

    node = options.node or environment.get("NODE_NAME", "")
    if not node:
        raise SettingsError("no node: name it with --node, or NODE_NAME in the environment (spec.nodeName)")
    logs.configure("info")
    api_server = api.connect(options.kubeconfig)
    own = Own(node, version("nri-coloc"))
    companion = Companion(api_server, options.socket or DEFAULT_SOCKET, own, log=logs.logger("companion"))
    stop_at_signals(companion.stop)
    with served(options.http, companion.problem, logs.logger("companion").warning):
        companion.run()
    return DONE
