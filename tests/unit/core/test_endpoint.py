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
