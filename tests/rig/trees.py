"""Read every Python file of the project once for all tests that ask something about all of them.

Parsing and walking take most of such a test's time, and the trees of all files 300 MB. So each question is a function
of one file; the first test that needs an answer has all questions of this process answered, file by file.
"""

import ast
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, TypeVar

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDERS: Final = ("nri_coloc", "tests", "benchmarks", "api")

Answer = TypeVar("Answer")


class Module(NamedTuple):
    """A file that a person wrote; `path` is relative to the project, `nodes` are those of its tree."""

    path: str
    text: str
    nodes: Sequence[ast.AST]


class Question(Generic[Answer]):
    """The answers of a function about each file, by path."""

    def __init__(self, folders: tuple[str, ...], of: Callable[[Module], Answer]) -> None:
        self.folders = folders
        self.of = of
        self.answers: dict[str, Answer] = {}

    def __call__(self) -> Mapping[str, Answer]:
        if not self.answers:
            _answer([each for each in _asked if not each.answers])
        return self.answers


_asked: list[Question[Any]] = []


def of_every_module(*folders: str) -> Callable[[Callable[[Module], Answer]], Question[Answer]]:
    """Make a function of one file a question about all files of these folders, all of `FOLDERS` by default."""

    def ask(of: Callable[[Module], Answer]) -> Question[Answer]:
        question = Question(folders or FOLDERS, of)
        _asked.append(question)
        return question

    return ask


def _answer(questions: list[Question[Any]]) -> None:
    for folder in FOLDERS:
        chosen = [each for each in questions if folder in each.folders]
        for path in sorted((ROOT / folder).rglob("*.py")) if chosen else ():
            if "_pb" not in path.parts:
                text = path.read_text()
                module = Module(str(path.relative_to(ROOT)), text, list(ast.walk(ast.parse(text))))
                for each in chosen:
                    each.answers[module.path] = each.of(module)
