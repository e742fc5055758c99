"""`nri-coloc audit`: the daemon's last decisions, one line each, from its own `/v1/audit`."""

import json

from nri_coloc.cli import asking


def run(address: str, pod: str, limit: int) -> int:
    """Print the newest records, oldest first; raise ColocError if the daemon does not answer."""
    for record in asking.records(address, pod)[-limit:]:
        print(json.dumps(record))
    return 0
