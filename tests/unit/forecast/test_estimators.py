"""Each estimator gives the amount that its evidence shows; a table names all estimators."""

import pytest

from nri_coloc.core.settings import ForecastTuning
from nri_coloc.forecast import estimators, histogram, hours
from nri_coloc.forecast.estimators import ESTIMATORS, Evidence
from nri_coloc.forecast.histogram import exponential

SCALE = exponential(100, 2.0, 10_000)  # edges 0, 100, 300, 700, 1500, …
DAY_S = 86_400.0


def evidence(
    *amounts: int, request: int = 0, latest: int | None = None, yesterday: int | None = None
) -> Evidence:
    uses, ring = histogram.empty(SCALE), hours.unknown()
    for amount in amounts:
        uses = histogram.added(uses, SCALE.bucket(amount), 0.0, 3600.0)
    if yesterday is not None:
        ring = hours.noted(ring, yesterday, 0.0)
    return Evidence(
        uses=uses, scale=SCALE, hours=ring, part=0.9, margin=0.1, now_s=DAY_S, request=request, latest=latest
    )


NINE_LOW_ONE_HIGH = (50,) * 9 + (1000,)


@pytest.mark.parametrize(
    ("name", "given", "amount"),
    [
        ("percentile", evidence(*NINE_LOW_ONE_HIGH), 110),
        ("percentile", evidence(), None),
        ("peak", evidence(*NINE_LOW_ONE_HIGH), 1650),
        ("peak", evidence(), None),
        ("request", evidence(50, request=500), 500),
        ("request", evidence(1000, request=500), 1650),
        ("request", evidence(request=500), 500),
        ("request", evidence(1000), None),
        ("yesterday", evidence(50, yesterday=800), 880),
        ("yesterday", evidence(50), None),
        ("cold", evidence(), 0),
        ("cold", evidence(request=500), 500),
        ("cold", evidence(1000, request=500), 1650),
        ("cold", evidence(50, request=100, latest=900), 900),
    ],
)
def test_an_estimator_says_what_its_evidence_does(name, given, amount):
    assert ESTIMATORS[name](given) == amount


def test_every_estimator_is_in_the_table_by_its_name():
    assert set(ESTIMATORS) == {"percentile", "peak", "request", "yesterday", "cold"}
    assert all(getattr(estimators, name) is each for name, each in ESTIMATORS.items())


def test_the_default_is_one_of_the_table():
    assert ForecastTuning().estimator in ESTIMATORS
