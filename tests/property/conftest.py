"""How properties are tried: without a clock, and in CI always with the same examples."""

import os

from hypothesis import settings

settings.register_profile("nri-coloc", deadline=None, derandomize=os.environ.get("CI") == "true")
settings.load_profile("nri-coloc")
