"""Credentials from a plugin: a program that prints them. The only door to a subprocess.

In: an `ExecPlugin`. Out: the `Credential` it gave, kept until it expires or the server refuses it. The program gets a
list of arguments (no shell), no standard input, and a time limit.

Upstream: client-go/plugin/pkg/client/auth/exec/exec.go.
"""

import asyncio
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Mapping
from contextlib import suppress

from pykubelet.aio.clock import Clock
from pykubelet.kube.credential_error import CredentialError
from pykubelet.kube.credentials import Credential, bearer
from pykubelet.kube.exec_info import ExecAnswer, ExecPlugin, exec_info, read_exec_answer

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
