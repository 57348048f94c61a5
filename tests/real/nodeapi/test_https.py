"""The node's API over real TLS sockets: authentication, pages, malformed requests, and certificates."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from node_api_rig import Authority, NodeRig, anonymous, own_tls, standalone
from pykubelet.aio.clock import SystemClock
from pykubelet.client.transport import PemSource
from pykubelet.kubelet.server import server
from pykubelet.kubelet.server.auth import CertificateOnlyAccess
from pykubelet.kubelet.server.certificate import (
    SelfSignedRenewal,
    ServingError,
    ServingFiles,
    self_signed_certificate,
    server_context,
)
from pykubelet.runtimes.protocol import RuntimeFailure
from pykubelet.testing.build import static_pod
from pykubelet.testing.virtual_time import ManualClock

Node = tuple[NodeRig, str, ssl.SSLContext]


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    async with standalone(tmp_path) as made:
        yield made


async def get(url: str, tls: ssl.SSLContext, *, method: str = "GET", **options: Any) -> tuple[int, str]:
    """Status code and text of a response."""
    connector = aiohttp.TCPConnector(ssl=tls)
    async with aiohttp.ClientSession(connector=connector) as http, http.request(method, url, **options) as response:
        return response.status, await response.text()


async def test_only_certificates_of_the_authority_get_in(node: Node, tmp_path: Path) -> None:
    """No certificate, or a token without an API server, gets 401; a foreign certificate fails the handshake."""
    _, url, admin = node
    assert await get(f"{url}/healthz", admin) == (200, "ok")
    assert await get(f"{url}/healthz", anonymous()) == (401, "Unauthorized")
    bearer = {"Authorization": "Bearer token"}
    assert await get(f"{url}/healthz", anonymous(), headers=bearer) == (401, "Unauthorized")
    (tmp_path / "other").mkdir()
    stranger = Authority(tmp_path / "other").client("admin")
    with pytest.raises(aiohttp.ClientError):
        await get(f"{url}/healthz", stranger)


async def test_node_without_an_authority_refuses_everyone(tmp_path: Path) -> None:
    """No client can authenticate."""
    rig = NodeRig(tmp_path)
    async with rig.serving(own_tls(tmp_path, None), CertificateOnlyAccess()) as port:
        stranger = Authority(tmp_path).client("admin")
        assert await get(f"https://127.0.0.1:{port}/pods", stranger) == (401, "Unauthorized")


async def test_pages_show_pods_and_usage(node: Node) -> None:
    """The pages are those that scrapers and people use."""
    rig, url, admin = node
    rig.add_pod(static_pod("static-node-1"))
    rig.add_pod()
    _, pods = await get(f"{url}/pods", admin)
    phases = {item["metadata"]["name"]: item["status"]["phase"] for item in json.loads(pods)["items"]}
    assert phases == {"static-node-1": "Running", "web": "Pending"}
    code, running = await get(f"{url}/runningpods/", admin)
    assert (code, len(json.loads(running)["items"])) == (200, 2)
    _, summary = await get(f"{url}/stats/summary", admin)
    assert json.loads(summary)["node"]["memory"]["workingSetBytes"] > 0
    pages = {
        "/metrics": 'kubelet_http_requests_total{long_running="false",method="GET",path="pods",server_type="readwrite"} 1.0',
        "/metrics/resource": "node_cpu_usage_seconds_total",
        "/metrics/cadvisor": "machine_cpu_cores",
        "/metrics/probes": "process_start_time_seconds",
    }
    for path, expected in pages.items():
        code, text = await get(f"{url}{path}", admin)
        assert code == 200
        assert expected in text
    assert await get(f"{url}/nothing", admin) == (404, "404 page not found\n")


async def test_pages_say_when_the_runtime_does_not_answer(node: Node) -> None:
    """Pages that need the runtime give 500; resource metrics report a scrape error."""
    rig, url, admin = node
    rig.runtime.failure = RuntimeFailure("the runtime is down")
    assert await get(f"{url}/runningpods/", admin) == (500, "the runtime is down")
    assert (await get(f"{url}/stats/summary", admin))[0] == 500
    code, text = await get(f"{url}/metrics/resource", admin)
    assert (code, "resource_scrape_error 1.0" in text) == (200, True)


async def test_log_says_why_there_is_none(node: Node) -> None:
    """The status codes and messages are upstream's."""
    rig, url, admin = node
    given = rig.add_pod()
    logs = f"{url}/containerLogs/default"
    assert await get(f"{logs}/nobody/main", admin) == (404, 'pod "nobody" does not exist')
    assert await get(f"{logs}/web/other", admin) == (404, 'container "other" not found in pod "web"')
    assert await get(f"{logs}//main", admin) == (400, '{"message": "Missing podID."}')
    assert await get(f"{logs}/web/main?tailLines=x", admin) == (400, '{"message": "Unable to decode query."}')
    assert await get(f"{logs}/web/main?tail=-1", admin) == (422, '{"message": "Invalid request."}')
    code, text = await get(f"{logs}/web/main?previous=true", admin)
    assert (code, text) == (400, 'previous terminated container "main" in pod "web" not found')
    code, text = await get(f"{logs}/web/main", admin)
    assert (code, text[:20]) == (400, "failed to open log f")
    rig.log_path(given).write_text("2026-01-02T03:04:05Z stdout F hi\n")
    assert await get(f"{logs}/web/main?timestamps=1", admin) == (200, "2026-01-02T03:04:05.000000000Z hi\n")


@pytest.mark.parametrize(
    "sent",
    [
        b"nonsense\r\n\r\n",
        b"GET /pods HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 2_000_000 + b"\r\n\r\n",
        b"GET https://node/pods HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        b"GET /exec/default/web/main?output=1&command=id HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        b"GET /exec/default/web/main?output=1 HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        b"POST /exec/default/web/main?output=1 HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n",
        b"POST /exec/default/web/main HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        b"GET /containerLogs/d%ff/web/main?tailLines=\xff HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    ],
    ids=[
        "no http",
        "huge header",
        "absolute target",
        "no upgrade",
        "half a websocket",
        "spdy without version",
        "nothing",
        "no text",
    ],
)
async def test_what_breaks_the_rules_is_answered_with_a_refusal(node: Node, sent: bytes) -> None:
    """Each malformed request gets 400, and the node keeps serving."""
    rig, url, admin = node
    rig.add_pod()
    reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]), ssl=admin)
    writer.write(sent)
    line = await asyncio.wait_for(reader.readline(), 10)
    writer.close()
    assert line.split()[1] == b"400"
    assert await get(f"{url}/healthz", admin) == (200, "ok")


async def test_exec_over_a_web_socket_of_other_clients(node: Node) -> None:
    """Clients may use version 4 in base64, as a browser does, or no subprotocol."""
    rig, url, admin = node
    rig.add_pod()
    target = f"{url}/exec/default/web/main?output=1&command=echo&command=hi"
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=admin)) as http:
        async with http.ws_connect(target, protocols=["v4.base64.channel.k8s.io"]) as socket:
            assert socket.protocol == "v4.base64.channel.k8s.io"
            heard = [message.data async for message in socket]
            assert heard[:2] == ["1", "1aGkK"]
            assert heard[2].startswith("3")
        async with http.ws_connect(target) as socket:
            assert [message.data async for message in socket] == [b"\x01", b"\x01hi\n"]


async def test_port_forward_over_the_channels_of_a_web_socket(node: Node) -> None:
    """The ports are in the query, and each channel begins with its port number."""
    rig, url, admin = node
    rig.add_pod()

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello " + await reader.readline())
        writer.close()

    program = await asyncio.start_server(greet, "127.0.0.1", 0)
    port = program.sockets[0].getsockname()[1]
    target = f"{url}/portForward/default/web?port={port}"
    async with (
        program,
        aiohttp.ClientSession() as http,
        http.ws_connect(target, protocols=["v4.channel.k8s.io"], ssl=admin) as socket,
    ):
        await socket.send_bytes(b"\x00you\n")
        heard = [message.data async for message in socket]
    number = port.to_bytes(2, "little")
    assert heard == [b"\x00" + number, b"\x01" + number, b"\x00hello you\n"]


async def test_run_takes_its_command_from_a_form(node: Node) -> None:
    """A form that is too large gets 413."""
    rig, url, admin = node
    rig.add_pod()
    target = f"{url}/run/default/web/main"
    assert await get(target, admin, method="POST", data={"cmd": "echo hi there"}) == (200, "hi there\n")
    assert (await get(target, admin, method="POST", data={"cmd": "x" * 100_000}))[0] == 413
    # curl sends a body that it considers long only after `100 Continue`.
    assert await get(target, admin, method="POST", data={"cmd": "echo hi"}, expect100=True) == (200, "hi\n")


async def test_connection_over_which_nothing_is_said_is_ended(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """An idle connection is closed, and its command is ended."""
    monkeypatch.setattr(server, "IDLE_SECONDS", 0.3)
    rig, url, admin = node
    rig.add_pod()
    target = f"{url}/exec/default/web/main?output=1&command=sh&command=-c&command=echo+up%3Bexec+sleep+1000"
    async with aiohttp.ClientSession() as http, http.ws_connect(target, ssl=admin) as socket:
        heard = [message.data async for message in socket]
    assert heard == [b"\x01", b"\x01up\n"]
    assert len(rig.streams.ended) == 1


async def test_followed_log_is_released_when_its_client_disconnects(node: Node) -> None:
    """The request no longer waits for the container to exit."""
    rig, url, admin = node
    rig.log_path(rig.add_pod()).write_text("2026-01-02T03:04:05Z stdout F hi\n")
    async with aiohttp.ClientSession() as http:
        log = await http.get(f"{url}/containerLogs/default/web/main?follow=1", ssl=admin)
        assert await log.content.readline() == b"hi\n"
        log.close()
    async with asyncio.timeout(10):
        while rig.cache._waiting:
            await asyncio.sleep(0.01)
    assert await get(f"{url}/healthz", admin) == (200, "ok")


async def test_connections_are_cut_off_when_the_node_stops(tmp_path: Path) -> None:
    """A followed log and a running command do not delay the stop."""
    async with aiohttp.ClientSession() as http:
        async with standalone(tmp_path) as (rig, url, admin):
            given = rig.add_pod()
            rig.log_path(given).write_text("2026-01-02T03:04:05Z stdout F hi\n")
            log = await http.get(f"{url}/containerLogs/default/web/main?follow=1", ssl=admin)
            assert await log.content.readline() == b"hi\n"
            command = f"{url}/exec/default/web/main?output=1&command=sh&command=-c&command=echo+up%3Bexec+sleep+1000"
            socket = await http.ws_connect(command, protocols=["v5.channel.k8s.io"], ssl=admin)
            assert [await socket.receive_bytes() for _ in range(2)] == [b"\x01", b"\x01up\n"]
            began = asyncio.get_running_loop().time()
        assert asyncio.get_running_loop().time() - began < 2
        assert rig.streams.ended == [["sh", "-c", "echo up;exec sleep 1000"]]
        assert (await socket.receive()).type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED)
        with pytest.raises(aiohttp.ClientPayloadError):
            await log.content.read()
        await socket.close()
        log.close()


def test_own_certificate_is_kept_until_it_is_old_or_others_names_are_wanted(tmp_path: Path) -> None:
    """Its key has mode 0600; a certificate that cannot be read is replaced."""
    now = SystemClock().now()
    files = self_signed_certificate(tmp_path, ["127.0.0.1", "node-1"], now)
    first = files.certificate.read_bytes()
    assert files.key.stat().st_mode & 0o777 == 0o600
    self_signed_certificate(tmp_path, ["node-1"], now + timedelta(days=200))
    assert files.certificate.read_bytes() == first
    self_signed_certificate(tmp_path, ["node-1", "::1"], now)
    second = files.certificate.read_bytes()
    assert second != first
    self_signed_certificate(tmp_path, ["node-1"], now + timedelta(days=300))
    assert files.certificate.read_bytes() != second
    files.certificate.write_text("broken")
    self_signed_certificate(tmp_path, ["node-1"], now)
    assert server_context(files, None).verify_mode is ssl.CERT_NONE


async def test_own_certificate_is_renewed_while_the_node_runs(tmp_path: Path) -> None:
    """A certificate that cannot be written changes nothing."""
    clock = ManualClock()
    served: list[bytes] = []
    names = ["127.0.0.1", "node-1"]
    renewal = SelfSignedRenewal(tmp_path, names, changed=lambda crt, _key: served.append(crt.read_bytes()), clock=clock)
    for days in (0, 200, 100):
        clock.advance(days * 24 * 3600)
        await renewal.check()
    assert served[0] == served[1] != served[2]
    broken = SelfSignedRenewal(tmp_path / "node.key/x", names, changed=lambda *_: served.append(b""), clock=clock)
    (tmp_path / "node.key").write_text("a file in the way")
    await broken.check()
    assert len(served) == 3


def test_files_that_are_no_certificates_are_named(tmp_path: Path) -> None:
    """The error has the path of the file."""
    bad = tmp_path / "bad.crt"
    bad.write_text("no certificate")
    good = self_signed_certificate(tmp_path, ["node-1"], SystemClock().now())
    with pytest.raises(ServingError, match=r"bad\.crt"):
        server_context(ServingFiles(bad, bad), None)
    with pytest.raises(ServingError, match=r"bad\.crt"):
        server_context(good, PemSource("client-ca", path=str(bad)))
