from nri_coloc.ttrpc import frames


def test_a_frame_is_a_ten_byte_header_and_the_body():
    assert frames.frame(5, frames.RESPONSE, b"abc") == b"\x00\x00\x00\x03\x00\x00\x00\x05\x02\x00abc"


def test_an_empty_body_still_has_a_header():
    assert frames.frame(1, frames.REQUEST, b"") == b"\x00\x00\x00\x00\x00\x00\x00\x01\x01\x00"
