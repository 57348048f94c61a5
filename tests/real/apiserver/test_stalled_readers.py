"""Clients that request large responses and do not read them."""

import asyncio
import ssl
from contextlib import suppress
from pathlib import Path

import pytest

from pykubelet.aio.clock import SystemClock
from pykubelet.aio.ids import RandomIds
from pykubelet.apiserver.filters import limits
from pykubelet.app.apiserver import serving
from pykubelet.app.settings import ApiServerSettings

TARGET = "/api/v1/namespaces/default/configmaps"


def request(method: str, target: str, body: bytes = b"") -> bytes:
    head = f"{method} {target} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer t\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


@pytest.mark.parametrize("query", ["", "?watch=true"], ids=["list", "watch"])
async def test_reader_that_takes_nothing_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    """A client that does not read its list or watch of 18 MB is disconnected."""
    monkeypatch.setattr(limits, "STALLED_SECONDS", 0.3)
    tokens = tmp_path / "tokens"
    tokens.write_text('t,admin,1,"system:masters"\n')
    settings = ApiServerSettings(data_dir=tmp_path / "data", port=0, token_file=tokens)
    async with serving(settings, clock=SystemClock(), ids=RandomIds()) as served:
        port = int(served.url.rpartition(":")[2])
        tls = ssl.create_default_context(cafile=tmp_path / "data" / "pki" / "ca.crt")
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
        for number in range(20):
            body = b'{"metadata":{"name":"c%d"},"data":{"a":"%s"}}' % (number, b"x" * 900_000)
            writer.write(request("POST", TARGET, body))
            assert b"201 Created" in await reader.readuntil(b"\r\n\r\n")
            while not (await reader.read(2**20)).endswith(b"}"):
                pass
        stalled_reader, stalled = await asyncio.open_connection("127.0.0.1", port, ssl=tls, limit=1)
        stalled.write(request("GET", TARGET + query))
        await asyncio.sleep(1)
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await stalled_reader.readexactly(18_000_000)
        for each in (stalled, writer):
            each.close()
            with suppress(OSError):
                await each.wait_closed()
