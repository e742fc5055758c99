"""Texts use the words of docs/glossary.md: each forbidden word has a replacement, each kind of text a limit.

A limit is a number of forbidden words in 1,000 words: the figure of the day on which it was set. It may only fall.
"""

import ast
import io
import re
import subprocess
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple

import pytest

from tests.rig.trees import ROOT, Module, of_every_module

NOUN = "a noun of the glossary"
FORBIDDEN = {
    r"(?:no|any|some|every)(?:body|one)|no one|who(?:m|ever|mever)": NOUN,
    r"(?<!operators )(?<!author )(?<!users )(?<!readers )who": f"{NOUN}, and `that`",
    r"(?:of|by|from|for|to|and|or|than|that|is|at|with|keeps|says|tells) what(?! if\b)": "the … that",
    r"whatever": "any … that",
    r"those (?:who|that|which|of)|the (?:one|others) (?:who|that|which)": NOUN,
    r"former (?:life|lives|daemon)": "previous process",
    r"the box(?:'s)?|members of the box": "the reclaim pool, the reclaim cgroups, reclaimed pods",
    r"put(?:s|ting)? right": "repair",
    r"put(?:s|ting)? back|g[ia]ven? back": "restore",
    r"let be": "leave alone",
    r"anew": "again",
    r"at rest": "idle, low activity",
    r"in turn": "round-robin",
    r"(?:is|are|was|were|be) told|tells? of": "report, record, log",
    r"the core more": "the extra core",
    r"of its own making": "self-inflicted",
    r"all the same": "nevertheless",
    r"sharers?": "shared container",
}
WORDS = re.compile("|".join(f"(?P<w{n}>{words})" for n, words in enumerate(FORBIDDEN)), re.IGNORECASE)
WORD = re.compile(rf"(?<![\w'-])(?:{WORDS.pattern})(?![\w'-])", re.IGNORECASE)
INSTEAD = dict(enumerate(FORBIDDEN.values()))

LIMITS = {
    "documents": 0.5,
    "messages": 1.0,
    "comments": 0.2,
    "docstrings": 0.3,
    "tests: comments": 0.3,
    "tests: docstrings": 0.9,
    "tests: messages": 1.0,
}


class Text(NamedTuple):
    """A piece of text with its place."""

    kind: str
    file: str
    line: int
    words: str


class Hit(NamedTuple):
    """A forbidden word with its place, and the words to use."""

    place: str
    word: str
    instead: str


def tracked() -> list[str]:
    """Return the paths of the project's files."""
    listed = subprocess.run(["git", "-C", ROOT, "ls-files"], capture_output=True, text=True, check=True)
    return [name for name in listed.stdout.splitlines() if "/_pb/" not in name and (ROOT / name).is_file()]


def texts_of(name: str) -> Iterator[Text]:
    """Yield the texts of one file."""
    path = ROOT / name
    if path.suffix == ".md":
        yield Text("documents", name, 1, without_examples(path.read_text()))
    elif path.suffix in {".yaml", ".proto"} or path.name in {"Makefile", "Dockerfile"}:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if comment := re.search(r"(?:#|//)\s+(.*)", line):
                yield Text("comments", name, number, comment[1])


def without_examples(text: str) -> str:
    """Return a document with its fenced blocks emptied; lines keep their numbers."""
    return re.sub(r"```.*?```", lambda block: "\n" * block[0].count("\n"), text, flags=re.DOTALL)


def of_python(module: Module) -> Iterator[Text]:
    """Yield the comments, docstrings and messages (three words and more) of a module."""
    name = module.path
    of_tests = "tests: " if name.startswith("tests/") else ""
    nodes = module.nodes
    for line, comment in comments(module.text, nodes):
        yield Text(f"{of_tests}comments", name, line, comment.lstrip("# "))
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value.split()) > 2:
            kind = "docstrings" if id(node) in docstrings else "messages"
            yield Text(of_tests + kind, name, node.lineno, node.value)


def hits_in(text: Text) -> Iterator[Hit]:
    """Yield the forbidden words of a text."""
    for found in WORD.finditer(text.words):
        line = text.line + text.words[: found.start()].count("\n")
        number = next(int(group[1:]) for group, said in found.groupdict().items() if said)
        yield Hit(f"{text.file}:{line}", found[0], INSTEAD[number])


def comments(text: str, nodes: Iterable[ast.AST]) -> list[tuple[int, str]]:
    """Return line and text of each comment; `nodes` are the file's.

    A number sign begins one if no string has begun before it. In doubt the tokenizer decides, which is slow.
    """
    marked = [(number, line) for number, line in enumerate(text.split("\n"), 1) if "#" in line]
    if not marked:
        return []
    strings = [node for node in nodes if isinstance(node, ast.Constant | ast.JoinedStr)]
    within = {
        line
        for node in strings
        if node.end_lineno is not None and node.end_lineno > node.lineno
        for line in range(node.lineno, node.end_lineno + 1)
    }
    if any(number in within or re.search("[\"'].*#", line) for number, line in marked):
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        return [(token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT]
    return [(number, line[line.index("#") :]) for number, line in marked]


@of_every_module()
def words_and_hits(module: Module) -> tuple[Counter[str], list[tuple[str, Hit]]]:
    texts = [] if module.path == "tests/unit/test_plain_english.py" else list(of_python(module))
    return counted(texts), [(text.kind, hit) for text in texts for hit in hits_in(text)]


def counted(texts: Iterable[Text]) -> Counter[str]:
    """Return the number of words of each kind of text."""
    words: Counter[str] = Counter()
    for text in texts:
        words[text.kind] += len(text.words.split())
    return words


@cache
def measured() -> tuple[Counter[str], dict[str, list[Hit]]]:
    """Return the number of words and the hits of each kind of text."""
    texts = [text for name in tracked() for text in texts_of(name)]
    words, hits = counted(texts), defaultdict[str, list[Hit]](list)
    for text in texts:
        hits[text.kind] += hits_in(text)
    for of_module, found in words_and_hits().values():
        words += of_module
        for kind, hit in found:
            hits[kind].append(hit)
    return words, hits


@pytest.mark.parametrize("kind", LIMITS)
def test_forbidden_words_only_get_fewer(kind):
    words, hits = measured()
    rate = 1000 * len(hits[kind]) / words[kind]
    newest = "\n".join(f"{hit.place}: {hit.word!r}: use {hit.instead}" for hit in hits[kind][:20])
    assert rate <= LIMITS[kind], f"{rate:.2f} forbidden words in 1,000 of {kind}, for example\n{newest}"


def test_every_kind_of_text_has_a_limit():
    assert measured()[0].keys() == LIMITS.keys()


@pytest.mark.parametrize(
    ("sentence", "word"),
    [
        ("nobody runs there", "nobody"),
        ("of what is lent", "of what"),
        ("a weight was put right", "put right"),
        ("it is made anew", "anew"),
    ],
)
def test_a_forbidden_word_is_found(sentence, word):
    assert [hit.word for hit in hits_in(Text("", "x", 1, sentence))] == [word]


def test_operators_who_act_are_allowed():
    assert list(hits_in(Text("", "x", 1, "operators who need a slice"))) == []
