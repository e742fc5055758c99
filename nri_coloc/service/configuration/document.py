"""Read a YAML file as plain values, with the line of every key for messages to the operator.

This module knows YAML, not our settings. It is stricter than the usual loader, because a configuration must mean what
it looks like. Duplicate keys, aliases, tags and several documents are refused. `on`, `off`, `yes` and `no` are words
(YAML 1.2), so `http: off` is the word "off". Nodes are only composed; no object is constructed from a tag.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import yaml
from yaml.composer import Composer
from yaml.events import AliasEvent
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.parser import Parser
from yaml.reader import Reader, ReaderError
from yaml.resolver import BaseResolver
from yaml.scanner import Scanner

Path: TypeAlias = tuple[str | int, ...]

_TAG: Final = "tag:yaml.org,2002:"

MAX_NODES: Final = 50_000
"""Keys and values: twice as many as all pools with a hundred members each need. A megabyte of keys would keep the
reading daemon busy for many seconds, and take half a gigabyte."""

_REMEDIES: Final = (
    ("'\\t'", "indent with spaces instead of tabs"),
    ("mapping values are not allowed", 'put a value with ":" into quotes, or begin a new line'),
    ("but found ':'", 'put a key before the ":"'),
    ("could not find expected ':'", 'put ": " behind the key'),
    ("cannot start any token", "put this value into quotes"),
    ("aliases", "write the value again in their place"),
)
"""Parts of the parser's messages, each with the remedy."""

_REMEDY: Final = "correct the indentation, quotes or brackets here or above"

_WORDS: Final = {"true": True, "True": True, "false": False, "False": False}


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem of the file; line 0 means the whole file."""

    line: int
    path: str
    text: str


class DocumentError(Exception):
    """The text is not YAML."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.problem = problem


@dataclass(slots=True)
class Document:
    """The values of a file: mappings as dicts, sequences as tuples, scalars as str, int, bool or None.

    lines: the line of each path.
    problems: problems that did not prevent reading.
    """

    data: Any = None
    lines: dict[Path, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def line_of(self, path: Path) -> int:
        """Return the line of a key, or of the nearest enclosing key in the file."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


class _Loader(Reader, Scanner, Parser, Composer, BaseResolver):
    def __init__(self, text: str) -> None:
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)
        Composer.__init__(self)
        BaseResolver.__init__(self)
        self._nodes = 0

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        # an alias of an alias of an alias grows without bound when it is written out
        if self.check_event(AliasEvent):
            raise yaml.MarkedYAMLError(
                problem="aliases such as *name are not supported", problem_mark=self.get_mark()
            )
        self._nodes += 1
        if self._nodes > MAX_NODES:
            line = self.peek_event().start_mark.line + 1  # type: ignore[no-untyped-call]  # a hole in the stubs
            raise DocumentError(Problem(line, "", f"too much; allowed: at most {MAX_NODES} keys and values"))
        return super().compose_node(parent, index)


_Loader.add_implicit_resolver(_TAG + "bool", re.compile(r"(?:[Tt]rue|[Ff]alse)\Z"), list("TtFf"))
_Loader.add_implicit_resolver(_TAG + "null", re.compile(r"(?:~|null|)\Z"), ["~", "n", ""])
_Loader.add_implicit_resolver(_TAG + "int", re.compile(r"-?(?:0|[1-9][0-9]{0,17})\Z"), list("-0123456789"))


def read(text: str) -> Document:
    """Return one document. It is read as far as possible, so that all problems are reported at once."""
    document = Document()
    try:
        node = _Loader(text).get_single_node()
        if node is not None:
            document.data = _plain(node, (), document)
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise DocumentError(Problem(line, "", "not text: it holds a control character")) from error
    except yaml.MarkedYAMLError as error:
        raise DocumentError(not_yaml(error)) from error
    except RecursionError as error:
        raise DocumentError(Problem(0, "", "nested too deeply to be a configuration")) from error
    return document


def joined(path: Path) -> str:
    """Return a path as text, such as classes.rules[0].class."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


def not_yaml(error: yaml.MarkedYAMLError) -> Problem:
    mark = error.problem_mark or error.context_mark
    words = ", ".join(part for part in (error.context, error.problem) if part)
    remedy = next((remedy for part, remedy in _REMEDIES if part in words), _REMEDY)
    return Problem(mark.line + 1 if mark else 0, "", f"not YAML: {words}; {remedy}")


def _plain(node: Node, path: Path, document: Document) -> Any:
    line = node.start_mark.line + 1
    document.lines.setdefault(path, line)
    if isinstance(node, MappingNode) and node.tag == _TAG + "map":
        return _mapping(node, path, document)
    if isinstance(node, SequenceNode) and node.tag == _TAG + "seq":
        return tuple(_plain(item, (*path, index), document) for index, item in enumerate(node.value))
    if isinstance(node, ScalarNode) and node.tag in _SCALARS:
        try:
            return _SCALARS[node.tag](node.value)
        except (ValueError, KeyError):
            pass
    document.problems.append(Problem(line, joined(path), "tags such as !name are not supported"))
    return None


def _mapping(node: MappingNode, path: Path, document: Document) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, ScalarNode):
            document.problems.append(Problem(line, joined(path), "a key must be a word"))
            continue
        key = key_node.value
        where = (*path, key)
        if key in found:
            text = f"duplicate key, first given in line {document.lines[where]}; each key is allowed once"
            document.problems.append(Problem(line, joined(where), text))
            continue
        document.lines[where] = line
        found[key] = _plain(value_node, where, document)
    return found


_SCALARS: Final[Mapping[str, Callable[[str], Any]]] = {
    _TAG + "str": str,
    _TAG + "int": int,
    _TAG + "bool": _WORDS.__getitem__,
    _TAG + "null": lambda _text: None,
}
