"""An API server with our manifests for the benchmarks, and the costs of it and of the programs that call it."""

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.cluster.api import kit
from tests.cluster.api_server import ApiServer
from tests.cluster.binaries import PAIRS, in_time

OUR_KINDS: Final = "nodes|pods|colocationnodes|events"
TICKS: Final = os.sysconf("SC_CLK_TCK")


@contextmanager
def served() -> Iterator[ApiServer]:
    """Run etcd and the newest API server whose programs are cached."""
    found = ApiServer((in_time() or PAIRS)[-1].kubernetes, Path(tempfile.mkdtemp(prefix="api-server-")))
    try:
        found.start()
        kit.apply(found)
        yield found
    finally:
        found.stop()


def cpu_s(pid: int) -> float:
    """Return the CPU time of a process, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def server_cpu_s(server: ApiServer) -> float:
    """Return the CPU time of API server and etcd, in seconds."""
    return sum(map(cpu_s, server.pids))


def requests(server: ApiServer) -> int:
    """Return the number of answered requests of the companion's kinds. A watch counts when it ends."""
    return _sum(server, rf'apiserver_request_total\{{.*resource="({OUR_KINDS})".*verb="(PATCH|POST|WATCH)"')


def watches(server: ApiServer) -> int:
    """Return the number of open watches of nodes and pods."""
    return _sum(server, r'apiserver_longrunning_requests\{.*resource="(nodes|pods)".*verb="WATCH"')


def _sum(server: ApiServer, series: str) -> int:
    """Return the sum of the API server's metrics that begin as a pattern says."""
    lines = server.kubectl("get", "--raw=/metrics").splitlines()
    return sum(int(float(line.rpartition(" ")[2])) for line in lines if re.match(series, line))
