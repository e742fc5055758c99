"""ttrpc/errors.py: errors name the side that caused them, and need nothing of the project."""

import pytest

from nri_coloc import errors as ours
from nri_coloc.ttrpc import errors


@pytest.mark.parametrize("error", [errors.LocalError, errors.RemoteError, errors.ConnectionDead])
def test_one_clause_catches_them_all(error):
    with pytest.raises(errors.TtrpcError):
        raise error("why")


def test_the_package_could_leave_the_house():
    assert not issubclass(errors.TtrpcError, ours.ColocError)
