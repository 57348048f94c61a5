"""Large lists in another form than they are stored in: memory of a few times the list, and others are answered."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPSConnection

import pytest

from connection_attacks import usage_of
from pykubelet_process import ADMIN_TOKEN, ServerProcess

pytestmark = pytest.mark.timeout(120)
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
# With the lines of whole lists in memory, these three took 201 MB; now 71 MB.
MOST_MEGABYTES = 120
CLIENTS = 3


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    made = ServerProcess(tmp_path_factory.mktemp("server")).start()
    try:
        yield made
    finally:
        made.kill()


def length_of_answer(server: ServerProcess, method: str, path: str, body: bytes | None = None, accept: str = "") -> int:
    """Sends a request that succeeds."""
    headers = {"Authorization": f"Bearer {ADMIN_TOKEN}", "Accept": accept or "application/json"}
    connection = HTTPSConnection("127.0.0.1", server.port, context=server.tls(), timeout=60)
    try:
        connection.request(method, path, body, {**headers, "Content-Type": "application/json"})
        answer = connection.getresponse()
        length = len(answer.read())
        assert answer.status in (200, 201)
        return length
    finally:
        connection.close()


def test_lists_as_yaml_take_little_memory_and_others_are_answered(server: ServerProcess) -> None:
    """Many short lines are the worst list."""
    data = {f"k{number:05}": "v" * 8 for number in range(30_000)}
    for number in range(6):
        body = json.dumps({"metadata": {"name": f"c{number}"}, "data": data}).encode()
        length_of_answer(server, "POST", CONFIG_MAPS, body)
    length = length_of_answer(server, "GET", CONFIG_MAPS)
    before = usage_of(server.pid).peak_megabytes
    with ThreadPoolExecutor(CLIENTS) as clients:
        lists = [
            clients.submit(length_of_answer, server, "GET", CONFIG_MAPS, accept="application/yaml")
            for _ in range(CLIENTS)
        ]
        answered = 0
        while not all(one.done() for one in lists):
            answered += length_of_answer(server, "GET", "/api/v1/namespaces/default") > 0
    assert answered > 5
    assert [one.result() > length for one in lists] == [True] * CLIENTS
    assert usage_of(server.pid).peak_megabytes - before < MOST_MEGABYTES
