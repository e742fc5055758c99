"""service/configuration/document.py: YAML that can mean one thing only is read, with the line of every key."""

import pytest
import yaml

from nri_coloc.service.configuration import document
from nri_coloc.service.configuration.document import DocumentError, Problem


def refused(text: str) -> Problem:
    with pytest.raises(DocumentError) as caught:
        document.read(text)
    return caught.value.problem


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n", "---\n", "~", "null"])
def test_a_file_that_says_nothing_is_nothing(text):
    assert document.read(text).data is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7", 7),
        ("-7", -7),
        ("0", 0),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("off", "off"),
        ("on", "on"),
        ("yes", "yes"),
        ("no", "no"),
        ("trueish", "trueish"),
        ("05", "05"),
        ("1_000", "1_000"),
        ("0x10", "0x10"),
        ("1e3", "1e3"),
        ("1.5", "1.5"),
        ("12:30", "12:30"),
        ("2001-01-01", "2001-01-01"),
        ('"7"', "7"),
        ("9" * 30, "9" * 30),
        ("[1, a, {b: c}]", (1, "a", {"b": "c"})),
    ],
)
def test_a_scalar_is_what_it_looks_like(text, expected):
    assert document.read(f"key: {text}").data == {"key": expected}


def test_a_key_is_always_a_word():
    assert document.read("1: a\ntrue: b\n<<: c").data == {"1": "a", "true": "b", "<<": "c"}


def test_every_key_knows_its_line():
    found = document.read("a:\n  b:\n  - c: 1\n    d: 2\n")
    assert found.lines[("a", "b", 0, "d")] == 4


@pytest.mark.parametrize(
    ("path", "expected"),
    [(("a",), 2), (("a", "missing"), 2), (("elsewhere", "b"), 2), ((), 2)],
    ids=["written", "in a written one", "nowhere", "the file"],
)
def test_an_absent_key_has_its_surroundings_line(path, expected):
    assert document.read("\na: {}").line_of(path) == expected


def test_an_empty_file_is_complained_about_in_its_first_line():
    assert document.read("").line_of(("a",)) == 1


def test_a_duplicate_key_is_a_problem_and_the_first_one_counts():
    found = document.read("a: 1\nb:\n  c: 2\n  c: 3\n")
    assert found.data == {"a": 1, "b": {"c": 2}}
    assert found.problems == [
        Problem(4, "b.c", "duplicate key, first given in line 3; each key is allowed once")
    ]


@pytest.mark.parametrize(
    "text",
    ["a: !!python/object:os.system x", "a: !mine {b: c}", "a: !mine [b]", "a: !!int x", "a: !!bool 7"],
)
def test_a_tag_is_a_problem(text):
    assert document.read(text).problems == [Problem(1, "a", "tags such as !name are not supported")]


def test_a_key_that_is_no_word_is_a_problem():
    assert document.read("a:\n  ? [b]\n  : c\n").problems == [Problem(2, "a", "a key must be a word")]


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("a: &x 1\nb: *x", 2, "aliases such as *name are not supported"),
        ("a: 1\n---\nb: 2", 2, "another document"),
        ("a: 1\nb", 2, "could not find expected ':'"),
        ("a: [1,\n", 2, "expected the node content"),
        ("a: 1\n@", 2, "cannot start any token"),
        ("a: 1\n\x00", 2, "not text: it holds a control character"),
        ("[" * 5000, 0, "nested too deeply"),
    ],
    ids=["alias", "documents", "half a key", "half a list", "no token", "binary", "deep"],
)
def test_what_is_no_yaml_is_refused_with_its_line(text, line, said):
    problem = refused(text)
    assert (problem.line, said in problem.text) == (line, True)


def test_an_oversized_configuration_is_refused_at_its_excess(monkeypatch):
    monkeypatch.setattr(document, "MAX_NODES", 50)
    problem = refused("".join(f"k{i}: 1\n" for i in range(70)))
    assert problem == Problem(25, "", "too much; allowed: at most 50 keys and values")


def test_as_much_as_is_allowed_is_read(monkeypatch):
    monkeypatch.setattr(document, "MAX_NODES", 50)
    items = 50 - 3  # the file, the key and its list
    assert document.read(f"a: [{','.join('1' * items)}]").data == {"a": (1,) * items}


def test_a_failure_without_a_place_is_told_without_one():
    assert document.not_yaml(yaml.MarkedYAMLError(problem="odd")) == Problem(
        0, "", "not YAML: odd; correct the indentation, quotes or brackets here or above"
    )


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("a:\n\tb: 1", "indent with spaces instead of tabs"),
        (":", 'put a key before the ":"'),
        ("a: b: c", 'put a value with ":" into quotes, or begin a new line'),
        ("a: @b", "put this value into quotes"),
        ("a: &x 1\nb: *x", "write the value again in their place"),
        ("a: [1", "correct the indentation, quotes or brackets here or above"),
    ],
)
def test_each_mistake_has_its_remedy(text, remedy):
    assert refused(text).text.endswith(f"; {remedy}")


def test_a_path_is_written_as_an_operator_reads_it():
    assert document.joined(("classes", "rules", 0, "class")) == "classes.rules[0].class"
