"""Manifests judged by the schemas of Kubernetes releases."""

from typing import Any, Final

import kubernetes_validate

RELEASES: Final = ["1.27", "1.30", "1.33", "1.37"]


def refusals(document: dict[str, Any], release: str) -> list[str]:
    """Return the reason for which the release's strict schema refuses a document; empty: it fits."""
    try:
        kubernetes_validate.validate(document, release, strict=True)
    except kubernetes_validate.ValidationError as error:
        return [str(error.message)]
    return []
