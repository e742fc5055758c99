"""The token that the command of a kubeconfig prints."""

import json
import os
from pathlib import Path

import pytest

from nri_coloc.errors import SettingsError
from nri_coloc.kubernetes import api
from nri_coloc.kubernetes.api import ApiRefused, ApiUnreachable
from nri_coloc.kubernetes.credential_command import CommandAuth, CommandError
from tests.unit.kubernetes import fake_api
from tests.unit.kubernetes.fake_api import Reply, serving

V1 = "client.authentication.k8s.io/v1"
OBJECT = {"metadata": {"resourceVersion": "7"}}
COUNTED = """
echo >>{folder}/runs
n=$(wc -l <{folder}/runs)
echo '{{"status": {{"token": "secret-'"$n"'"}}}}'
"""


def client_of(server, folder: Path, script: str, version: str = V1):
    """Return a client whose kubeconfig has a command."""
    path = folder / "with-command"
    address = json.loads(server.kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
    user = {"exec": {"command": "sh", "args": ["-c", script.format(folder=folder)], "apiVersion": version}}
    path.write_text(json.dumps(fake_api.config(address, user)))
    return api.connect(str(path))


@pytest.mark.parametrize("version", [V1, f"{V1}beta1"])
def test_the_commands_token_is_sent(tmp_path, version):
    with serving(tmp_path, lambda _: Reply(body=OBJECT)) as server:
        client = client_of(server, tmp_path, COUNTED, version)
        for _ in range(3):
            client.get("/x")
        client.close()
    assert [each.authorization for each in server.asked] == ["Bearer secret-1"] * 3


def test_a_refused_token_is_renewed_once(tmp_path):
    with serving(tmp_path, lambda _: Reply(401)) as server:
        client = client_of(server, tmp_path, COUNTED)
        with pytest.raises(ApiRefused, match="401"):
            client.get("/x")
        client.close()
    assert [each.authorization for each in server.asked] == ["Bearer secret-1", "Bearer secret-2"]


def test_the_command_knows_its_version(tmp_path):
    script = 'test "$KUBERNETES_EXEC_INFO" && echo "$KUBERNETES_EXEC_INFO" >{folder}/info; exit 1'
    with serving(tmp_path, lambda _: Reply(body=OBJECT)) as server:
        client = client_of(server, tmp_path, script)
        with pytest.raises(ApiUnreachable, match=r"not sent: .*'sh' ended with 1"):
            client.get("/x")
        client.close()
    assert json.loads((tmp_path / "info").read_text())["apiVersion"] == V1


def run(script: str, limit_s: float = 60) -> str:
    return CommandAuth(V1, ["sh", "-c", script], {}, limit_s)._printed()


def test_a_command_that_never_ends_is_ended(tmp_path):
    script = f"echo $$ >{tmp_path}/pid; sleep 1000 & wait"
    with pytest.raises(CommandError, match=r"'sh' was ended: .* within 0\.2 s; run it by hand"):
        run(script, limit_s=0.2)
    if (tmp_path / "pid").exists():  # a slow machine may end it before its first line
        with pytest.raises(ProcessLookupError):
            os.kill(int((tmp_path / "pid").read_text()), 0)


@pytest.mark.parametrize(
    "printed", ["", "7", "{", '{"status": {}}', '{"status": {"token": 7}}', '{"status": {"token": "a\\nb"}}']
)
def test_a_command_without_a_token_is_told(printed):
    with pytest.raises(CommandError, match="printed"):
        run(f"printf '%s' '{printed}'")


def test_a_missing_command_is_told():
    with pytest.raises(CommandError, match="cannot be started"):
        CommandAuth(V1, ["/nowhere"], {})._printed()


def test_an_unknown_version_is_the_operators_mistake(tmp_path):
    with (
        serving(tmp_path, lambda _: Reply(body=OBJECT)) as server,
        pytest.raises(SettingsError, match="apiVersion 'v9' is not one of"),
    ):
        client_of(server, tmp_path, COUNTED, "v9")
