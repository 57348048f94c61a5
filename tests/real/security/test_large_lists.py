"""Large lists that many clients request at once: memory of a few parts of them, and others are answered meanwhile."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
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
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Its list of ConfigMaps has 14 MB; many short lines are the worst list."""
    made = ServerProcess(tmp_path_factory.mktemp("server")).start()
    try:
        data = {f"k{number:05}": "v" * 8 for number in range(KEYS)}
        for number in range(OBJECTS):
            body = json.dumps({"metadata": {"name": f"c{number}"}, "data": data}).encode()
            length_of_answer(made, "POST", CONFIG_MAPS, body)
        yield made
    finally:
        made.kill()


@contextmanager
def asked(
    server: ServerProcess, method: str, path: str, body: bytes | None = None, accept: str = ""
) -> Iterator[HTTPResponse]:
    """Sends a request that succeeds."""
    headers = {"Authorization": f"Bearer {ADMIN_TOKEN}", "Accept": accept or "application/json"}
    connection = HTTPSConnection("127.0.0.1", server.port, context=server.tls(), timeout=60)
    with closing(connection):
        connection.request(method, path, body, {**headers, "Content-Type": "application/json"})
        with connection.getresponse() as answer:
            assert answer.status in (200, 201)
            yield answer


def length_of_answer(server: ServerProcess, method: str, path: str, body: bytes | None = None, accept: str = "") -> int:
    with asked(server, method, path, body, accept) as answer:
        length = 0
        while part := answer.read(1 << 20):
            length += len(part)
        return length


def forget_peak(server: ServerProcess) -> int:
    """Starts a new measurement of the server's largest memory; returns what it uses now."""
    Path(f"/proc/{server.pid}/clear_refs").write_text("5")
    return usage_of(server.pid).peak_megabytes


@pytest.mark.parametrize(
    ("accept", "query", "clients"),
    [
        pytest.param("", "", CLIENTS, id="json"),
        pytest.param("", "?pretty=1", CLIENTS, id="indented"),
        pytest.param(TABLE, "?includeObject=Object", 3, id="table"),
        pytest.param("application/yaml", "", 3, id="yaml"),
        pytest.param("", "?watch=1&timeoutSeconds=3", CLIENTS, id="watch"),
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
        lists = [pool.submit(length_of_answer, server, "GET", path, accept=accept) for _ in range(clients)]
        answered = 0
        while not all(one.done() for one in lists):
            answered += length_of_answer(server, "GET", "/api/v1/namespaces/default") > 0
    assert answered > 1
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
        assert length_of_answer(server, "GET", "/api/v1/namespaces/default") > 0
        assert usage_of(server.pid).peak_megabytes - before < MOST_MEGABYTES
