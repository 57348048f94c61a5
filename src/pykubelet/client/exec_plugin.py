"""Credential plugins: runs the program of a kubeconfig user and keeps the credentials it prints.

A credential is kept until it expires or the server rejects it. The program is run without a shell and standard input,
with a time limit.

Upstream: staging/src/k8s.io/client-go/plugin/pkg/client/auth/exec/exec.go, staging/src/k8s.io/client-go/rest/exec.go
"""

import asyncio
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from pykubelet.aio.clock import Clock
from pykubelet.api import serializer
from pykubelet.api.serializer import Document
from pykubelet.api.times import parse_time
from pykubelet.client.transport import ClientKeyPair, Credential, CredentialError, bearer

API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
MAX_OUTPUT_BYTES = 1 << 20
PLUGIN_SECONDS = 60.0
"""Cloud plugins call remote services; a hung one must not block the node for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecPlugin:
    """The command of a credential plugin. Arguments and environment may hold secrets."""

    command: str
    args: tuple[str, ...] = field(default=(), repr=False)
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    api_version: str
    install_hint: str = ""
    cluster: Document | None = field(default=None, repr=False)
    """The cluster information for the plugin; None if it does not request it."""


@dataclass(frozen=True, slots=True)
class ExecCredential:
    """The credentials that a plugin printed, and when they expire."""

    token: str = field(default="", repr=False)
    pair: ClientKeyPair | None = None
    expires_at: datetime | None = None


class _ExecCredentialStatus(msgspec.Struct, frozen=True, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: str = ""


class _ExecCredentialDocument(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: _ExecCredentialStatus | None = None


def exec_info(plugin: ExecPlugin) -> str:
    """The plugin's KUBERNETES_EXEC_INFO. Plugins get no standard input, so they are never interactive."""
    spec: Document = {"interactive": False}
    if plugin.cluster is not None:
        spec = {"cluster": plugin.cluster, **spec}
    return serializer.encode({"kind": "ExecCredential", "apiVersion": plugin.api_version, "spec": spec}).decode()


def read_exec_credential(plugin: ExecPlugin, output: bytes) -> ExecCredential:
    """Decode a plugin's output; CredentialError explains what is wrong without showing it."""
    try:
        answer = serializer.decode(output, _ExecCredentialDocument)
    except serializer.DecodeError as error:
        raise CredentialError(f"exec plugin {plugin.command}: its output is no ExecCredential: {error}") from None
    if answer.kind != "ExecCredential" or answer.api_version != plugin.api_version:
        raise CredentialError(
            f"exec plugin {plugin.command} is configured to use API version {plugin.api_version}, "
            f"plugin returned version {answer.api_version} of {answer.kind or 'no kind'}"
        )
    if answer.status is None:
        raise CredentialError(f"exec plugin {plugin.command} didn't return a status field")
    return _checked(plugin, answer.status)


def _checked(plugin: ExecPlugin, status: _ExecCredentialStatus) -> ExecCredential:
    certificate, key = status.client_certificate_data, status.client_key_data
    if not (status.token or certificate or key):
        raise CredentialError(f"exec plugin {plugin.command} didn't return a token or cert/key pair")
    if bool(certificate) != bool(key):
        raise CredentialError(f"exec plugin {plugin.command} returned only certificate or key, not both")
    try:
        expires_at = parse_time(status.expiration_timestamp) if status.expiration_timestamp else None
    except ValueError as error:
        raise CredentialError(f"exec plugin {plugin.command}: expirationTimestamp: {error}") from error
    pair = ClientKeyPair(certificate.encode(), key.encode()) if certificate else None
    return ExecCredential(status.token, pair, expires_at)


class ExecCredentials:
    """The credentials of one plugin; concurrent callers share one run."""

    def __init__(
        self,
        plugin: ExecPlugin,
        *,
        environment: Mapping[str, str],
        clock: Clock,
        timeout_seconds: float = PLUGIN_SECONDS,
    ) -> None:
        self._plugin, self._environment, self._clock = plugin, environment, clock
        self._timeout_seconds = timeout_seconds
        self._answer: ExecCredential | None = None
        self._credential = Credential()
        self._running = asyncio.Lock()

    async def current(self) -> Credential:
        async with self._running:
            if self._answer is None or self._is_expired(self._answer):
                self._answer = None
                answer = read_exec_credential(self._plugin, await self._output())
                self._answer = answer
                self._credential = Credential(bearer(answer.token) if answer.token else "", answer.pair)
            return self._credential

    async def rejected(self, credential: Credential) -> None:
        # The rejection of an older credential does not concern the newest.
        if credential is self._credential:
            self._answer = None

    def _is_expired(self, answer: ExecCredential) -> bool:
        return answer.expires_at is not None and self._clock.now() > answer.expires_at

    async def _output(self) -> bytes:
        plugin = self._plugin
        environment = {**self._environment, **dict(plugin.env), "KUBERNETES_EXEC_INFO": exec_info(plugin)}
        try:
            process = await asyncio.create_subprocess_exec(
                plugin.command, *plugin.args, stdin=DEVNULL, stdout=PIPE, env=environment
            )
        except OSError as error:
            hint = f"\n\n{plugin.install_hint}" if plugin.install_hint else ""
            reason = "not found" if isinstance(error, FileNotFoundError) else f"cannot be run: {error.strerror}"
            raise CredentialError(f"exec: executable {plugin.command} {reason}{hint}") from error
        try:
            async with asyncio.timeout(self._timeout_seconds):
                output = await _read_all(process)
                code = await process.wait() if output is not None else None
        except TimeoutError as error:
            text = f"exec: executable {plugin.command} gave no credentials within {self._timeout_seconds:g} s"
            raise CredentialError(text) from error
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        if output is None:
            raise CredentialError(f"exec: executable {plugin.command} wrote more than {MAX_OUTPUT_BYTES} bytes")
        if code != 0:
            raise CredentialError(f"exec: executable {plugin.command} failed with exit code {code}")
        return output


async def _read_all(process: asyncio.subprocess.Process) -> bytes | None:
    """The whole output; None if it is too large."""
    assert process.stdout is not None
    output = bytearray()
    while chunk := await process.stdout.read(1 << 16):
        output += chunk
        if len(output) > MAX_OUTPUT_BYTES:
            return None
    return bytes(output)
