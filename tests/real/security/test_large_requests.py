"""Large lists and large bodies from many clients at once take little memory, and others are answered meanwhile."""

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPResponse, HTTPSConnection
from pathlib import Path

import pytest

from connection_attacks import usage_of
from pykubelet_process import ADMIN_TOKEN, ServerProcess

pytestmark = pytest.mark.timeout(120)
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
OBJECTS, KEYS = 20, 30_000
CLIENTS = 8
# With whole lists in memory: 85 (JSON), 230 (indented), 300 (table) and 300 MB (YAML); now 15 to 35 MB.
MOST_MEGABYTES = 80
JSON = "application/json"
PROTOBUF = "application/vnd.kubernetes.protobuf"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Its list of ConfigMaps has 14 MB; many short lines are the worst list."""
    made = ServerProcess(tmp_path_factory.mktemp("server")).start()
    try:
        data = {f"k{number:05}": "v" * 8 for number in range(KEYS)}
        for number in range(OBJECTS):
            body = json.dumps({"metadata": {"name": f"c{number}"}, "data": data}).encode()
            assert status_of_body(made, body, "application/json") == 201
        yield made
    finally:
        made.kill()


@contextmanager
def asked(
    server: ServerProcess,
    method: str,
    path: str,
    body: bytes | None = None,
    *,
    accept: str = "application/json",
    content_type: str = "application/json",
) -> Iterator[HTTPResponse]:
    """Sends a request."""
    headers = {"Authorization": f"Bearer {ADMIN_TOKEN}", "Accept": accept, "Content-Type": content_type}
    connection = HTTPSConnection("127.0.0.1", server.port, context=server.tls(), timeout=60)
    with closing(connection):
        connection.request(method, path, body, headers)
        with connection.getresponse() as answer:
            yield answer


def length_of_answer(server: ServerProcess, path: str, accept: str = "application/json") -> int:
    with asked(server, "GET", path, accept=accept) as answer:
        assert answer.status == 200
        length = 0
        while part := answer.read(1 << 20):
            length += len(part)
        return length


def status_of_body(server: ServerProcess, body: bytes, content_type: str) -> int:
    with asked(server, "POST", CONFIG_MAPS, body, content_type=content_type) as answer:
        return answer.status


def forget_peak(server: ServerProcess) -> int:
    """Starts a new measurement of the server's largest memory; returns what it uses now."""
    Path(f"/proc/{server.pid}/clear_refs").write_text("5")
    return usage_of(server.pid).peak_megabytes


def answers_while(server: ServerProcess, requests: Sequence[Future[int]]) -> int:
    """How often another client is answered until these requests are."""
    answered = 0
    while not all(one.done() for one in requests):
        answered += length_of_answer(server, "/api/v1/namespaces/default") > 0
    return answered


@pytest.mark.parametrize(
    ("accept", "query", "clients"),
    [
        pytest.param(JSON, "", CLIENTS, id="json"),
        pytest.param(JSON, "?pretty=1", CLIENTS, id="indented"),
        pytest.param(TABLE, "?includeObject=Object", 3, id="table"),
        pytest.param("application/yaml", "", 3, id="yaml"),
        pytest.param(PROTOBUF, "", CLIENTS, id="protobuf"),
        pytest.param(JSON, "?watch=1&timeoutSeconds=3", CLIENTS, id="watch"),
        pytest.param(TABLE, "?watch=1&timeoutSeconds=3", CLIENTS, id="watch of a table"),
    ],
)
def test_lists_take_little_memory_and_others_are_answered(
    server: ServerProcess, accept: str, query: str, clients: int
) -> None:
    """The form needs a conversion, or none."""
    before = forget_peak(server)
    with ThreadPoolExecutor(clients) as pool:
        path = CONFIG_MAPS + query
        lists = [pool.submit(length_of_answer, server, path, accept) for _ in range(clients)]
        assert answers_while(server, lists) > 1
    lengths = [one.result() for one in lists]
    # The age of an object in a table may differ.
    assert min(lengths) > 1_000_000
    assert max(lengths) - min(lengths) < 100
    assert usage_of(server.pid).peak_megabytes - before < MOST_MEGABYTES


def test_list_to_a_client_that_reads_slowly_takes_no_memory(server: ServerProcess) -> None:
    """Twenty clients that have read the head of a list hold what the sockets hold."""
    before = forget_peak(server)
    with ExitStack() as clients:
        for _ in range(20):
            clients.enter_context(asked(server, "GET", CONFIG_MAPS))
        assert length_of_answer(server, "/api/v1/namespaces/default") > 0
        assert usage_of(server.pid).peak_megabytes - before < MOST_MEGABYTES


_HEAD = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: large}\n"
_BYTES = 1024 * 1024
_BODIES = {
    "long scalar repeated": b"a: &a " + b"x" * _BYTES + b"\nx:\n" + b"- *a\n" * 100_000,
    "long key repeated": b"a: &a " + b"x" * _BYTES + b"\nx:\n" + b"- {*a : b}\n" * 100_000,
    "list repeated": b"a: &a [" + b"x," * 1000 + b"]\nx:\n" + b"- *a\n" * 900,
    "anchors": b"x:\n" + b"".join(b"- &a%06d {}\n" % number for number in range(100_000)),
    "maps": b"x: [" + b"{a: b}," * 200_000 + b"]\n",
    "lines": b"data:\n" + b"".join(b"  k%06d: v\n" % number for number in range(120_000)),
    "repeated keys": b"data:\n" + b"  k: v\n" * 60_000,
    "documents": b"---\na\n" * 200_000,
    "deep": b"x: " + b"[" * _BYTES,
}


@pytest.mark.parametrize("name", _BODIES)
def test_yaml_bodies_take_little_memory_and_others_are_answered(server: ServerProcess, name: str) -> None:
    """A scalar of a megabyte with 150,000 aliases took all memory of the machine."""
    before = forget_peak(server)
    body = _HEAD + _BODIES[name]
    with ThreadPoolExecutor(3) as pool:
        posted = [pool.submit(status_of_body, server, body, "application/yaml") for _ in range(3)]
        assert answers_while(server, posted) > 1
    assert {one.result() for one in posted} <= {201, 400, 409, 413}
    assert usage_of(server.pid).peak_megabytes - before < MOST_MEGABYTES
