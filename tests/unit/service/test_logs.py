"""service/logs.py: each message is one line on stderr, with any content."""

import io
import json
import logging
import subprocess
import sys
import warnings

import pytest
import structlog

from nri_coloc.service import logs


@pytest.fixture(autouse=True)
def _as_before():
    """Restore the process's logging, because `configure` changes it globally."""
    root = logging.getLogger()
    handlers, level, show = root.handlers[:], root.level, warnings.showwarning
    yield
    structlog.reset_defaults()
    root.handlers[:], warnings.showwarning = handlers, show
    root.setLevel(level)


@pytest.fixture
def stream() -> io.StringIO:
    return io.StringIO()


def failing() -> None:
    raise ValueError("two\nlines")


def test_the_daemon_loads_nothing_that_draws_on_terminals():
    code = "import sys, nri_coloc.service.runner; print({'rich', 'pygments'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_what_draws_can_be_loaded_later():
    code = "import nri_coloc.service.logs, rich.console; print(rich.console.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "rich.console\n"


def test_a_message_is_time_level_words_and_facts(stream):
    logs.configure(stream=stream)
    logs.logger("daemon").warning("cannot reach the runtime", path="/run/nri.sock", tries=3)
    time, rest = stream.getvalue().split(" ", 1)
    assert time.endswith("Z")
    assert rest == "warning cannot reach the runtime part=daemon path=/run/nri.sock tries=3\n"


def test_json_is_the_other_form(stream):
    logs.configure(as_json=True, stream=stream)
    logs.logger("daemon").info("hello", n=1)
    said = json.loads(stream.getvalue())
    assert (said["event"], said["level"], said["part"], said["n"]) == ("hello", "info", "daemon", 1)


def test_lower_levels_are_silent_and_changes_hold_at_once(stream):
    logs.configure("warning", stream=stream)
    log = logs.logger("daemon")
    log.info("unheard")
    assert stream.getvalue() == ""
    logs.configure("debug", stream=stream)
    log.debug("heard")
    assert "heard" in stream.getvalue()


def test_an_unknown_level_is_info(stream):
    logs.configure("chatty", stream=stream)
    logs.logger("daemon").debug("unheard")
    logs.logger("daemon").info("heard")
    assert stream.getvalue().count("\n") == 1


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("plain-1.2/x", "plain-1.2/x"),
        ("two words", '"two words"'),
        ("", '""'),
        ("a=b", '"a=b"'),
        ('"', '"\\""'),
        ("\x1b[2J\n", '"\\u001b[2J\\n"'),
        ("\u202e", '"\\u202e"'),
        (None, "None"),
    ],
    ids=ascii,
)
def test_a_value_is_bare_only_where_that_is_unmistakable(stream, value, shown):
    logs.configure(stream=stream)
    logs.logger("daemon").info("it", value=value)
    assert stream.getvalue().endswith(f" value={shown}\n")


@pytest.mark.parametrize("form", ["true", "instance", "tuple"])
def test_an_exception_is_its_type_text_and_place_on_one_line(stream, form):
    logs.configure(stream=stream)
    try:
        failing()
    except ValueError as error:
        told = {"true": True, "instance": error, "tuple": (ValueError, error, error.__traceback__)}[form]
        logs.logger("daemon").error("it failed", exc_info=told)
    said = stream.getvalue()
    assert said.count("\n") == 1
    assert 'error="ValueError: two\\nlines" raised_at=' in said
    assert "Traceback" not in said


def test_an_exception_that_was_never_raised_has_no_place(stream):
    logs.configure(stream=stream)
    logs.logger("daemon").error("it failed", exc_info=KeyError("k"))
    assert stream.getvalue().endswith("error=\"KeyError: 'k'\"\n")


@pytest.mark.parametrize("nothing", [None, False, True], ids=str)
def test_no_exception_is_no_field(stream, nothing):
    logs.configure(stream=stream)
    logs.logger("daemon").error("it failed", exc_info=nothing)
    assert "error=" not in stream.getvalue()


def test_the_traceback_is_told_at_level_debug_on_the_same_line(stream):
    logs.configure("debug", stream=stream)
    try:
        failing()
    except ValueError:
        logs.logger("daemon").exception("it failed")
    assert "Traceback" in stream.getvalue()
    assert stream.getvalue().count("\n") == 1


def test_libraries_speak_in_the_same_form(stream):
    logs.configure(stream=stream)
    logging.getLogger("grpc").warning("a %s", "thing")
    logging.getLogger("grpc").info("unheard")
    assert " warning a thing part=grpc\n" in stream.getvalue()
    assert stream.getvalue().count("\n") == 1


def test_a_warning_of_python_is_one_line(stream):
    logs.configure(stream=stream)
    warnings.showwarning("old", DeprecationWarning, "file.py", 1)
    assert " old part=warnings category=DeprecationWarning\n" in stream.getvalue()


@pytest.mark.parametrize("error", [OSError(28, "full"), ValueError("closed")], ids=["full", "closed"])
def test_an_unwritable_log_raises_and_prints_nothing(error, capsys):
    tried: list[str] = []

    class Broken(io.StringIO):
        def write(self, text):
            tried.append(text)
            raise error

    logs.configure(stream=Broken())
    logs.logger("daemon").error("unheard")
    logging.getLogger("grpc").error("unheard")
    assert [text.count("unheard") for text in tried] == [1, 1]
    assert capsys.readouterr() == ("", "")


def test_stderr_is_where_it_goes(capsys):
    logs.configure()
    logs.logger("daemon").info("hello")
    said = capsys.readouterr()
    assert said.out == ""
    assert "hello" in said.err
