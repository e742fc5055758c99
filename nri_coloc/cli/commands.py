"""The commands: the arguments of each, and a function for each, which returns the exit code.

Commands import what they need when they run: `check-config` needs no gRPC, the daemon no terminal drawing.
"""

import argparse
import gc
import importlib.util
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from nri_coloc.cli.exit_codes import DONE, WRONG_USAGE
from nri_coloc.core import cpuset
from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.durations import seconds
from nri_coloc.core.settings import Settings
from nri_coloc.errors import ColocError, SettingsError

if TYPE_CHECKING:
    from nri_coloc.restore.restoration import RuntimeAt

DAEMON = "127.0.0.1:9744"
"""The default address of the daemon's HTTP interface."""

ASKED = f"address of this node's daemon, the --http of its `run` ({DAEMON}); a command on the node reaches it"

SIMULATED_NODE = "nri_coloc.sim"
"""The package that the demo needs; an image has none (deploy/Dockerfile)."""


class DemoMissing(ColocError):
    """The simulated node is not installed."""


def run(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run one command and return its exit code; the command's errors are raised."""
    try:
        options = _parser().parse_args(arguments)
        return int(options.command(options, environment))
    except SystemExit as stop:
        return WRONG_USAGE if stop.code not in (0, None) else DONE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="nri-coloc", description="Online and offline pods on one machine.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, text, add_arguments in (
        ("run", "serve the container runtime (the daemon)", _run_arguments),
        ("demo", "play a day on a simulated node, with the real daemon", _demo_arguments),
        ("check-config", "print the effective configuration, or its mistakes", _check_config_arguments),
        ("cluster", "report this node's lent amounts to Kubernetes (the companion)", _cluster_arguments),
        ("restore", "restore the original values of everything that the daemon changed", _restore_arguments),
        ("audit", "print the daemon's last decisions", _audit_arguments),
        ("top", "show CPUs by owner, lent CPUs and decisions, as they happen", _top_arguments),
        ("topology", "draw the machine: sockets, nodes, cores, threads", _topology_arguments),
        ("explain", "print where a pod's containers run, and why", _explain_arguments),
        ("doctor", "check that this machine meets the daemon's requirements", _doctor_arguments),
        ("admin", "change what the daemon does, over its admin socket (as root)", _admin_arguments),
        ("controller", "correct silent nodes and evict pods (once in a cluster)", _controller_arguments),
    ):
        add_arguments(commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}."))
    return parser


def _demo_arguments(demo: argparse.ArgumentParser) -> None:
    demo.add_argument(
        "--seconds", type=_positive, default=30, metavar="N", help="duration of the day in seconds (30)"
    )
    demo.add_argument("--topology", default="8cpu", metavar="NAME", help="the simulated machine (8cpu)")
    demo.set_defaults(command=_demo)


def _check_config_arguments(check: argparse.ArgumentParser) -> None:
    check.add_argument("file", metavar="FILE")
    check.set_defaults(command=_check_config)


def _audit_arguments(audit: argparse.ArgumentParser) -> None:
    audit.add_argument("--http", default=DAEMON, metavar="ADDR:PORT", help=ASKED)
    audit.add_argument(
        "--pod", type=_text, default="", metavar="[NAMESPACE/]NAME", help="decisions about this pod alone"
    )
    audit.add_argument("--limit", type=_positive, default=100, metavar="N", help="decisions at most (100)")
    audit.set_defaults(command=_audit)


def _top_arguments(top: argparse.ArgumentParser) -> None:
    top.add_argument("--http", default=DAEMON, metavar="ADDR:PORT", help=ASKED)
    top.add_argument(
        "--interval", type=_positive, default=1, metavar="SECONDS", help="seconds between two pictures (1)"
    )
    top.set_defaults(command=_top)


def _topology_arguments(topology: argparse.ArgumentParser) -> None:
    topology.add_argument(
        "--host-root",
        default="/",
        metavar="DIR",
        help="draw the machine below DIR: prefix of /sys and /proc (/, the machine that this command runs on)",
    )
    topology.add_argument("-o", "--output", choices=("text", "json"), default="text")
    topology.add_argument(
        "--http", default="", metavar="ADDR:PORT", help="ask this daemon for the containers on each CPU"
    )
    topology.set_defaults(command=_topology)


def _explain_arguments(explain: argparse.ArgumentParser) -> None:
    explain.description = (
        "Print for each container of a pod its CPUs, the decision that placed it, the memory nodes that were weighed, "
        "and the annotations that do not count. Run it on the pod's node."
    )
    explain.add_argument(
        "pod",
        type=_text,
        metavar="NAMESPACE/POD[/CONTAINER]",
        help="names as kubectl shows them, such as shop/web, or shop/web/app for one container",
    )
    explain.add_argument("--http", default=DAEMON, metavar="ADDR:PORT", help=ASKED)
    explain.set_defaults(command=_explain)


def _controller_arguments(controller: argparse.ArgumentParser) -> None:
    controller.add_argument(
        "--config", default="", metavar="FILE", help="the daemons' configuration file; defaults without it"
    )
    controller.add_argument(
        "--kubeconfig", default="", metavar="FILE", help="credentials; the pod's service account without it"
    )
    controller.add_argument(
        "--http",
        default="127.0.0.1:9745",
        metavar="ADDR:PORT|off",
        help="address of its probes and metrics (127.0.0.1:9745)",
    )
    controller.set_defaults(command=_controller)


def _run_arguments(run: argparse.ArgumentParser) -> None:
    run.add_argument("--config", default="", metavar="FILE", help="configuration file; defaults without it")
    run.add_argument("--nri-socket", default="", metavar="PATH")
    run.add_argument("--cri-socket", type=_text, default="", metavar="PATH")
    run.add_argument("--host-root", default="/", metavar="DIR", help="prefix of every /sys and /proc path")
    run.add_argument("--state-dir", default="", metavar="DIR")
    run.add_argument("--admin-socket", type=_text, default="", metavar="PATH")
    run.add_argument("--cluster-socket", type=_text, default="", metavar="PATH")
    run.add_argument(
        "--http",
        default="",
        metavar="ADDR:PORT|off",
        help=f"address of probes, metrics, state and page; as configured, or {DAEMON}, without it",
    )
    run.add_argument("--observe", action="store_true", help="decide and record, change nothing")
    run.set_defaults(command=_run)


def _cluster_arguments(cluster: argparse.ArgumentParser) -> None:
    cluster.add_argument("--node", type=_text, default="", metavar="NAME", help="this node ($NODE_NAME)")
    cluster.add_argument(
        "--socket", type=_text, default="", metavar="PATH", help="the daemon's socket for the companion"
    )
    cluster.add_argument(
        "--kubeconfig", default="", metavar="FILE", help="credentials; the pod's service account without it"
    )
    cluster.add_argument("--http", default="off", metavar="ADDR:PORT|off", help="address of its probes (off)")
    cluster.set_defaults(command=_cluster)


def _restore_arguments(restore: argparse.ArgumentParser) -> None:
    restore.add_argument(
        "--config",
        default="",
        metavar="FILE",
        help="the daemon's configuration file, for the runtime's sockets",
    )
    restore.add_argument("--nri-socket", default="", metavar="PATH")
    restore.add_argument("--cri-socket", type=_text, default="", metavar="PATH")
    restore.add_argument("--state-dir", default="", metavar="DIR")
    restore.add_argument("--host-root", default="/", metavar="DIR", help="prefix of /sys and /proc")
    restore.add_argument(
        "--files-only", action="store_true", help="leave the runtime's specs of containers as they are"
    )
    restore.set_defaults(command=_restore)


def _doctor_arguments(doctor: argparse.ArgumentParser) -> None:
    doctor.add_argument("--nri-socket", default="", metavar="PATH")
    doctor.add_argument("--cri-socket", type=_text, default="", metavar="PATH")
    doctor.add_argument(
        "--host-root", default="/", metavar="DIR", help="prefix of /sys, /proc and /var/lib/kubelet"
    )
    doctor.add_argument("--state-dir", default="", metavar="DIR")
    doctor.add_argument("--http", default=DAEMON, metavar="ADDR:PORT", help=ASKED)
    doctor.set_defaults(command=_doctor)


def _admin_arguments(admin: argparse.ArgumentParser) -> None:
    orders = admin.add_subparsers(required=True, metavar="ORDER", dest="order")
    pause = orders.add_parser(
        "pause", help="shrink the reclaim pool to its floor and offer nothing, for a time"
    )
    pause.add_argument("seconds", type=_positive, metavar="SECONDS", help="at most 86400")
    pause.add_argument("--reason", type=_text, default="", metavar="TEXT", help="for the audit")
    orders.add_parser("resume", help="end a pause before its time")
    lending = orders.add_parser("lending", help="switch lending off and on again, also over restarts")
    positions = lending.add_subparsers(required=True, metavar="off|on", dest="position")
    off = positions.add_parser("off", help="lend nothing and offer nothing; running pods go on")
    off.add_argument(
        "--drain",
        action="store_true",
        help="list the reclaimed pods that must leave; exit code 1 while one runs",
    )
    off.add_argument(
        "--grace",
        type=_duration,
        metavar="DURATION",
        help="time until then, such as 10m (with --drain schedule.grace, otherwise 0)",
    )
    on = positions.add_parser("on", help="lend by the schedule again")
    orders.add_parser("reload", help="read the configuration file now")
    orders.add_parser("repair", help="check every cgroup now, and repair drift")
    evict = orders.add_parser("evict", help="evict a reclaimed pod of this node; PodDisruptionBudgets hold")
    evict.add_argument("pod", type=_namespaced, metavar="NAMESPACE/POD")
    evict.add_argument("--reason", type=_text, required=True, metavar="TEXT", help="for the audit")
    orders.add_parser("compare", help="compare the runtime's list with CRI's list, now")
    for order in (*(each for each in orders.choices.values() if each is not lending), off, on):
        order.add_argument("--admin-socket", type=_text, default="", metavar="PATH")
    admin.set_defaults(command=_admin)


def _namespaced(text: str) -> str:
    namespace, slash, name = text.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAMESPACE/POD")
    return _text(text)


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 9 or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)


def _duration(text: str) -> int:
    try:
        return seconds(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error}; write 10m, 1h30m, 90s or 0, at most 24h") from error


def _text(argument: str) -> str:
    """Return the text; refuse undecodable bytes, which other programs cannot read. A path may be any bytes."""
    try:
        argument.encode()
    except UnicodeEncodeError as error:
        shown = os.fsencode(argument).decode(errors="backslashreplace")
        raise argparse.ArgumentTypeError(f"{shown} is not text in UTF-8") from error
    return argument


def _run(options: argparse.Namespace, environment: Mapping[str, str]) -> int:
    # until the daemon handles its signals: its construction takes half a second, and a pod may end meanwhile
    former = signal.signal(signal.SIGTERM, _end_well)
    try:
        return _served(options, environment)
    finally:
        if signal.getsignal(signal.SIGTERM) is _end_well:
            signal.signal(signal.SIGTERM, former)


def _end_well(_number: int, _frame: object) -> None:
    sys.exit(DONE)


def _served(options: argparse.Namespace, environment: Mapping[str, str]) -> int:
    gc.disable()  # loading makes many objects and hardly any garbage: to look for it took a fifth of the time
    try:
        from nri_coloc.service import options as daemon_options
        from nri_coloc.service import runner
    finally:
        gc.enable()

    return runner.run(
        daemon_options.Options(
            config=options.config,
            nri_socket=options.nri_socket,
            cri_socket=options.cri_socket,
            host_root=options.host_root,
            state_dir=options.state_dir or daemon_options.DEFAULT_STATE_DIR,
            admin_socket=options.admin_socket or daemon_options.DEFAULT_ADMIN_SOCKET,
            cluster_socket=options.cluster_socket or daemon_options.DEFAULT_CLUSTER_SOCKET,
            http=options.http,
            observe=options.observe,
            launched=daemon_options.launched(environment),
        )
    )


def _cluster(options: argparse.Namespace, environment: Mapping[str, str]) -> int:
    from nri_coloc.cli import cluster

    return cluster.run(options, environment)


def _demo(options: argparse.Namespace, _environment: Mapping[str, str]) -> int:
    if importlib.util.find_spec(SIMULATED_NODE) is None:
        raise DemoMissing("the demo is not part of this image: run `make run` in the project's folder")
    from nri_coloc.cli import demo

    return int(demo.run(options.seconds, options.topology))


def _check_config(options: argparse.Namespace, _environment: Mapping[str, str]) -> int:
    from nri_coloc.service.configuration import check
    from nri_coloc.service.remarks import remarks

    code, text, settings = check.report(options.file)
    print(text.rstrip("\n"), file=sys.stdout if code == DONE else sys.stderr)
    for remark in remarks(settings) if settings else ():
        print(f"{options.file}: {remark}", file=sys.stderr)
    return code


def _restore(options: argparse.Namespace, _environment: Mapping[str, str]) -> int:
    from nri_coloc.cli import restore
    from nri_coloc.service.options import DEFAULT_STATE_DIR

    runtime = None if options.files_only else _runtime_at(options)
    if runtime and not (options.nri_socket or options.config) and restore.is_absent(runtime):
        runtime = None
    return restore.run(options.state_dir or DEFAULT_STATE_DIR, options.host_root, runtime)


def _runtime_at(options: argparse.Namespace) -> "RuntimeAt":
    from nri_coloc.restore.restoration import RuntimeAt

    settings = Settings()
    if options.config:
        from nri_coloc.service.configuration import loading as reader

        settings = reader.read(options.config)
    return RuntimeAt(
        options.nri_socket or settings.nri_socket,
        options.cri_socket or settings.cri_socket,
        settings.plugin_name,
    )


def _audit(options: argparse.Namespace, _environment: Mapping[str, str]) -> int:
    from nri_coloc.cli import asking

    if options.pod:
        of_pod = asking.records_of_pod(options.http, options.pod)
        with asking.understood(options.http):
            found = [*of_pod.older, *of_pod.records]
    else:
        found = asking.records(options.http)
    for record in found[-options.limit :]:
        print(json.dumps(record))
    return DONE


def _top(options: argparse.Namespace, _environment: Mapping[str, str]) -> int:
    from nri_coloc.cli import top

    return top.run(options.http, options.interval)


def _topology(options: argparse.Namespace, _environment: Mapping[str, str]) -> int:
    from nri_coloc.cli import topology
    from nri_coloc.host import sysfs as machine

    found = machine.read(options.host_root)
    whose = _owners(options.http, found.online) if options.http else {}
    if options.output == "json":
        named = {"owners": {name: cpuset.render(cpus) for name, cpus in whose.items()}} if whose else {}
        print(json.dumps({"root": options.host_root, **topology.as_json(found), **named}, indent=2))
    else:
        print(f"{topology.read_from(options.host_root)}\n{topology.draw(found, whose)}")
    return DONE


def _owners(address: str, online: CPUMask) -> dict[str, CPUMask]:
    """Return the owners of CPUs that a daemon names, if it runs on the machine with these CPUs."""
    from nri_coloc.cli import asking, topology

    state = asking.ask(address, "/v1/state")
    topology.check_machine(state, online)
    return topology.owners(state)


def _explain(options: argparse.Namespace, _environment: Mapping[str, str]) -> int:
    from nri_coloc.cli import explain

    return explain.run(options.http, options.pod)


def _doctor(options: argparse.Namespace, _environment: Mapping[str, str]) -> int:
    from nri_coloc.cli import doctor
    from nri_coloc.service.options import DEFAULT_STATE_DIR

    defaults = Settings()
    return doctor.run(
        doctor.Patient(
            nri_socket=options.nri_socket or defaults.nri_socket,
            cri_socket=options.cri_socket or defaults.cri_socket,
            host_root=options.host_root,
            state_dir=options.state_dir or DEFAULT_STATE_DIR,
            http=options.http,
        )
    )


def _admin(options: argparse.Namespace, _environment: Mapping[str, str]) -> int:
    from nri_coloc.service.options import DEFAULT_ADMIN_SOCKET
    from nri_coloc.service.orders import LONGEST_PAUSE_S

    path = options.admin_socket or DEFAULT_ADMIN_SOCKET
    if options.order == "pause" and options.seconds > LONGEST_PAUSE_S:
        raise SettingsError(f"a pause lasts {LONGEST_PAUSE_S} seconds at most")
    from nri_coloc.cli import admin

    if options.order == "pause":
        return admin.pause(path, options.seconds, options.reason)
    if options.order == "lending":
        if options.position == "on":
            return admin.lending_on(path)
        return admin.lending_off(path, options.grace, drain=options.drain)
    if options.order == "evict":
        return admin.evict(path, options.pod, options.reason)
    orders = {
        "resume": admin.resume,
        "reload": admin.reload,
        "repair": admin.repair,
        "compare": admin.compare,
    }
    return orders[options.order](path)


def _controller(options: argparse.Namespace, _environment: Mapping[str, str]) -> int:
    from nri_coloc.cli import controller

    return controller.run(options.config, options.kubeconfig, options.http)
