"""The image is built from locked packages, and starts a command that exists."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from nri_coloc.cli import commands as cli

PROJECT = Path(__file__).parents[3]
TEXT = (PROJECT / "deploy" / "Dockerfile").read_text()
PYPROJECT: dict[str, Any] = tomllib.loads((PROJECT / "pyproject.toml").read_text())
LOCK = (PROJECT / "requirements.lock").read_text()


def instructions(text: str) -> list[tuple[str, str]]:
    """Return instructions with their arguments; continued lines are joined, comments left out."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [
        (word.upper(), rest.strip())
        for word, _, rest in (line.partition(" ") for line in joined.splitlines())
    ]


def stages(found: list[tuple[str, str]]) -> list[list[tuple[str, str]]]:
    starts = [at for at, (word, _) in enumerate(found) if word == "FROM"]
    return [found[a:b] for a, b in zip(starts, [*starts[1:], None], strict=True)]


FOUND = instructions(TEXT)
BUILD, FINAL = stages(FOUND)
BASE = next(rest.partition("=")[2] for word, rest in FOUND if word == "ARG")


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def locked(lock: str) -> dict[str, int]:
    """Return the number of hashes by package name."""
    entries = re.split(r"\n(?=[A-Za-z0-9])", lock.replace("\\\n", " "))
    return {
        normal(found[1]): entry.count("--hash=sha256:")
        for entry in entries
        if (found := re.match(r"([A-Za-z0-9._-]+)(?:\[.*\])?==", entry))
    }


def test_both_stages_stand_on_one_official_image_without_registry_or_digest():
    assert [FOUND[0], BUILD[0], FINAL[0]] == [
        ("ARG", f"PYTHON={BASE}"),
        ("FROM", "${PYTHON} AS build"),
        ("FROM", "${PYTHON}"),
    ]
    assert re.fullmatch(r"python:3\.\d+-slim(-[a-z]+)?", BASE)


def test_its_python_is_one_that_the_project_takes():
    version = re.search(r":(3\.\d+)", BASE)
    assert version
    assert f">={version[1]}" == PYPROJECT["project"]["requires-python"]


def test_no_other_host_is_named():
    assert "://" not in TEXT


def test_everything_from_the_index_is_checked_by_hash():
    commands = [c for word, rest in BUILD if word == "RUN" for c in rest.split("&&") if "-m pip" in c]
    from_index = [c for c in commands if "--no-deps" not in c]
    assert len(from_index) == 2
    assert all("--require-hashes" in c and "--only-binary :all:" in c and ".lock" in c for c in from_index)


def test_the_build_of_our_own_package_fetches_nothing():
    ours = [c for word, rest in BUILD if word == "RUN" for c in rest.split("&&") if "--no-deps" in c]
    assert len(ours) == 2
    assert all("--no-build-isolation" in c or "--no-index" in c for c in ours)


def test_the_lock_holds_every_dependency_with_hashes():
    entries = locked(LOCK)
    wanted = {normal(re.split(r"[<>=!~\[ ]", text)[0]) for text in PYPROJECT["project"]["dependencies"]}
    assert wanted <= entries.keys()
    assert min(entries.values()) > 0


def test_the_lock_of_the_tools_holds_what_builds_the_package():
    entries = locked((PROJECT / "requirements-dev.lock").read_text())
    wanted = {normal(re.split(r"[<>=!~\[ ]", text)[0]) for text in PYPROJECT["build-system"]["requires"]}
    assert wanted | {"pip"} <= entries.keys()


def test_our_package_is_installed_as_a_wheel_and_not_editable():
    assert "/wheels/nri_coloc-*.whl" in TEXT
    assert "-e " not in TEXT
    assert "--editable" not in TEXT


def test_the_final_stage_installs_nothing():
    assert {word for word, _ in FINAL} == {"FROM", "COPY", "ENV", "USER", "STOPSIGNAL", "ENTRYPOINT"}


def test_the_build_fails_without_time_zones():
    assert any("zoneinfo.ZoneInfo(" in rest for word, rest in BUILD if word == "RUN")


def test_no_stage_fetches_a_compiler():
    assert not re.search(r"\b(apt|apt-get|gcc|build-essential)\b", TEXT)


@pytest.mark.parametrize("source", [s for w, rest in BUILD if w == "COPY" for s in rest.split()[:-1]])
def test_what_is_copied_exists(source):
    assert (PROJECT / source).exists()


def test_the_environment_is_copied_to_where_it_was_made():
    made = re.search(r"venv --without-pip (\S+)", TEXT)
    assert made
    assert ("COPY", f"--from=build {made[1]} {made[1]}") in FINAL
    assert f"PATH={made[1]}/bin:$PATH" in dict(FINAL)["ENV"]


def test_the_entrypoint_is_a_command_of_the_program():
    program, *arguments = json.loads(dict(FINAL)["ENTRYPOINT"])
    assert program in PYPROJECT["project"]["scripts"]
    assert cli._parser().parse_args(arguments).command is cli._run


def test_the_manifest_runs_this_version():
    manifest = yaml.safe_load_all((PROJECT / "deploy" / "daemonset.yaml").read_text())
    pods = [document for document in manifest if document["kind"] == "DaemonSet"]
    image = pods[0]["spec"]["template"]["spec"]["containers"][0]["image"]
    assert image == f"nri-coloc:{PYPROJECT['project']['version']}"
    assert f"-t {image} " in TEXT
