"""One calm moment of a node with eight CPUs, for decisions on the size of the reclaim pool."""

from nri_coloc.lending.pool_size import Lent, Scene
from nri_coloc.lending.usage import Stall

NOW = 100.0

CALM = Scene(
    now=NOW,
    lendable=8,
    threads=1,
    measured=True,
    online=2_000,
    system=500,
    peak=3_000,
    dwell_s=1.0,
    known_since=0.0,
    age_s=0.0,
    late_s=0.0,
    period_s=0.02,
    stall=Stall(),
)
"""8 CPUs: 5500m are free now, 5000m were at all times."""

FULL = Lent(milli=5_000, cpus=5, cut_at=0.0, grown_at=0.0, hold_s=1.0)
"""All of it is lent."""
