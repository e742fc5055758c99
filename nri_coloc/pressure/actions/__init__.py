"""The actions, one file each. A new action is a new file and its line in `ACTIONS`."""

from collections.abc import Mapping
from typing import Final

from nri_coloc.pressure.action import Action
from nri_coloc.pressure.actions import throttle_io
from nri_coloc.pressure.verdict import Resource

ACTIONS: Final[Mapping[Resource, Action]] = {each.resource: each for each in (throttle_io.ACTION,)}
