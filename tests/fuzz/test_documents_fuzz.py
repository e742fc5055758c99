"""Any configuration gives settings, or a sentence with the place and the cause; never anything else.

Besides texts near the kept ones, documents are built out of the schema's own keys with values of every other kind, as a
template with a mistake in it makes them.
"""

import json
from pathlib import Path
from typing import Any, Final

from hypothesis import strategies as st

from nri_coloc.core.settings import Settings
from nri_coloc.errors import SettingsError
from nri_coloc.service.configuration import loading, schema
from tests.fuzz import corpus

NOUN: Final = "documents"
LONGEST_SENTENCE: Final = 20_000
COSTLY: Final = 5
"""A whole configuration takes ten milliseconds and more to compose and judge."""

KEYS: Final = sorted(
    {
        key
        for section in schema.File.model_json_schema()["$defs"].values()
        for key in section.get("properties", {})
    }
    | set(schema.File.model_json_schema()["properties"])
)
VALUES: Final = (
    st.none()
    | st.booleans()
    | st.integers(-5, 2**70)
    | st.floats()
    | st.sampled_from(
        ("0-3", "2Gi", "50%", "observe", "partition", "web-*", "a=b", "pod", "", "9" * 400, "\0")
    )
    | st.text(max_size=12)
)


def branches(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=4) | st.dictionaries(
        st.sampled_from(KEYS) | st.text(max_size=5), inner, max_size=5
    )


DOCUMENTS: Final = st.dictionaries(
    st.sampled_from(KEYS), st.recursive(VALUES, branches, max_leaves=12), max_size=5
)
"""JSON is YAML, so that is how they are written."""


def check(data: bytes) -> None:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return  # refused when the file is read, before it is parsed
    found = loaded(text)
    if isinstance(found, str):
        assert found.startswith("file")
        assert len(found) < LONGEST_SENTENCE


def loaded(text: str) -> Settings | str:
    try:
        return loading.load(text, "file")
    except SettingsError as error:
        return str(error)


@corpus.replayed(NOUN)
def test_a_kept_document_gives_settings_or_a_sentence(seed: Path):
    check(seed.read_bytes())


def test_any_text_gives_settings_or_a_sentence(fuzz_inputs: int):
    corpus.made_up(NOUN, check, fuzz_inputs // COSTLY)


def test_any_document_of_our_own_keys_gives_settings_or_a_sentence(fuzz_inputs: int):
    corpus.made_up(
        NOUN, check, fuzz_inputs // COSTLY, DOCUMENTS.map(lambda found: json.dumps(found).encode())
    )


def test_the_kept_documents_are_not_all_refused():
    found = [path for path in corpus.seeds(NOUN) if path.name.startswith("good")]
    assert len([loading.load(path.read_text(), "file") for path in found]) >= 3
