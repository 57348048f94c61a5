"""Credentials from a plugin: a program that prints them. The only door to a subprocess.

In: an `ExecPlugin`. Out: the `Credential` it gave, kept until it expires or the server refuses it. The program gets a
list of arguments (no shell), no standard input, and a time limit.

Upstream: client-go/plugin/pkg/client/auth/exec/exec.go.

What a credential plugin is told, and what it answers.

In: a plugin's settings, or the bytes it wrote. Out: the text for KUBERNETES_EXEC_INFO, or the credentials. No I/O.

Upstream: client-go/plugin/pkg/client/auth/exec/exec.go, client-go/rest/exec.go.
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
from pykubelet.client.credentials import Credential, bearer
from pykubelet.client.transport import ClientKeyPair, CredentialError

API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecPlugin:
    """A program that prints credentials. Arguments and environment may hold secrets."""

    command: str
    args: tuple[str, ...] = field(default=(), repr=False)
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    api_version: str
    install_hint: str = ""
    cluster: Document | None = field(default=None, repr=False)
    """What the plugin is told of the cluster; None if it did not ask."""


@dataclass(frozen=True, slots=True)
class ExecAnswer:
    """What a plugin gave: a token, a key pair or both, and until when."""

    token: str = field(default="", repr=False)
    pair: ClientKeyPair | None = None
    expires_at: datetime | None = None


class _ExecCredentialStatus(msgspec.Struct, frozen=True, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: str = ""


class _Credential(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: _ExecCredentialStatus | None = None


def exec_info(plugin: ExecPlugin) -> str:
    """The plugin's KUBERNETES_EXEC_INFO. It never gets our standard input, so it is never interactive."""
    spec: Document = {"interactive": False}
    if plugin.cluster is not None:
        spec = {"cluster": plugin.cluster, **spec}
    return serializer.encode({"kind": "ExecCredential", "apiVersion": plugin.api_version, "spec": spec}).decode()


def read_exec_answer(plugin: ExecPlugin, output: bytes) -> ExecAnswer:
    """The credentials in what the plugin wrote; CredentialError says what is wrong without showing it."""
    try:
        answer = serializer.decode(output, _Credential)
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


def _checked(plugin: ExecPlugin, status: _ExecCredentialStatus) -> ExecAnswer:
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
    return ExecAnswer(status.token, pair, expires_at)


MAX_OUTPUT_BYTES = 1 << 20
PLUGIN_SECONDS = 60.0
"""Cloud plugins ask services of their own; a stuck one must not hold the node for ever."""


class ExecCredentials:
    """The credentials of one plugin; many may ask at once, the plugin runs once."""

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
        self._answer: ExecAnswer | None = None
        self._credential = Credential()
        self._running = asyncio.Lock()

    async def current(self) -> Credential:
        async with self._running:
            if self._answer is None or self._is_expired(self._answer):
                self._answer = None
                answer = read_exec_answer(self._plugin, await self._output())
                self._answer = answer
                self._credential = Credential(bearer(answer.token) if answer.token else "", answer.pair)
            return self._credential

    async def rejected(self, credential: Credential) -> None:
        # Whoever used an older one has nothing to say about the newest.
        if credential is self._credential:
            self._answer = None

    def _is_expired(self, answer: ExecAnswer) -> bool:
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
    """All it writes; None if that is too much."""
    assert process.stdout is not None
    output = bytearray()
    while chunk := await process.stdout.read(1 << 16):
        output += chunk
        if len(output) > MAX_OUTPUT_BYTES:
            return None
    return bytes(output)
