"""Flags override the file; a launched plugin reads the runtime's environment variables."""

import os
import socket

import pytest

from nri_coloc.core.settings import Settings, Tuning
from nri_coloc.errors import SettingsError
from nri_coloc.service import options
from nri_coloc.service.configuration import loading as config
from nri_coloc.service.options import Launched, Options


def test_without_flags_the_file_holds():
    settings = Settings(nri_socket="/a", cri_socket="/b", http="off", plugin_name="x", plugin_index="07")
    assert Options().over(settings) == settings


def test_flags_beat_the_file():
    flags = Options(nri_socket="/1", cri_socket="/2", http="127.0.0.1:1", observe=True)
    found = flags.over(Settings(nri_socket="/a", cri_socket="/b", http="off"))
    assert (found.nri_socket, found.cri_socket, found.http) == ("/1", "/2", "127.0.0.1:1")
    assert found.tuning.observe


def test_a_flag_that_is_not_given_does_not_undo_observing():
    assert Options().over(Settings(tuning=Tuning(observe=True))).tuning.observe


def test_a_launched_plugin_goes_by_the_name_that_the_runtime_gave():
    found = Options(launched=Launched(3, "coloc", "33")).over(Settings())
    assert (found.plugin_name, found.plugin_index) == ("coloc", "33")


@pytest.mark.parametrize(
    "address", ["nowhere", "1.2.3.4", ":", ":9744", "::1:9744", "1.2.3.4:x", "1.2.3.4:65536"]
)
def test_an_address_is_judged_as_the_file_judges_it(address):
    with pytest.raises(SettingsError) as of_the_flag:
        Options(http=address).over(Settings())
    with pytest.raises(SettingsError) as of_the_file:
        config.load(f"telemetry: {{http: '{address}'}}", "f")
    assert str(of_the_flag.value).removeprefix("--http: ") == str(of_the_file.value).removeprefix(
        "f:1: telemetry.http: "
    )


@pytest.mark.parametrize("flag", ["nri_socket", "cri_socket"])
def test_a_path_that_no_socket_can_have_is_refused(flag):
    with pytest.raises(SettingsError, match="at most 107 bytes"):
        Options(**{flag: "/" + "x" * 107}).over(Settings())  # type: ignore[arg-type]  # the flag is a parameter
    Options(**{flag: "/" + "x" * 106}).over(Settings())  # type: ignore[arg-type]  # the flag is a parameter


def test_beside_the_admin_socket_there_is_room_for_a_second_one():
    with pytest.raises(SettingsError, match=r"--admin-socket .* at most 106 bytes"):
        Options(admin_socket="/" + "x" * 106).over(Settings())
    Options(admin_socket="/" + "x" * 105).over(Settings())


@pytest.fixture
def descriptor():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield str(ours.fileno())


def test_who_was_not_launched_is_told_nothing():
    assert options.launched({"NRI_PLUGIN_NAME": "x"}) is None
    assert options.launched({"NRI_PLUGIN_SOCKET": ""}) is None


def test_the_environment_tells_descriptor_name_and_index(descriptor):
    environment = {"NRI_PLUGIN_SOCKET": descriptor, "NRI_PLUGIN_NAME": "coloc", "NRI_PLUGIN_IDX": "33"}
    assert options.launched(environment) == Launched(int(descriptor), "coloc", "33")


@pytest.mark.parametrize(
    ("name", "index"), [(None, None), ("", ""), ("a b", "1"), ("a/b", "xx"), ("a\n", "33\n")]
)
def test_an_impossible_plugin_name_is_replaced_by_ours(name, index, descriptor):
    environment = {"NRI_PLUGIN_SOCKET": descriptor}
    if name is not None:
        environment |= {"NRI_PLUGIN_NAME": name, "NRI_PLUGIN_IDX": index}
    assert options.launched(environment) == Launched(int(descriptor), "nri-coloc", "50")


@pytest.mark.parametrize("text", ["x", "-1", "3.0", " 3", "9" * 20, "9" * 5000, "\u0663", "1000000"])
def test_what_is_no_open_socket_is_refused(text):
    with pytest.raises(SettingsError, match="is not the number of an open socket"):
        options.launched({"NRI_PLUGIN_SOCKET": text})


def test_a_file_is_no_socket(tmp_path):
    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(SettingsError):
            options.launched({"NRI_PLUGIN_SOCKET": str(descriptor)})
    finally:
        os.close(descriptor)
