"""Real TLS between a server and its clients with the server's certificates."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from pykubelet.aio.clock import SystemClock
from pykubelet.aio.ids import RandomIds
from pykubelet.apiserver.authentication.authenticator import Authenticator
from pykubelet.apiserver.authentication.serviceaccount import ServiceAccountTokens
from pykubelet.apiserver.certs.certificates import CertificateKeyPair, issue_client
from pykubelet.apiserver.certs.pki import Pki, TlsFiles, open_pki, server_context
from pykubelet.apiserver.storage.interfaces import StoreEntry, StoreKey

NOW = SystemClock().now()


class Empty:
    """An empty store for the service account tokens."""

    def get(self, key: StoreKey) -> StoreEntry | None:
        return None


def opened(folder: Path) -> Pki:
    return open_pki(folder / "pki", hosts=("127.0.0.1",), now=NOW)


@asynccontextmanager
async def serving(context: ssl.SSLContext, pki: Pki) -> AsyncIterator[int]:
    """A server that answers each client with its user name and groups."""
    clock = SystemClock()
    tokens = ServiceAccountTokens(pki.signing_key, Empty().get, clock=clock, ids=RandomIds())
    authenticator = Authenticator(tokens, clock=clock)

    async def tell(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = writer.get_extra_info("ssl_object")
        user = authenticator.authenticate({}, connection.getpeercert(binary_form=True))
        writer.write(f"{user.name} {','.join(user.groups)}\n".encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(tell, "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1]


def client_context(folder: Path, authority: bytes, pair: CertificateKeyPair | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=authority.decode())
    if pair is not None:
        path = folder / "client.pem"
        path.write_bytes(pair.certificate_pem + pair.key_pem)
        context.load_cert_chain(path)
    return context


async def told(port: int, context: ssl.SSLContext, host: str = "localhost") -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=host)
    try:
        line = (await reader.readline()).decode().strip()
        if not line:
            raise ConnectionResetError("the server hung up")
        return line
    finally:
        writer.close()


async def test_client_is_known_by_its_certificate(tmp_path: Path) -> None:
    """A client without a certificate is anonymous; the server certificate is valid for all of its names."""
    pki = opened(tmp_path)
    authority = pki.authority.certificate_pem
    async with serving(server_context(pki), pki) as port:
        alice = client_context(tmp_path, authority, pki.client("alice", ("g1", "g2"), NOW))
        assert await told(port, alice) == "alice g1,g2,system:authenticated"
        nobody = client_context(tmp_path, authority, None)
        for host in ("localhost", "127.0.0.1", "::1", "kubernetes.default.svc"):
            assert await told(port, nobody, host) == "system:anonymous system:unauthenticated"
        with pytest.raises(ssl.SSLCertVerificationError):
            await told(port, nobody, "other.example")


async def test_certificate_of_another_authority_or_an_expired_one_is_refused(tmp_path: Path) -> None:
    """The client does not trust a server of another authority either."""
    pki, other = opened(tmp_path), opened(tmp_path / "other")
    authority = pki.authority.certificate_pem
    over = issue_client(pki.authority, "alice", (), NOW - timedelta(days=400))
    async with serving(server_context(pki), pki) as port:
        for pair in (other.client("alice", (), NOW), over):
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await told(port, client_context(tmp_path, authority, pair))
        with pytest.raises(ssl.SSLCertVerificationError):
            await told(port, client_context(tmp_path, other.authority.certificate_pem, None))


async def test_server_certificate_does_not_make_a_client(tmp_path: Path) -> None:
    """Its extended key usage allows only server authentication."""
    pki = opened(tmp_path)
    async with serving(server_context(pki), pki) as port:
        context = client_context(tmp_path, pki.authority.certificate_pem, pki.serving)
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await told(port, context)


async def test_clients_of_an_additional_authority_are_accepted(tmp_path: Path) -> None:
    """Clients of the server's own authority are accepted as well."""
    pki, other = opened(tmp_path), opened(tmp_path / "other")
    context = server_context(pki, TlsFiles(client_authority=tmp_path / "other/pki/ca.crt"))
    async with serving(context, pki) as port:
        for issuer, name in ((other, "theirs"), (pki, "ours")):
            client = client_context(tmp_path, pki.authority.certificate_pem, issuer.client(name, (), NOW))
            assert await told(port, client) == f"{name} system:authenticated"


async def test_renewed_certificate_is_served_to_new_connections(tmp_path: Path) -> None:
    """The server keeps its TLS context, and clients keep trusting the same authority."""
    pki = opened(tmp_path)
    context = server_context(pki)
    async with serving(context, pki) as port:
        client = client_context(tmp_path, pki.authority.certificate_pem, None)
        await told(port, client)
        renewed = open_pki(tmp_path / "pki", hosts=("fresh.example",), now=NOW)
        context.load_cert_chain(tmp_path / "pki/apiserver.crt", tmp_path / "pki/apiserver.key")
        assert renewed.serving.certificate != pki.serving.certificate
        assert await told(port, client, "fresh.example") == "system:anonymous system:unauthenticated"
