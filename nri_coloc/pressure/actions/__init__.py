"""The actions, one file each.

`ACTIONS` has the actions on culprits, one at most for each resource; `loop` has them carried out. `degrade_cpu` limits
online containers, so it is not in that table: `degrader` has it carried out. CONTRIBUTING lists the files that a new
action needs.
"""

from collections.abc import Mapping
from typing import Final

from nri_coloc.pressure.action import Action
from nri_coloc.pressure.actions import throttle_io
from nri_coloc.pressure.verdict import Resource

ACTIONS: Final[Mapping[Resource, Action]] = {each.resource: each for each in (throttle_io.ACTION,)}
