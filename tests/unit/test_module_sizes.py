"""A module has 500 lines at most, so that a reader keeps its one idea in mind."""

from tests.rig.trees import FOLDERS, ROOT

MOST_LINES = 500


def test_no_module_has_more_than_500_lines():
    found = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py") if "_pb" not in path.parts)
    lines = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in found}
    assert {path: number for path, number in lines.items() if number > MOST_LINES} == {}
