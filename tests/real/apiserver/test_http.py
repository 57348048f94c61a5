"""The server over HTTP: headers, response formats, limits, and malformed requests."""

import gzip
import json
import socket
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPResponse, HTTPSConnection
from typing import Any, BinaryIO

import pytest

from pykubelet.apiserver.serializer.protobuf_decoder import read_protobuf
from pykubelet.apiserver.serializer.protobuf_messages import MAGIC
from pykubelet_process import ADMIN_TOKEN, ServerProcess

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


class Client:
    """One connection that sends the admin's token by default."""

    def __init__(self, server: ServerProcess, token: str = ADMIN_TOKEN) -> None:
        self._connection = HTTPSConnection("127.0.0.1", server.port, context=server.tls(), timeout=15)
        self._token = token

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[HTTPResponse, bytes]:
        sent = {"Content-Type": "application/json", **{name.replace("_", "-"): text for name, text in headers.items()}}
        if self._token:
            sent["Authorization"] = f"Bearer {self._token}"
        self._connection.request(method, path, body=body, headers=sent)
        response = self._connection.getresponse()
        return response, response.read()

    def json(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        return json.loads(self.ask(method, path, None if body is None else json.dumps(body).encode(), **headers)[1])

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def client(server: ServerProcess) -> Iterator[Client]:
    with closing(Client(server)) as client:
        yield client


@pytest.fixture
def stranger(server: ServerProcess) -> Iterator[Client]:
    with closing(Client(server, token="")) as client:
        yield client


def test_answers_have_kubernetes_headers(client: Client) -> None:
    """Each response has an audit ID and disables caching; the Server header does not name the HTTP library."""
    response, _ = client.ask("GET", "/api/v1/namespaces", Audit_ID="mine")
    assert response.headers["Audit-Id"] == "mine"
    assert response.headers["Cache-Control"] == "no-cache, private"
    assert response.headers["Content-Type"] == "application/json"
    assert "aiohttp" not in response.headers["Server"]
    other, _ = client.ask("GET", "/api/v1/namespaces")
    assert len(other.headers["Audit-Id"]) == 36


def test_large_responses_are_compressed_when_the_client_accepts_gzip(client: Client) -> None:
    """Responses above 128 KB are compressed, and decompress to the same bytes."""
    data = {"metadata": {"name": "large"}, "data": {"k": "x" * 200_000}}
    client.json("POST", CONFIG_MAPS, data)
    response, zipped = client.ask("GET", f"{CONFIG_MAPS}/large", Accept_Encoding="gzip, deflate")
    assert response.headers["Content-Encoding"] == "gzip"
    _, plain = client.ask("GET", f"{CONFIG_MAPS}/large", Accept_Encoding="identity")
    assert gzip.decompress(zipped) == plain
    small, _ = client.ask("GET", "/api/v1/namespaces/default", Accept_Encoding="gzip")
    assert "Content-Encoding" not in small.headers


@pytest.mark.parametrize(
    ("headers", "path", "start"),
    [
        pytest.param({"Accept": "application/yaml"}, "", b"apiVersion: v1\nkind: Namespace\n", id="yaml"),
        pytest.param({}, "?pretty=1", b'{\n  "', id="pretty"),
        pytest.param({"User_Agent": "curl/8"}, "", b'{\n  "', id="for a person"),
        pytest.param(
            {"Accept": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"},
            "",
            b'{"kind":"PartialObjectMetadata"',
            id="metadata",
        ),
    ],
)
def test_answers_have_the_form_asked_for(client: Client, headers: dict[str, str], path: str, start: bytes) -> None:
    """The Accept header, the `pretty` parameter or the user agent selects the format."""
    _, body = client.ask("GET", f"/api/v1/namespaces/default{path}", **headers)
    assert body.replace(b"kind: Namespace\napiVersion: v1", b"apiVersion: v1\nkind: Namespace").startswith(start)


def test_errors_are_statuses_in_the_form_asked_for(client: Client) -> None:
    """When no accepted format is available, the server answers 406 in JSON."""
    response, body = client.ask("GET", "/api/v1/nodes/nope", Accept="application/yaml")
    assert response.status == 404
    assert b"reason: NotFound" in body
    response, body = client.ask("GET", "/api/v1/nodes", Accept="text/html")
    assert (response.status, json.loads(body)["reason"]) == (406, "NotAcceptable")


def test_review_has_no_table(client: Client) -> None:
    """A client that accepts a table alone is refused; one that accepts JSON too gets the object."""
    path, table = (
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        "application/json;as=Table;v=v1;g=meta.k8s.io",
    )
    review = json.dumps({"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}}).encode()
    response, body = client.ask("POST", path, review, Accept=table)
    assert (response.status, json.loads(body)["reason"]) == (406, "NotAcceptable")
    response, body = client.ask("POST", path, review, Accept=f"{table},application/json")
    assert (response.status, json.loads(body)["kind"]) == (201, "SelfSubjectAccessReview")
    response, body = client.ask("GET", "/api/v1/namespaces", Accept=table)
    assert (response.status, json.loads(body)["kind"]) == (200, "Table")


@pytest.mark.parametrize(
    ("method", "path", "status", "text"),
    [
        pytest.param("GET", "/nope", 404, "404 page not found\n", id="page"),
        pytest.param("GET", "/apis/nope/v1/things", 404, "404 page not found\n", id="group"),
        pytest.param("GET", "//api/v1/pods", 404, "404 page not found\n", id="two slashes"),
        pytest.param("GET", "/api/v1/widgets", 404, "the server could not find the requested resource", id="resource"),
        pytest.param("GET", "/api/v2", 404, "the server could not find the requested resource", id="version"),
        pytest.param("GET", "/apis/apps/v9/x", 404, "the server could not find the requested resource", id="its group"),
        pytest.param("POST", "/api/v1", 405, "the server does not allow this method", id="method of a page"),
        pytest.param("POST", "/api/v1/pods", 405, "the server does not allow this method", id="method of a collection"),
        pytest.param("OPTIONS", "/api/v1/pods", 405, "the server does not allow this method", id="options"),
        pytest.param("GET", "/api/v1/pods?timeout=x&watch=0", 400, "invalid timeout", id="timeout"),
        pytest.param("GET", "/%zz", 400, "invalid URL escape", id="escape"),
        pytest.param("GET", "/api/v1/namespaces/%2e%2e%2fkube-system", 404, "could not find", id="dots"),
        pytest.param("GET", "/api/v1/namespaces/%ff%00", 404, "not found", id="bytes"),
    ],
)
def test_wrong_paths_and_methods_are_answered_as_upstream_does(
    client: Client, method: str, path: str, status: int, text: str
) -> None:
    """An unknown path gives the plain 404 page, an unknown resource of a known group a Status."""
    response, body = client.ask(method, path)
    assert response.status == status
    assert text in body.decode()


def test_head_is_refused_for_resources_and_works_for_health_pages(client: Client) -> None:
    assert client.ask("HEAD", "/api/v1/pods")[0].status == 405
    response, body = client.ask("HEAD", "/healthz")
    assert (response.status, body) == (200, b"")


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/version"])
def test_anonymous_requests_may_read_health_and_version(stranger: Client, path: str) -> None:
    assert stranger.ask("GET", path)[0].status == 200


@pytest.mark.parametrize("path", ["/", "/api", "/livez/ping", "/metrics", "/api/v1/pods", "/openapi/v2", "/nope"])
def test_strangers_may_see_nothing_else(stranger: Client, path: str) -> None:
    """Anonymous requests to other paths are forbidden; the message names the user `system:anonymous`."""
    response, body = stranger.ask("GET", path)
    assert response.status == 403
    assert "system:anonymous" in json.loads(body)["message"]


def test_wrong_tokens_are_refused_everywhere(server: ServerProcess) -> None:
    """An invalid token gives 401 even on paths that anonymous requests may read."""
    with closing(Client(server, token="wrong")) as client:
        response, body = client.ask("GET", "/healthz")
    assert (response.status, json.loads(body)["message"]) == (401, "Unauthorized")


def test_bodies_above_the_limit_are_refused(server: ServerProcess) -> None:
    """The limit applies to the Content-Length and to the bytes of a chunked body."""
    large = b"x" * (3 * 1024 * 1024 + 1)
    for body in (large, iter([large])):
        with closing(Client(server)) as client:
            status = json.loads(client.ask("POST", CONFIG_MAPS, body)[1])
        assert status["code"] == 413
        assert status["message"] == "Request entity too large: limit is 3145728"


def raw(server: ServerProcess, request: bytes) -> bytes:
    """Send these exact bytes and return the response."""
    plain = socket.create_connection(("127.0.0.1", server.port), timeout=10)
    with server.tls().wrap_socket(plain, server_hostname="127.0.0.1") as connection:
        connection.sendall(request)
        answer = b""
        while chunk := connection.recv(65536):
            answer += chunk
            if answer.endswith(b"}"):
                break
        return answer


@pytest.mark.parametrize(
    "request_text",
    [
        pytest.param(b"nonsense\r\n\r\n", id="no HTTP"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: x\r\nA B: c\r\n\r\n", id="bad header"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 70_000 + b"\r\n\r\n", id="large header"),
        pytest.param(b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", id="long target"),
        pytest.param(
            b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            id="two lengths",
        ),
        pytest.param(
            b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx", id="two numbers"
        ),
    ],
)
def test_what_is_not_http_is_answered_with_a_status(server: ServerProcess, request_text: bytes) -> None:
    """The code is 400 and the reason BadRequest."""
    answer = raw(server, request_text)
    assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.0 400"))
    assert b'"reason":"BadRequest"' in answer


def test_expect_100_continue_is_answered(server: ServerProcess) -> None:
    """curl sends this header for larger bodies."""
    body = b'{"metadata":{"name":"expected"}}'
    head = (
        f"POST {CONFIG_MAPS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {ADMIN_TOKEN}\r\n"
        f"Content-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    answer = raw(server, head.encode() + body)
    assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\n")


def test_impersonation_needs_the_right_to_it(client: Client, server: ServerProcess) -> None:
    """An admin may impersonate; the impersonated user has only its own rights, and anonymous may not impersonate."""
    as_jane = {"Impersonate_User": "jane"}
    refused = client.json("GET", "/api/v1/pods", **as_jane)
    assert refused["message"].startswith('pods is forbidden: User "jane" cannot list resource "pods"')
    group = {**as_jane, "Impersonate_Group": "system:masters"}
    assert client.json("GET", "/api/v1/pods", **group)["kind"] == "PodList"
    nobody = client.json("GET", "/api/v1/pods", Impersonate_Group="system:masters")
    assert nobody["code"] == 400
    stranger = Client(server, token="")
    with closing(stranger):
        answer = stranger.json("GET", "/healthz", **as_jane)
    assert 'User "system:anonymous" cannot impersonate resource "users"' in answer["message"]


def test_metrics_count_requests_and_objects(client: Client) -> None:
    """The metrics have upstream's names."""
    client.ask("GET", "/api/v1/namespaces/default")
    _, page = client.ask("GET", "/metrics")
    text = page.decode()
    assert 'apiserver_request_total{code="200"' in text
    assert 'apiserver_storage_objects{resource="namespaces"} ' in text
    assert "process_resident_memory_bytes " in text


def test_writes_are_audited_without_their_content(client: Client, server: ServerProcess) -> None:
    """The audit log names user, verb and resource, but not the secret's value."""
    secret = {"metadata": {"name": "s"}, "stringData": {"password": "hunter2"}}
    client.json("POST", "/api/v1/namespaces/default/secrets", secret, Audit_ID="the-secret")
    text = (server.data / "audit.log").read_text()
    line = next(json.loads(line) for line in text.splitlines() if "the-secret" in line)
    assert (line["user"], line["verb"], line["resource"], line["code"]) == ("admin", "create", "secrets", 201)
    assert "hunter2" not in text


def test_write_is_audited_whatever_bytes_its_headers_have(server: ServerProcess) -> None:
    """A client cannot hide a write from the audit log with header values that are not valid text."""
    body = b'{"metadata":{"name":"odd-headers"}}'
    head = f"POST {CONFIG_MAPS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {ADMIN_TOKEN}\r\nContent-Length: {len(body)}\r\n"
    odd = b"User-Agent: a\xff\xfe\r\nAudit-ID: b\xed\xa0\x80\r\nConnection: close\r\n\r\n"
    answer = raw(server, head.encode() + odd + body)
    assert answer.startswith(b"HTTP/1.1 201 ")
    last = json.loads((server.data / "audit.log").read_text().splitlines()[-1])
    assert (last["resource"], last["code"], last["user_agent"]) == ("configmaps", 201, "a\ufffd\ufffd")


def web_socket_frames(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """The opcodes and payloads of a server's short frames, up to the one that closes the connection."""
    opcode = 0
    while opcode != 8:
        first, size = file.read(2)
        opcode = first & 15
        yield opcode, file.read(int.from_bytes(file.read(2)) if size == 126 else size)


def read_event(message: bytes) -> tuple[str, Any]:
    """The type and object of an event in JSON, or in protobuf without a length before it."""
    if message.startswith(b"{"):
        event = json.loads(message)
        return event["type"], event["object"]
    return message[2 : 2 + message[1]].decode(), read_protobuf(message[message.index(MAGIC) :])


@pytest.mark.parametrize(
    ("accept", "opcode"),
    [
        pytest.param("application/json", 1, id="text"),
        pytest.param("application/vnd.kubernetes.protobuf", 2, id="binary"),
    ],
)
def test_watch_is_sent_as_messages_of_a_web_socket(
    client: Client, server: ServerProcess, accept: str, opcode: int
) -> None:
    """Each event is one message; the end of the watch closes the connection in order."""
    client.json("POST", CONFIG_MAPS, {"metadata": {"name": "socket"}, "data": {"n": "1"}})
    path = f"{CONFIG_MAPS}?watch=true&timeoutSeconds=3&fieldSelector=metadata.name=socket"
    upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13"
    key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
    headers = f"Host: x\r\nAccept: {accept}\r\nAuthorization: Bearer {ADMIN_TOKEN}\r\n{upgrade}\r\n{key}"
    head = f"GET {path} HTTP/1.1\r\n{headers}\r\n\r\n"
    with (
        socket.create_connection(("127.0.0.1", server.port), timeout=15) as plain,
        server.tls().wrap_socket(plain, server_hostname="127.0.0.1") as secure,
        secure.makefile("rb") as file,
    ):
        secure.sendall(head.encode())
        assert file.readline() == b"HTTP/1.1 101 Switching Protocols\r\n"
        while file.readline() != b"\r\n":
            pass
        frames = web_socket_frames(file)
        found = [next(frames)]
        client.json("PUT", f"{CONFIG_MAPS}/socket", {"metadata": {"name": "socket"}, "data": {"n": "2"}})
        client.ask("DELETE", f"{CONFIG_MAPS}/socket")
        found += frames
    assert found.pop() == (8, (1000).to_bytes(2))
    assert {code for code, _ in found} == {opcode}
    events = [read_event(payload) for _, payload in found]
    assert [(kind, made["data"]["n"]) for kind, made in events] == [("ADDED", "1"), ("MODIFIED", "2"), ("DELETED", "2")]
