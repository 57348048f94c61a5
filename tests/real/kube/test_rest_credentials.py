"""TLS trust and client credentials over real TLS: authorities, certificates, tokens, and exec plugins."""

import asyncio
import base64
import os
import ssl
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from pykubelet.aio.clock import SystemClock
from pykubelet.api.errors import (
    NotReached,
    Unauthorized,
)
from pykubelet.api.scheme import PODS
from pykubelet.client.exec_plugin import ExecCredentials, ExecPlugin
from pykubelet.client.rest import RestClient
from pykubelet.client.transport import CredentialError
from pykubelet.testing.virtual_time import ManualClock

SecureClient = Callable[..., AbstractAsyncContextManager[RestClient]]
WritePair = Callable[[str], None]


async def name_seen(client: RestClient) -> str:
    return (await client.get(PODS, "web", namespace="default")).metadata.name


async def test_server_certificate_is_verified(secure_client: SecureClient) -> None:
    """The cluster's authority and server name apply, unless verification is switched off."""
    async with secure_client({}) as client:
        assert await name_seen(client) == "|"
    trusted = {"certificate-authority": "ca.crt"}
    async with secure_client({}, {**trusted, "tls-server-name": "api.internal"}) as client:
        assert await name_seen(client) == "|"
    async with secure_client({}, {"insecure-skip-tls-verify": True}) as client:
        assert await name_seen(client) == "|"
    for cluster in ({**trusted, "tls-server-name": "other.internal"}, {"tls-server-name": ""}):
        async with secure_client({}, cluster) as client:
            with pytest.raises(NotReached, match="certificate verify failed"):
                await name_seen(client)


async def test_old_tls_is_refused(secure_client: SecureClient, server_tls: ssl.SSLContext) -> None:
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        server_tls.minimum_version = ssl.TLSVersion.TLSv1
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        server_tls.maximum_version = ssl.TLSVersion.TLSv1_1
    async with secure_client({}) as client:
        with pytest.raises(NotReached):
            await name_seen(client)


async def test_client_certificate_is_shown_and_followed_when_renewed(
    secure_client: SecureClient, write_pair: WritePair, tmp_path: Path
) -> None:
    """New requests use the renewed certificate without a restart."""
    write_pair("system:node:one")
    clock = ManualClock()
    user = {"client-certificate": "client.crt", "client-key": "client.key"}
    async with secure_client(user, clock=clock) as client:
        assert await name_seen(client) == "system:node:one|"
        write_pair("system:node:two")
        clock.advance(11)
        assert await name_seen(client) == "system:node:two|"
        # A half-finished renewal: the certificate is new, the key still old.
        key = (tmp_path / "client.key").read_bytes()
        write_pair("system:node:three")
        new_key = (tmp_path / "client.key").read_bytes()
        (tmp_path / "client.key").write_bytes(key)
        clock.advance(11)
        assert await name_seen(client) == "system:node:two|"
        (tmp_path / "client.key").write_bytes(new_key)
        clock.advance(11)
        assert await name_seen(client) == "system:node:three|"


async def test_client_certificate_that_cannot_be_used_is_an_error(secure_client: SecureClient) -> None:
    user = {"client-certificate-data": "czNjcmV0", "client-key-data": "czNjcmV0"}
    async with secure_client(user) as client:
        with pytest.raises(Unauthorized, match="no TLS connection is possible: the client certificate"):
            await name_seen(client)


async def test_client_certificate_may_be_inline_beside_a_token(
    secure_client: SecureClient, write_pair: WritePair, tmp_path: Path
) -> None:
    write_pair("inline")
    user = {
        "client-certificate-data": base64.b64encode((tmp_path / "client.crt").read_bytes()).decode(),
        "client-key-data": base64.b64encode((tmp_path / "client.key").read_bytes()).decode(),
        "token": "t",
    }
    async with secure_client(user) as client:
        assert await name_seen(client) == "inline|Bearer t"


async def test_token_file_renewed_is_used_after_a_401(
    secure_client: SecureClient, write_pair: WritePair, tmp_path: Path
) -> None:
    """The file is read again at once, not after a minute; a token that stays rejected is an error."""
    (tmp_path / "token").write_text("fresh")
    async with secure_client({"tokenFile": "token"}) as client:
        assert await name_seen(client) == "|Bearer fresh"
    (tmp_path / "token").write_text("old")
    async with secure_client({"tokenFile": "token"}) as client:
        with pytest.raises(Unauthorized, match=r"who\?"):
            await name_seen(client)
        (tmp_path / "token").write_text("new")
        assert await name_seen(client) == "|Bearer new"


def plugin_user(folder: Path, script: str, **fields: Any) -> dict[str, Any]:
    """A kubeconfig user whose exec plugin is a small Python program."""
    (folder / "plugin.py").write_text(script)
    return {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": sys.executable,
            "args": ["-S", str(folder / "plugin.py")],
            "interactiveMode": "IfAvailable",
            **fields,
        }
    }


TOKEN_PLUGIN = """
import json, os, pathlib, sys
info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
count = pathlib.Path(__file__).with_name("count")
number = len(count.read_text()) if count.exists() else 0
count.write_text("x" * (number + 1))
token = "-".join([os.environ.get("WHO", ""), str(number), str(info["spec"]["interactive"]),
                  info["spec"].get("cluster", {}).get("server", "")[:8], repr(sys.stdin.read())])
if os.environ.get("OLD_FIRST") and number == 0:
    token = "old"
status = {"token": token}
if os.environ.get("EXPIRES"):
    status["expirationTimestamp"] = os.environ["EXPIRES"]
print(json.dumps({"kind": "ExecCredential", "apiVersion": info["apiVersion"], "status": status}))
"""


async def test_plugin_gives_a_token_once_until_it_expires(
    secure_client: SecureClient, write_pair: WritePair, tmp_path: Path
) -> None:
    """The plugin gets its environment, arguments and cluster info, and an empty stdin."""
    env = [{"name": "WHO", "value": "me"}, {"name": "EXPIRES", "value": "2026-01-01T00:10:00Z"}]
    user = plugin_user(tmp_path, TOKEN_PLUGIN, env=env, provideClusterInfo=True)
    clock = ManualClock()
    async with secure_client(user, clock=clock) as client:
        names = await asyncio.gather(*(name_seen(client) for _ in range(5)))
        assert set(names) == {"|Bearer me-0-False-https://-''"}
        clock.advance(600)
        assert "me-0" in await name_seen(client)
        clock.advance(1)
        assert "me-1" in await name_seen(client)


async def test_plugin_runs_again_after_a_401(
    secure_client: SecureClient, write_pair: WritePair, tmp_path: Path
) -> None:
    user = plugin_user(tmp_path, TOKEN_PLUGIN, env=[{"name": "OLD_FIRST", "value": "1"}])
    async with secure_client(user) as client:
        assert "Bearer -1-" in await name_seen(client)
        assert "Bearer -1-" in await name_seen(client)


async def test_plugin_gives_a_client_certificate(
    secure_client: SecureClient, write_pair: WritePair, tmp_path: Path
) -> None:
    write_pair("from-plugin")
    script = """
import json, pathlib
folder = pathlib.Path(__file__).parent
status = {"clientCertificateData": (folder / "client.crt").read_text(), "clientKeyData": (folder / "client.key").read_text()}
print(json.dumps({"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1", "status": status}))
"""
    async with secure_client(plugin_user(tmp_path, script)) as client:
        assert await name_seen(client) == "from-plugin|"


@pytest.mark.parametrize(
    ("script", "fields", "message"),
    [
        ("raise SystemExit(3)", {}, "failed with exit code 3"),
        ("print('s3cret')", {}, "its output is no ExecCredential"),
        ("print('s3cret' * 1_000_000)", {}, "wrote more than 1048576 bytes"),
        ("", {"command": "no-such-plugin", "installHint": "get it there"}, "no-such-plugin not found\n\nget it there"),
        ("", {"command": "./plugin.py"}, "cannot be run: Permission denied"),
    ],
    ids=["fails", "nonsense", "too much", "missing", "not executable"],
)
async def test_plugin_that_fails_is_an_error_that_says_why(
    secure_client: SecureClient,
    write_pair: WritePair,
    tmp_path: Path,
    script: str,
    fields: dict[str, Any],
    message: str,
) -> None:
    user = plugin_user(tmp_path, script, **fields)
    async with secure_client(user) as client:
        with pytest.raises(Unauthorized) as caught:
            await name_seen(client)
    assert message in str(caught.value)
    assert "s3cret" not in str(caught.value)


async def test_plugin_gets_no_standard_input_and_runs_again_only_for_its_newest_credential(tmp_path: Path) -> None:
    """Several requests may report the same rejected credential."""
    command = ("-c", """read line; echo x >>"$0"; wc -l <"$0" >"$0.n"; read number <"$0.n"
        echo '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"token":"'$line$number'"}}'
    """, str(tmp_path / "runs"))  # fmt: skip
    plugin = ExecPlugin(command="sh", args=command, api_version="client.authentication.k8s.io/v1")
    credentials = ExecCredentials(plugin, environment={"PATH": "/usr/bin:/bin"}, clock=SystemClock())
    reading, writing = os.pipe()
    ours = os.dup(0)
    os.write(writing, b"stolen\n")
    os.dup2(reading, 0)
    try:
        first = await credentials.current()
    finally:
        os.dup2(ours, 0)
        for file in (reading, writing, ours):
            os.close(file)
    assert first.authorization == "Bearer 1"
    await credentials.rejected(first)
    second = await credentials.current()
    await credentials.rejected(first)
    assert await credentials.current() is second


async def test_plugin_that_hangs_is_ended() -> None:
    """Its process is killed after the timeout."""
    plugin = ExecPlugin(command="sleep", args=("60",), api_version="client.authentication.k8s.io/v1")
    credentials = ExecCredentials(
        plugin, environment={"PATH": "/usr/bin:/bin"}, clock=SystemClock(), timeout_seconds=0.1
    )
    with pytest.raises(CredentialError, match=r"gave no credentials within 0.1 s"):
        await credentials.current()
