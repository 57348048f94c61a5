"""The API server answers a write only after its bytes are on disk, shown by the order of its system calls.

The server runs under strace. A write's bytes appear in a pwrite64 of the database's WAL; a whole fdatasync of the WAL
must follow before the answer leaves on the client's connection. TLS hides what is sent, but each client waits for one
answer before its next request, so the answers are the runs of sends that follow runs of received bytes.
"""

import http.client
import json
import re
import ssl
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from pykubelet_process import ADMIN_TOKEN, ServerProcess

pytestmark = pytest.mark.timeout(120)
CLIENTS, ROUNDS = 4, 6
MAPS = "/api/v1/namespaces/default/configmaps"
MERGE = "application/merge-patch+json"
_CALLS = "fdatasync,fsync,pwrite64,write,writev,sendto,sendmsg,recvfrom,recvmsg,read"
_STARTED = re.compile(r"^(?P<pid>\d+) +(?P<call>\w+)\((?P<rest>.*)$", re.DOTALL)
_RESUMED = re.compile(r"^(?P<pid>\d+) +<\.\.\. (?P<call>\w+) resumed>(?P<rest>.*)$", re.DOTALL)
_PEER = re.compile(r"^\d+<TCP(?:v6)?:\[.*?->\[?[^\]]*?\]?:(?P<port>\d+)\]>")


class TracedServer(ServerProcess):
    """An API server under strace, which writes its system calls to a file."""

    @property
    def trace(self) -> Path:
        return self.folder / "trace"

    def wrapper(self) -> list[str]:
        # -D keeps the server our own child. -yy shows the files and addresses of descriptors; a page of the WAL has 4096 bytes, up to four characters each.
        options = ["-D", "-f", "-yy", "-s", "8192", "-e", f"trace={_CALLS}", "-e", "signal=none", "--seccomp-bpf"]
        return ["strace", *options, "-o", str(self.trace)]

    def whole_trace(self) -> list[str]:
        """Kills the server, and returns the lines of the trace once strace has ended too."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        tracer = Path("/proc", status.partition("TracerPid:")[2].split()[0])
        self.kill()
        pause = threading.Event()
        for _ in range(400):
            if not tracer.exists():
                return self.trace.read_text(errors="replace").splitlines()
            pause.wait(0.05)
        raise AssertionError("strace has not ended")


class Call(NamedTuple):
    """One system call: the lines of the trace where it starts and where it has returned."""

    name: str
    first_line: int
    last_line: int
    text: str
    """Its arguments, with the file or the address of each descriptor, and its result."""

    @property
    def result(self) -> str:
        return self.text.rpartition(" = ")[2]

    def is_of(self, file: str) -> bool:
        """Whether its descriptor is a file of this name."""
        return f"/{file}>" in self.text.partition(",")[0].partition(")")[0]


def calls_of(trace: Sequence[str]) -> Iterator[Call]:
    """The finished system calls. One that others interrupt has two lines, its start and its end."""
    open_calls: dict[str, tuple[str, int, str]] = {}
    for number, line in enumerate(trace):
        if (resumed := _RESUMED.match(line)) and resumed["pid"] in open_calls:
            name, first, text = open_calls.pop(resumed["pid"])
            yield Call(name, first, number, text + resumed["rest"])
        elif started := _STARTED.match(line):
            if line.rstrip().endswith("<unfinished ...>"):
                open_calls[started["pid"]] = started["call"], number, started["rest"].replace("<unfinished ...>", "")
            else:
                yield Call(started["call"], number, number, started["rest"])


@dataclass(slots=True)
class Exchange:
    """A request and its answer on one connection: the lines where the first byte of each is received or sent."""

    received: int
    answered: int | None = None


def exchanges_of(calls: Sequence[Call]) -> dict[int, list[Exchange]]:
    """The exchanges of each client, by its port, oldest first; TLS handshakes count too."""
    found: dict[int, list[Exchange]] = {}
    for call in sorted(calls, key=lambda one: one.first_line):
        peer = _PEER.match(call.text)
        if peer is None or call.result.startswith("-"):
            continue
        exchanges = found.setdefault(int(peer["port"]), [])
        if call.name in ("recvfrom", "recvmsg", "read"):
            if not exchanges or exchanges[-1].answered is not None:
                exchanges.append(Exchange(call.last_line))
        elif exchanges and exchanges[-1].answered is None:
            exchanges[-1].answered = call.first_line
    return found


class Client:
    """One connection, which sends one request after the other."""

    def __init__(self, server: ServerProcess, tls: ssl.SSLContext) -> None:
        self._connection = http.client.HTTPSConnection("127.0.0.1", urlsplit(server.url).port, context=tls, timeout=60)
        self.ask("GET", "/version")
        self.port: int = self._connection.sock.getsockname()[1]

    def ask(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> None:
        headers = {"Authorization": f"Bearer {ADMIN_TOKEN}", "Content-Type": content_type}
        self._connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        with self._connection.getresponse() as answer:
            text = answer.read()
        assert answer.status < 300, text

    def write(self, number: int) -> list[str]:
        """Creates and patches objects; returns what each request, in order, is the first to write."""
        written = []
        for round_number in range(ROUNDS):
            name = f"made-{number}-{round_number}"
            self.ask("POST", MAPS, {"metadata": {"name": name}})
            self.ask("PATCH", f"{MAPS}/{name}", {"data": {"k": f"patched-{number}-{round_number}"}}, MERGE)
            written += [name, f"patched-{number}-{round_number}"]
        return written

    def delete(self, number: int) -> int:
        """Deletes the objects; returns how many."""
        for round_number in range(ROUNDS):
            self.ask("DELETE", f"{MAPS}/made-{number}-{round_number}")
        return ROUNDS

    def close(self) -> None:
        self._connection.close()


def unsafe_answers(trace: Sequence[str], written: dict[int, list[str]], deletions: dict[int, int]) -> list[str]:
    """The writes that were answered before a sync that began after their bytes were written, and those not found.

    `written` has the text that each request of a client wrote first, `deletions` the number of its later deletions,
    which happened while nothing else was written.
    """
    calls = [*calls_of(trace)]
    of_wal = [call for call in calls if call.is_of("state.db-wal")]
    pages = [call for call in of_wal if call.name == "pwrite64"]
    syncs = [call for call in of_wal if call.name in ("fdatasync", "fsync") and call.result == "0"]
    exchanges = exchanges_of(calls)

    def is_safe(page: Call | None, exchange: Exchange) -> bool:
        if page is None or exchange.answered is None or not exchange.received < page.first_line < exchange.answered:
            return False
        return any(page.last_line < sync.first_line and sync.last_line < exchange.answered for sync in syncs)

    unsafe = []
    for port, texts in written.items():
        mine = exchanges[port][-(len(texts) + deletions[port]) :]
        for text, exchange in zip(texts, mine, strict=False):
            page = next((one for one in pages if re.search(rf"{text}\b", one.text)), None)
            unsafe += [] if is_safe(page, exchange) else [text]
        for place, exchange in enumerate(mine[len(texts) :]):
            page = next((one for one in pages if one.first_line > exchange.received), None)
            unsafe += [] if is_safe(page, exchange) else [f"deletion {place} of {port}"]
    return unsafe


def test_no_answer_leaves_before_its_write_is_on_disk(tmp_path: Path) -> None:
    server = TracedServer(tmp_path)
    server.start()
    tls = server.tls()
    clients = [Client(server, tls) for _ in range(CLIENTS)]
    with ThreadPoolExecutor(CLIENTS) as threads:
        texts = [*threads.map(Client.write, clients, range(CLIENTS))]
    counts = [client.delete(number) for number, client in enumerate(clients)]
    # The connections are still open, so nothing follows the last answer.
    trace, ports = server.whole_trace(), [client.port for client in clients]
    found = unsafe_answers(trace, dict(zip(ports, texts, strict=True)), dict(zip(ports, counts, strict=True)))
    for client in clients:
        client.close()
    assert found == []
    assert sum(map(len, texts)) == CLIENTS * ROUNDS * 2
