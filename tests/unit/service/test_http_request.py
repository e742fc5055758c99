"""service/http_loop.py: the end of a head is found, and its first line becomes a request or a refusal."""

import pytest

from nri_coloc.service import http_loop as subject
from nri_coloc.service.http_loop import BadRequest, Request


@pytest.mark.parametrize(
    ("head", "request_"),
    [
        (b"GET /healthz HTTP/1.1\r\nHost: x\r\n", Request("GET", "/healthz", "", "x")),
        (b"GET / HTTP/1.1\r\nA: b\r\nhost:  x:1 \r\n", Request("GET", "/", "", "x:1")),
        (b"GET /v1/audit?since=1&pod=a HTTP/1.0\r\n", Request("GET", "/v1/audit", "since=1&pod=a")),
        (b"\r\nHEAD / HTTP/1.1\n", Request("HEAD", "/", "")),
        (b"GET http://a:1/healthz?x=1 HTTP/1.1\r\nHost: b\r\n", Request("GET", "/healthz", "x=1", "a:1")),
        (b"GET HTTPS://[::1] HTTP/1.1\r\n", Request("GET", "/", "", "[::1]")),
        (b"GET http://a?x=http://b/c HTTP/1.1\r\n", Request("GET", "/", "x=http://b/c", "a")),
        (b"GET /?x=http://b/c HTTP/1.1\r\n", Request("GET", "/", "x=http://b/c")),
        (b"BREW /coffee?? HTTP/1.1\r\n", Request("BREW", "/coffee", "?")),
    ],
)
def test_a_head_is_a_request(head, request_):
    assert subject.read(head) == request_


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"GET /",
        b"GET / HTTP/2.0",
        b"GET  / HTTP/1.1",
        b"G\x00T / HTTP/1.1",
        b"GET /\xff HTTP/1.1",
        b"one two three four",
        b"x" * 33 + b" / HTTP/1.1",
    ],
)
def test_other_first_lines_are_refused(head):
    with pytest.raises(BadRequest) as refused:
        subject.read(head)
    assert refused.value.status == 400


def test_two_hosts_are_refused():
    with pytest.raises(BadRequest) as refused:
        subject.read(b"GET / HTTP/1.1\r\nHost: a\r\nhost: b\r\n")
    assert refused.value.status == 400


def test_too_many_headers_are_refused():
    with pytest.raises(BadRequest) as refused:
        subject.read(b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * (subject.MAX_HEADERS + 1))
    assert refused.value.status == 431


@pytest.mark.parametrize("end", [b"\r\n\r\n", b"\n\n", b"\n\r\n"])
def test_an_end_is_found_byte_by_byte(end):
    whole = b"GET / HTTP/1.1\r\nHost: x" + end + b"body"
    ends = [subject.end_of_head(whole[: at + 1], at) for at in range(len(whole))]
    found = next(each for each in ends if each >= 0)
    assert subject.read(whole[:found]) == Request("GET", "/", "", "x")
    assert ends.index(found) == len(whole) - len(b"body") - 1


@pytest.mark.parametrize("end", [b"", b"\r\n\r\n"], ids=["half", "whole"])
def test_a_long_head_is_refused(end):
    with pytest.raises(BadRequest) as refused:
        subject.end_of_head(b"G" * subject.MAX_BYTES + end, 0)
    assert refused.value.status == 431


def test_a_body_does_not_count_as_head():
    head = b"POST / HTTP/1.1\r\n\r\n"
    assert subject.end_of_head(head + b"x" * 2 * subject.MAX_BYTES, 0) == len(head) - 3
