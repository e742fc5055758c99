"""The online pod: nginx from the distribution's packages, which compresses each requested file.

The libraries are the machine's own, mounted into the container. There are enough files for a working set in the page
cache, and each request is written to a log, as servers do.
"""

import os
import random
from pathlib import Path
from typing import Final

from benchmarks.colocation import kubelet
from tests.rig import RigError, cgroups, packages, workloads
from tests.rig.cri import Cri
from tests.rig.lane import free_port
from tests.rig.packages import Wanted
from tests.rig.waiting import poll
from tests.rig.workloads import Workload

FILES: Final = 4000
FILE_BYTES: Final = 12 << 10
PROCESSES: Final = len(cgroups.online())
REQUEST_SHARES: Final = 1024 * PROCESSES // 2
"""It asks for half the node, as an author does after planning for the peak."""

BORROWED: Final = ("/lib", "/lib64", "/usr/lib", "/etc/group")
_WORDS: Final = 400
_CONFIGURATION: Final = """\
daemon off;
user root;
worker_processes {processes};
error_log stderr warn;
pid /tmp/nginx.pid;
events {{ worker_connections 1024; }}
http {{
    access_log /tmp/access.log;
    client_body_temp_path /tmp/body;
    proxy_temp_path /tmp/proxy;
    fastcgi_temp_path /tmp/fastcgi;
    uwsgi_temp_path /tmp/uwsgi;
    scgi_temp_path /tmp/scgi;
    default_type text/plain;
    gzip on;
    gzip_types *;
    {direct}
    gzip_comp_level 6;
    keepalive_requests 1000000000;
    keepalive_timeout 3600;
    server {{
        listen 127.0.0.1:{port} reuseport;
        root /www;
        add_header X-Worker $pid;
    }}
}}
"""

_DIRECT: Final = f"directio {FILE_BYTES}; directio_alignment 4k; output_buffers 2 4k;"
"""With larger buffers than the file nginx reads it through the page cache (`ngx_output_chain_align_file_buf`)."""


class Server:
    """Run an nginx; `folder` is empty at first and must stay while it runs.

    direct: whether it reads half of its files past the page cache; the other half is smaller then.
    """

    def __init__(self, cri: Cri, folder: Path, *, direct: bool = False) -> None:
        self.port = free_port()
        nginx = packages.unpacked_as("nginx", Wanted("nginx", ("",), known="1.22.1"))
        self.version = nginx.version
        configuration = folder / "nginx.conf"
        text = _CONFIGURATION.format(processes=PROCESSES, port=self.port, direct=_DIRECT if direct else "")
        configuration.write_text(text)
        _write_files(folder / "www", smaller=direct)
        mounts = {
            **{path: Path(path) for path in BORROWED if Path(path).exists()},
            "/usr/sbin/nginx": nginx.program("nginx"),
            "/etc/nginx.conf": configuration,
            "/www": folder / "www",
        }
        command = ("/usr/sbin/nginx", "-p", "/tmp", "-c", "/etc/nginx.conf", "-e", "stderr")
        pod = cri.run_pod("online", annotations={workloads.QOS: "shared"})
        kubelet.weigh(pod.cgroup, REQUEST_SHARES)
        container = cri.create_container(
            pod, "nginx", command=command, mounts=mounts, shares=REQUEST_SHARES, oom=900
        )
        self.workload = Workload(cri, pod, container).start()
        if not poll(lambda: len(self.processes()) > PROCESSES, 10):
            log = Path(cri.status(container).status.log_path)
            raise RigError(f"nginx did not come up: {log.read_text() if log.exists() else 'no word of it'}")

    def processes(self) -> frozenset[int]:
        """Return the server's processes."""
        return cgroups.pids(self.workload.cgroup)


def _write_files(folder: Path, *, smaller: bool) -> None:
    """Write texts that compress as usual texts do, and drop them from the page cache.

    So a process that reads them pays.

    smaller: halve every second text.
    """
    folder.mkdir()
    draw = random.Random(0)
    words = ["".join(draw.choices("etaoinshrdlu", k=draw.randint(2, 9))) for _ in range(_WORDS)]
    for number in range(FILES):
        size = FILE_BYTES // 2 if smaller and number % 2 else FILE_BYTES
        text = " ".join(draw.choices(words, k=FILE_BYTES // 4))[:size]
        with (folder / str(number)).open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
