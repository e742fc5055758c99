"""ttrpc/status.py: gRPC's codes by their numbers."""

import grpc

from nri_coloc.ttrpc.status import Code


def test_names_and_numbers_are_grpcs():
    assert {code.name: code.value for code in Code} == {c.name: c.value[0] for c in grpc.StatusCode}
