"""An address with a port is split; a text that is none is named."""

import pytest

from nri_coloc.core import endpoint


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("127.0.0.1:9744", ("127.0.0.1", 9744)),
        ("node-1.example:80", ("node-1.example", 80)),
        ("[::1]:0", ("::1", 0)),
        ("0.0.0.0:65535", ("0.0.0.0", 65535)),
    ],
)
def test_an_address_is_split_before_its_port(text, parts):
    assert endpoint.split(text) == parts


NONE = (
    *("", "off", "9744", ":9744", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:65536", "a:-1"),
    *("::1:80", "127.0.0.1: 80", "127.0.0.1:80\n", "a b:80", "127.0.0.1:\u0663", "[]:80", "http://a:80"),
)


@pytest.mark.parametrize("text", NONE)
def test_what_is_no_address_is_named(text):
    with pytest.raises(ValueError, match="is not an address with a port") as caught:
        endpoint.split(text)
    assert repr(text) in str(caught.value)


LOOPBACK, ALL = ("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "0.0.0.0")


@pytest.mark.parametrize(
    ("host", "listening", "is_own"),
    [
        ("127.0.0.1:9744", LOOPBACK, True),
        ("10.0.0.7:9744", LOOPBACK, True),
        ("[::1]:9744", LOOPBACK, True),
        ("[::1]", ("::1", "::1"), True),
        ("LocalHost", LOOPBACK, True),
        ("localhost.:9744", LOOPBACK, True),
        ("", LOOPBACK, True),
        ("node-1:9744", ("127.0.1.1", "Node-1"), True),
        ("node-1.example:9744", LOOPBACK, False),
        ("127.0.0.1.example:9744", LOOPBACK, False),
        ("127.0.0.1@site.example", LOOPBACK, False),
        ("[site.example]", LOOPBACK, False),
        ("node-1.example:9744", ("::1", "::1"), False),
        ("node-1.example:9744", ALL, True),
        ("node-1.example", ("::", "::"), True),
    ],
)
def test_a_name_of_others_is_none_of_a_loopback_address(host, listening, is_own):
    assert endpoint.is_own_name(host, *listening) is is_own
