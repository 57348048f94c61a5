"""Who we are, at this moment: an Authorization header, a client certificate, both or neither.

In: what a kubeconfig names. Out: a `Credential` for the next request. Files are read again as they change, and at once
after the server refused what they held.

Upstream: client-go/transport/token_source.go, round_trippers.go.

How to reach one API server: where it is, whom to trust, who we are.
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
"""A projected service account token lives ten minutes at least and is renewed two minutes before its end."""


@dataclass(frozen=True, slots=True)
class Credential:
    """What one request shows; equal if the server could not tell the difference."""

    authorization: str = field(default="", repr=False)
    pair: ClientKeyPair | None = None


class ClientCredentials(Protocol):
    """Gives the credential for each request."""

    async def current(self) -> Credential:
        """The credential to use now; CredentialError if there is none to be had."""

    async def rejected(self, credential: Credential) -> None:
        """The server answered 401 to it: the next `current` looks for a newer one."""


def bearer(token: str) -> str:
    """The Authorization header of a token."""
    return f"Bearer {token}"


def basic(username: str, password: str) -> str:
    """The Authorization header of a name and password."""
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()


class TokenFile:
    """A token in a file that someone renews."""

    def __init__(self, path: str, *, setting: str, clock: Clock, fallback: str = "") -> None:
        """`fallback` is used until the file could be read; `setting` says where the path was configured."""
        self._path, self._setting, self._clock = path, setting, clock
        self._token = fallback
        self._read_at = float("-inf")

    async def token(self) -> str:
        """The token, at most a minute old; the last good one while the file cannot be read."""
        now = self._clock.monotonic()
        if now - self._read_at >= TOKEN_SECONDS:
            try:
                self._token = await asyncio.to_thread(self._read)
                self._read_at = now
            except CredentialError as error:
                if not self._token:
                    raise
                log.warning("the token file cannot be read; the last token stays in use", error=error)
        return self._token

    def read_again(self) -> None:
        """Make the next `token` read the file."""
        self._read_at = float("-inf")

    def _read(self) -> str:
        try:
            token = Path(self._path).read_text().strip()
        except (OSError, ValueError) as error:
            raise CredentialError(f"{self._setting}: cannot read {self._path}: {_why(error)}") from error
        if not token:
            raise CredentialError(f"{self._setting}: {self._path} is empty")
        return token


class UserCredentials:
    """A user of a kubeconfig without a plugin: fixed or from files; with nothing given, anonymous."""

    def __init__(
        self, *, authorization: str = "", token_file: TokenFile | None = None, pair: PemFiles | None = None
    ) -> None:
        """`pair` holds certificate and key, in this order. The token file wins over `authorization`."""
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

    async def rejected(self, credential: Credential) -> None:  # noqa: ARG002  files are looked at whichever it was
        if self._token_file:
            self._token_file.read_again()
        if self._pair:
            self._pair.look_again()


class RotatingCertificate:
    """The credentials of a kubeconfig, until there is a file with a certificate and key that are newer."""

    def __init__(self, given: ClientCredentials, *, clock: Clock) -> None:
        self._given, self._clock = given, clock
        self._renewed: UserCredentials | None = None

    def use(self, path: Path) -> None:
        """Show the pair in this file from now on, as it is replaced."""
        pem = PemSource("the node's client certificate", path=str(path))
        self._renewed = UserCredentials(pair=PemFiles(pem, pem, clock=self._clock))

    async def current(self) -> Credential:
        return await (self._renewed or self._given).current()

    async def rejected(self, credential: Credential) -> None:
        await (self._renewed or self._given).rejected(credential)


def _why(error: Exception) -> str:
    """An error in words that show nothing of the file's content."""
    return error.strerror or type(error).__name__ if isinstance(error, OSError) else "it is not text"


@dataclass(frozen=True, slots=True)
class RestConfig:
    """What a client needs to know of a cluster. `server` is an http or https URL, perhaps with a path."""

    server: str
    credentials: ClientCredentials
    trust: ServerTrust = field(default_factory=ServerTrust)
    namespace: str = "default"
