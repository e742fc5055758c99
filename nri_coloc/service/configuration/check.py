"""Report for `nri-coloc check-config FILE`: the effective configuration, or all problems of the file."""

from pathlib import Path
from typing import Final

import yaml

from nri_coloc.core.settings import Settings
from nri_coloc.errors import SettingsError
from nri_coloc.service.configuration import loading

VALID: Final = 0
INVALID: Final = 2


def report(path: str | Path) -> tuple[int, str, Settings | None]:
    """Return the exit code, the text, and the settings of a valid file.

    The text is YAML with all defaults filled in (stdout), or problems (stderr). The file may be a pipe.
    """
    try:
        text = loading.text_of(path, once=True)
        file = loading.parse(text, str(path))
        settings = loading.settings_of(file)
    except SettingsError as error:
        return INVALID, str(error) + "\n", None
    plain = file.model_dump(mode="json", by_alias=True)
    return VALID, yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=1000), settings
