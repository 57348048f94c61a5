"""Parts of the supervisor: imports, logs, process identities, files, messages and cgroups."""

import ast
import os
import socket
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pykubelet.runtimes.process.shim as package
from pykubelet.aio import packets
from pykubelet.kubelet.logs.log_lines import LogFilter, LogQuery, split_lines
from pykubelet.runtimes.process.shim import wire as files
from pykubelet.runtimes.process.shim.processes import identify, open_process
from pykubelet.runtimes.process.shim.stdio import ContainerLogFile

FOLDER = Path(package.__file__).parent
ALLOWED = {
    "collections.abc", "contextlib", "ctypes", "errno", "fcntl", "gc", "json", "os", "posixpath", "resource", "selectors",
    "signal", "socket", "stat", "struct", "termios", "time", "typing",
}  # fmt: skip


OWN_ALLOWED = {"pykubelet.aio.packets", "pykubelet.runtimes.log_format"}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.name)
def test_supervisor_loads_little(path: Path) -> None:
    """There is one per container: no asyncio, no msgspec, only its own package, packets and the log format."""
    for node in ast.walk(ast.parse(path.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
        for name in names:
            ours = name.startswith("pykubelet.runtimes.process.shim") or name in OWN_ALLOWED
            assert ours or name in ALLOWED


OUTPUT = st.lists(st.sampled_from([b"a", b"\n", b"two words", b"x" * 20_000, b"\r", b"\xff"]), max_size=12)


@settings(max_examples=60)
@given(OUTPUT, st.integers(1, 30_000))
def test_log_gives_back_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, parts: list[bytes], size: int
) -> None:
    """For any split into blocks; no log entry is longer than a piece."""
    path = tmp_path_factory.mktemp("log") / "0.log"
    output = b"".join(parts)
    log = ContainerLogFile(str(path))
    for start in range(0, len(output), size):
        log.take("stdout", output[start : start + size])
    log.finish()
    assert LogFilter(LogQuery()).take(split_lines(path.read_bytes())) == output
    assert max((len(line) for line in path.read_bytes().split(b"\n")), default=0) < 16 * 1024 + 60


def test_process_is_known_by_more_than_its_number() -> None:
    """A process with another start time or boot id is a different one."""
    me = identify(os.getpid())
    handle = open_process(me)
    assert handle is not None
    os.close(handle)
    assert open_process(me._replace(start_ticks=me.start_ticks + 1)) is None
    assert open_process(me._replace(boot_id="other")) is None
    assert open_process(me._replace(pid=2**22 + 1)) is None
    with pytest.raises(ProcessLookupError):
        identify(2**22 + 1)


def test_file_is_created_by_one_only(tmp_path: Path) -> None:
    """A second creation returns False and changes nothing; no temporary files remain."""
    path = tmp_path / "state.json"
    assert files.create_file(str(path), b"first")
    assert not files.create_file(str(path), b"second")
    assert path.read_bytes() == b"first"
    files.replace_file(str(path), b"third")
    files.make_durable(str(path))
    assert [(entry.name, entry.read_bytes(), entry.stat().st_mode & 0o777) for entry in tmp_path.iterdir()] == [
        ("state.json", b"third", 0o600)
    ]


def test_open_files_travel_with_a_message_and_are_not_inherited() -> None:
    """Otherwise every program started meanwhile would inherit them."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    reader, writer = os.pipe()
    with ours, theirs:
        packets.send(ours, {"op": "test"}, [writer])
        os.close(writer)
        message, (received,) = packets.receive(theirs)
        assert message == {"op": "test"}
        assert not os.get_inheritable(received)
        os.write(received, b"hello")
        os.close(received)
        assert os.read(reader, 10) == b"hello"
        os.close(reader)
        with pytest.raises(packets.MessageTooLong):
            packets.send(ours, {"text": "x" * packets.MAX_BYTES})
        ours.close()
        assert packets.receive(theirs) == (None, [])
