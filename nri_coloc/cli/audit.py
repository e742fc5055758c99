"""`nri-coloc audit`: the daemon's last decisions, one line each, from its own `/v1/audit`."""

import json
import sys
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen


def run(address: str, pod: str, limit: int) -> int:
    """Print records oldest first; 1 if the daemon cannot be asked."""
    query = urlencode({"pod": pod, "limit": limit})
    try:
        with urlopen(f"http://{address}/v1/audit?{query}", timeout=5) as answer:
            records = json.load(answer)["records"]
    except (URLError, OSError, ValueError, KeyError) as error:
        print(f"nri-coloc: cannot ask the daemon at {address}: {error}", file=sys.stderr)
        return 1
    for record in records:
        print(json.dumps(record))
    return 0
