"""exec, terminals, attach and port-forward of the process runtime."""

import asyncio
import os
import socket
import sys
from pathlib import Path

import pytest

from process_lab import Lab, processes_with, until
from pykubelet.api.generated.core import PodSecurityContext
from pykubelet.runtimes.process.runtime import ProcessRuntime
from pykubelet.runtimes.protocol import ByteReader, Mount, RuntimeFailure
from requirements import needs_mount_namespaces


async def read_all(reader: ByteReader | None) -> bytes:
    assert reader is not None
    found = b""
    while block := await reader.read():
        found += block
    return found


async def read_until(reader: ByteReader, text: bytes) -> bytes:
    found = b""
    while text not in found:
        block = await reader.read()
        assert block, f"{text!r} does not come, only {found!r}"
        found += block
    return found


@needs_mount_namespaces
async def test_command_runs_where_and_as_the_container_does(lab: Lab, tmp_path: Path) -> None:
    """It has the same mounts, environment, working directory, user and hostname."""
    volume = tmp_path / "volume"
    volume.mkdir(mode=0o755)
    (volume / "greeting").write_text("from the volume\n")
    fields = {} if os.geteuid() else {"pod": {"security_context": PodSecurityContext(run_as_user=1234)}}
    ward = await lab.start(
        *("sleep", "1000"),
        mounts=[Mount(host_path=str(volume), container_path="/no/such")],
        environment=[("GREETING", "hello")],
        working_dir="/no",
        **fields,
    )
    code, output = await ward.run("sh", "-c", "cat such/greeting; echo $GREETING; pwd; id -u; uname -n")
    *rest, name = output.splitlines()
    assert code == 0
    assert rest == ["from the volume", "hello", "/no", str(os.geteuid() or 1234)]
    assert name.startswith("pod-")


async def test_command_ends_with_its_code_and_both_streams(lab: Lab) -> None:
    """Output beyond the limit is dropped without stopping the command."""
    ward = await lab.start("sleep", "1000")
    # stdout comes first, as from CRI runtimes, whichever was printed first.
    assert await ward.run("sh", "-c", "echo err >&2; echo out; exit 4") == (4, "out\nerr\n")
    code, output = await ward.run("sh", "-c", "head -c 1000000 /dev/zero; exit 5")
    assert (code, len(output)) == (5, 10_000)
    assert (await ward.run("sh", "-c", "kill -9 $$"))[0] == 137


async def test_command_that_does_not_exist_is_a_failure(lab: Lab) -> None:
    """It raises RuntimeFailure instead of returning an exit code."""
    ward = await lab.start("sleep", "1000")
    with pytest.raises(RuntimeFailure, match='exec: "no-such-command": executable file not found'):
        await ward.run("no-such-command")
    with pytest.raises(RuntimeFailure, match="too long"):
        await ward.run("echo", "x" * 500_000)
    assert await ward.run("true") == (0, "")


async def test_command_that_takes_too_long_is_killed_with_its_group(lab: Lab) -> None:
    """The container keeps running."""
    ward = await lab.start("sleep", "1000")
    with pytest.raises(TimeoutError):
        await ward.run("sh", "-c", "trap '' TERM; sleep 4721; true", seconds=0.3)
    await until(lambda: processes_with("sleep\x004721") == [])
    assert await ward.run("true") == (0, "")


async def test_command_ends_when_its_caller_is_cancelled(lab: Lab) -> None:
    """A cancelled probe leaves no process behind."""
    ward = await lab.start("sleep", "1000")
    async with asyncio.TaskGroup() as group:
        probe = group.create_task(ward.run("sleep", "4722", seconds=None))
        await until(lambda: processes_with("sleep\x004722"))
        probe.cancel()
    await until(lambda: processes_with("sleep\x004722") == [])
    assert await ward.run("true") == (0, "")


async def test_command_may_leave_something_running_until_the_container_ends(lab: Lab) -> None:
    """A background process does not delay the end of the command, and is killed with the container."""
    ward = await lab.start("sleep", "1000")
    async with asyncio.timeout(3):
        assert await ward.run("sh", "-c", "setsid -f sleep 4723; echo done") == (0, "done\n")
    assert processes_with("sleep\x004723")
    await lab.runtime.stop(ward.id, 5)
    assert processes_with("sleep\x004723") == []


async def test_command_ends_with_its_container(lab: Lab) -> None:
    """The pending call returns exit code 137."""
    ward = await lab.start("sleep", "1000")
    async with asyncio.TaskGroup() as group:
        command = group.create_task(ward.run("sleep", "4724", seconds=None))
        await until(lambda: processes_with("sleep\x004724"))
        await lab.runtime.stop(ward.id, 5)
    assert command.result()[0] == 137


async def test_session_has_three_streams(lab: Lab, runtime: ProcessRuntime) -> None:
    """1 MB of input arrives up to EOF; stdout and stderr are separate."""
    ward = await lab.start("sleep", "1000")
    command = ("sh", "-c", "wc -c; echo problem >&2; exit 6")
    async with runtime.execute(ward.id, command, stdin=True, tty=False) as session:
        assert session.stdin is not None
        await session.stdin.write(b"x" * 1_000_000)
        await session.stdin.close()
        assert (await read_all(session.stdout)).strip() == b"1000000"
        assert await read_all(session.stderr) == b"problem\n"
        assert await session.exit_code() == 6


async def test_terminal_of_a_command_has_the_size_it_is_given(lab: Lab, runtime: ProcessRuntime) -> None:
    """The shell has a terminal, as with `kubectl exec -it`."""
    ward = await lab.start("sleep", "1000")
    async with runtime.execute(ward.id, ("sh",), stdin=True, tty=True) as session, asyncio.timeout(10):
        assert session.stdin is not None
        assert session.stderr is None
        session.resize(columns=123, rows=45)
        await session.stdin.write(b"tty >/dev/null && stty size\n")
        await read_until(session.stdout, b"45 123")
        await session.stdin.write(b"exit 9\n")
        await read_all(session.stdout)
        assert await session.exit_code() == 9


async def test_terminal_shows_everything_that_was_written_before_the_end(lab: Lab, runtime: ProcessRuntime) -> None:
    """The last bytes arrive even if the program exits at once."""
    ward = await lab.start("sleep", "1000")
    for _ in range(5):
        async with runtime.execute(ward.id, ("seq", "20000"), stdin=False, tty=True) as session:
            output = await read_all(session.stdout)
        assert output.split() == [str(number).encode() for number in range(1, 20001)]


async def test_attach_carries_input_and_output(lab: Lab, runtime: ProcessRuntime) -> None:
    """The output goes to the log as well."""
    ward = await lab.start(
        "sh", "-c", "read name; echo hello $name; echo oops >&2; exit 3", stdin=True, stdin_once=True
    )
    async with runtime.attach(ward.id, stdin=True) as session, asyncio.timeout(10):
        assert session.stdin is not None
        await session.stdin.write(b"you\n")
        assert await read_until(session.stdout, b"\n") == b"hello you\n"
        assert session.stderr is not None
        assert await read_until(session.stderr, b"\n") == b"oops\n"
        assert await session.exit_code() == 3
    assert ward.log == "hello you\noops\n"


async def test_attach_works_again_after_a_detach(lab: Lab, runtime: ProcessRuntime) -> None:
    """The container keeps running with its stdin open."""
    ward = await lab.start("sh", "-c", "while read line; do echo got $line; done", stdin=True)
    for word in (b"one", b"two"):
        async with runtime.attach(ward.id, stdin=True) as session, asyncio.timeout(10):
            assert session.stdin is not None
            await session.stdin.write(word + b"\n")
            assert await read_until(session.stdout, b"\n") == b"got " + word + b"\n"
    assert ward.log == "got one\ngot two\n"


async def test_container_with_a_terminal_can_be_attached_to(lab: Lab, runtime: ProcessRuntime) -> None:
    """The terminal has the size of the session, as with `kubectl run -it`."""
    ward = await lab.start("sh", stdin=True, tty=True)
    async with runtime.attach(ward.id, stdin=True) as session, asyncio.timeout(10):
        assert session.stdin is not None
        session.resize(columns=99, rows=33)
        await asyncio.sleep(0.1)  # the size is sent on another channel than the input
        await session.stdin.write(b"stty size; echo $TERM\n")
        await read_until(session.stdout, b"33 99\r\nxterm\r\n")
        await session.stdin.write(b"exit 2\n")
        assert await session.exit_code() == 2


async def test_attached_client_that_reads_nothing_blocks_no_container(lab: Lab, runtime: ProcessRuntime) -> None:
    """All output is in the log."""
    ward = await lab.start("sh", "-c", "sleep 0.3; head -c 5000000 /dev/zero | tr '\\0' x; exit 0")
    async with runtime.attach(ward.id, stdin=False):
        assert (await ward.until_ended()).exit_code == 0
    assert len(ward.log) == 5_000_000


SHOUT = """
import socket, sys
listener = socket.create_server((sys.argv[1], 0), family=socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET)
print(listener.getsockname()[1], flush=True)
while True:
    line, _ = listener.accept()
    with line:
        heard = b""
        while data := line.recv(1000):
            heard += data
        line.sendall(heard.upper())
"""


def own_addresses() -> list[str]:
    """The addresses that a pod can listen on here; the machine may have no IPv6."""
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return ["127.0.0.1", "0.0.0.0", "::1", "::"]
    except OSError:
        return ["127.0.0.1", "0.0.0.0"]


@pytest.mark.parametrize("address", own_addresses())
async def test_port_of_a_pod_is_a_port_of_the_machine(lab: Lab, runtime: ProcessRuntime, address: str) -> None:
    """Data passes in both directions, on whichever address the pod listens."""
    ward = await lab.start(sys.executable, "-c", SHOUT, address)
    await until(lambda: bool(ward.log))
    async with runtime.connect(ward.sandbox_id, int(ward.log)) as line:
        await line.writer.write(b"hello")
        await line.writer.close()
        assert await read_all(line.reader) == b"HELLO"


async def test_port_of_somebody_else_is_not_reached_through_a_pod(lab: Lab, runtime: ProcessRuntime) -> None:
    """Ports of other pods and of services on the machine refuse the connection."""
    ward, other = await lab.start("sleep", "1000"), await lab.start(sys.executable, "-c", SHOUT, "0.0.0.0")
    await until(lambda: bool(other.log))
    with socket.create_server(("127.0.0.1", 0)) as ours:
        for port in (int(other.log), ours.getsockname()[1]):
            with pytest.raises(RuntimeFailure, match=f"dial tcp 127.0.0.1:{port}: connect: connection refused"):
                async with runtime.connect(ward.sandbox_id, port):
                    pass
