"""Credentials of a client: tokens, token files, client certificates; and its `RestConfig`.

Files are read again when they change, and at once after the server rejected their content.

Upstream: staging/src/k8s.io/client-go/transport/token_source.go,
staging/src/k8s.io/client-go/transport/round_trippers.go, staging/src/k8s.io/client-go/rest/config.go
"""

import asyncio
import base64
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.client.transport import ClientKeyPair, CredentialError, PemFiles, PemSource, ServerTrust

log = get_logger(__name__)

TOKEN_SECONDS = 60.0
"""A projected service account token is valid for at least ten minutes and is renewed two minutes before it expires."""


@dataclass(frozen=True, slots=True)
class Credential:
    """The credential of one request: an Authorization header, a client certificate, both or neither."""

    authorization: str = field(default="", repr=False)
    pair: ClientKeyPair | None = None


class ClientCredentials(Protocol):
    """Supplies the credential of each request."""

    async def current(self) -> Credential:
        """The current credential; CredentialError if there is none."""

    async def rejected(self, credential: Credential) -> None:
        """The server answered 401: the next `current` looks for a newer credential."""


def bearer(token: str) -> str:
    """The Authorization header of a bearer token."""
    return f"Bearer {token}"


def basic(username: str, password: str) -> str:
    """The Authorization header of a user name and password."""
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()


class TokenFile:
    """A token in a file that another program renews."""

    def __init__(self, path: str, *, setting: str, clock: Clock, fallback: str = "") -> None:
        """`fallback` is used until the file could be read; `setting` says where the path was configured."""
        self._path, self._setting, self._clock = path, setting, clock
        self._token = fallback
        self._read_at = float("-inf")

    async def token(self) -> str:
        """The token, at most a minute old; the last valid one while the file cannot be read."""
        now = self._clock.monotonic()
        if now - self._read_at >= TOKEN_SECONDS:
            try:
                self._token = await asyncio.to_thread(self._read)
                self._read_at = now
            except CredentialError as error:
                if not self._token:
                    raise
                log.warning("token file unreadable, keeping the last token", error=error)
        return self._token

    def read_again(self) -> None:
        """Force the next `token` to read the file."""
        self._read_at = float("-inf")

    def _read(self) -> str:
        try:
            token = Path(self._path).read_text().strip()
        except (OSError, ValueError) as error:
            raise CredentialError(f"{self._setting}: cannot read {self._path}: {_cause(error)}") from error
        if not token:
            raise CredentialError(f"{self._setting}: {self._path} is empty")
        return token


class UserCredentials:
    """Credentials of a kubeconfig user without a plugin: inline or from files; anonymous if nothing is given."""

    def __init__(
        self, *, authorization: str = "", token_file: TokenFile | None = None, pair: PemFiles | None = None
    ) -> None:
        """`pair` holds certificate and key, in this order. The token file takes precedence over `authorization`."""
        self._authorization, self._token_file, self._pair = authorization, token_file, pair
        self._last_pair: ClientKeyPair | None = None

    async def current(self) -> Credential:
        authorization = bearer(await self._token_file.token()) if self._token_file else self._authorization
        if self._pair is None:
            return Credential(authorization)
        certificate, key = await self._pair.read()
        if self._last_pair is None or (self._last_pair.certificate, self._last_pair.key) != (certificate, key):
            self._last_pair = ClientKeyPair(certificate, key)
        return Credential(authorization, self._last_pair)

    async def rejected(self, credential: Credential) -> None:  # noqa: ARG002  the files are read again in any case
        if self._token_file:
            self._token_file.read_again()
        if self._pair:
            self._pair.read_again()


class RotatingCertificate:
    """The credentials of a kubeconfig, until a renewed certificate replaces them."""

    def __init__(self, given: ClientCredentials, *, clock: Clock) -> None:
        self._given, self._clock = given, clock
        self._renewed: UserCredentials | None = None

    def use(self, path: Path) -> None:
        """Use the certificate and key in this file from now on, also when it is replaced."""
        pem = PemSource("the node's client certificate", path=str(path))
        self._renewed = UserCredentials(pair=PemFiles(pem, pem, clock=self._clock))

    async def current(self) -> Credential:
        return await (self._renewed or self._given).current()

    async def rejected(self, credential: Credential) -> None:
        await (self._renewed or self._given).rejected(credential)


def _cause(error: Exception) -> str:
    """The cause of an error without anything of the file's content."""
    return error.strerror or type(error).__name__ if isinstance(error, OSError) else "it is not text"


@dataclass(frozen=True, slots=True)
class RestConfig:
    """How to reach an API server. `server` is an http or https URL, possibly with a path."""

    server: str
    credentials: ClientCredentials
    trust: ServerTrust = field(default_factory=ServerTrust)
    namespace: str = "default"
