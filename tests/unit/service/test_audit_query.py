"""service/http.py: the three parameters of an audit query are read; a bad one gets a sentence."""

import pytest

from nri_coloc.service.http import AuditQuery, BadQuery, parse


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("", AuditQuery(0, "", 100)),
        ("since=41", AuditQuery(41, "", 100)),
        ("since=0&limit=1000000&pod=shop/web", AuditQuery(0, "shop/web", 1_000_000)),
        ("pod=shop%2Fweb", AuditQuery(0, "shop/web", 100)),
        ("pod=web&since=&limit=", AuditQuery(0, "web", 100)),
        ("pod=", AuditQuery(0, "", 100)),
    ],
)
def test_what_is_left_out_or_empty_has_a_default(text, meant):
    assert parse(text) == meant


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("since=x", "since must be a whole number of at least 0, not 'x'"),
        ("since=-1", "since must be a whole number of at least 0, not '-1'"),
        ("since=%C2%B2", "since must be a whole number of at least 0, not '²'"),
        ("since=" + "9" * 5000, "since may have 18 digits at most, not the 5000 of '9999"),
        ("limit=0", "limit must be a whole number of at least 1, not '0'"),
        ("limit=1_0", "limit must be a whole number of at least 1, not '1_0'"),
        ("sinse=1", "unknown parameter 'sinse'; known are since, pod and limit"),
        ("since=1&since=2", "since is given twice"),
        ("pod=a/b/c", "pod must be NAME or NAMESPACE/NAME, not 'a/b/c'"),
        ("pod=/web", "pod must be NAME or NAMESPACE/NAME, not '/web'"),
        ("pod=shop/", "pod must be NAME or NAMESPACE/NAME, not 'shop/'"),
        ("&".join(["a=1"] * 9), "the query cannot be read"),
    ],
    ids=lambda text: text[:20],
)
def test_what_cannot_be_meant_is_refused_with_a_sentence(text, sentence):
    with pytest.raises(BadQuery) as refused:
        parse(text)
    assert str(refused.value).startswith(sentence)
    assert len(str(refused.value)) < 200
