"""kubectl exec, attach and cp through our API server to a node, by WebSocket and by SPDY."""

import asyncio
import os
import pty
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from node_cluster import SPDY, WEB_SOCKET, Cluster
from pykubelet.testing.build import container, pod

BOTH = pytest.mark.parametrize("protocol", [WEB_SOCKET, SPDY], ids=["websocket", "spdy"])


@BOTH
async def test_exec_carries_both_outputs_and_the_exit_code(cluster: Cluster, protocol: dict[str, str]) -> None:
    """stdout and stderr stay separate."""
    await cluster.run_pod()
    command = ("sh", "-c", "echo out; echo err >&2; exit 3")
    done = await cluster.kubectl("exec", "web", "--", *command, environment=protocol)
    assert (done.code, done.out) == (3, b"out\n")
    assert done.err == "err\ncommand terminated with exit code 3\n"


@BOTH
async def test_exec_carries_megabytes_both_ways_unchanged(cluster: Cluster, protocol: dict[str, str]) -> None:
    """EOF on the input ends the command."""
    await cluster.run_pod()
    given = os.urandom(5_000_000)
    done = await cluster.kubectl("exec", "-i", "web", "--", "cat", given=given, environment=protocol)
    assert done.code == 0, done.err
    assert done.out == given


@BOTH
async def test_exec_says_why_a_command_cannot_start(cluster: Cluster, protocol: dict[str, str]) -> None:
    """The user sees the error of the runtime."""
    await cluster.run_pod()
    done = await cluster.kubectl("exec", "web", "--", "no-such-program", environment=protocol)
    assert done.code == 1
    expected = "error executing command in container: no such command: No such file or directory"
    assert f"Internal error occurred: {expected}" in done.err


@BOTH
async def test_exec_is_refused_where_nothing_runs(cluster: Cluster, protocol: dict[str, str]) -> None:
    """The API has the pod but the node does not; the user sees the node's error."""
    given = await cluster.run_pod()
    cluster.rig.pods.delete_pod(given)
    gone = await cluster.kubectl("exec", "web", "--", "true", environment=protocol)
    assert (gone.code, gone.out) == (1, b"")
    assert "pod does not exist" in gone.err


@BOTH
async def test_exec_gives_a_terminal_of_the_callers_size(cluster: Cluster, protocol: dict[str, str]) -> None:
    """With -it, the command's terminal has the size of kubectl's and gets its input."""
    await cluster.run_pod()
    ours, theirs = pty.openpty()
    os.set_blocking(ours, False)
    stty = await asyncio.create_subprocess_exec("stty", "rows", "33", "cols", "77", stdin=theirs)
    await stty.wait()
    # The size may arrive after the word.
    sized = "until stty size | grep -q 33; do sleep 0.02; done; stty size"
    script = f"read word; {sized}; echo heard $word; test -t 2 && echo terminal"
    command = cluster.command("exec", "-it", "web", "--", "sh", "-c", script)
    environment = {**os.environ, **protocol}
    process = await asyncio.create_subprocess_exec(
        *command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
    )
    os.close(theirs)
    os.write(ours, b"hello\n")
    assert await asyncio.wait_for(process.wait(), 15) == 0
    shown = _rest_of_terminal(ours)
    os.close(ours)
    assert "33 77\r\nheard hello\r\nterminal\r\n" in shown


def _rest_of_terminal(ours: int) -> str:
    """What programs that have ended wrote to a terminal; the kernel may pass it on in parts, and later."""
    os.set_blocking(ours, True)
    shown = b""
    # Reading fails once all is read, because no process has the other end open.
    with suppress(OSError):
        while part := os.read(ours, 65536):
            shown += part
    return shown.decode()


@BOTH
async def test_command_is_ended_when_its_client_disconnects(cluster: Cluster, protocol: dict[str, str]) -> None:
    """Killing kubectl ends the command that it started."""
    await cluster.run_pod()
    command = ("sh", "-c", "echo ready; exec sleep 1000")
    process = await cluster.start("exec", "web", "--", *command, environment=protocol)
    assert process.stdout is not None
    assert await asyncio.wait_for(process.stdout.readline(), 10) == b"ready\n"
    process.kill()
    await process.communicate()
    async with asyncio.timeout(10):
        while not cluster.rig.streams.ended:
            await asyncio.sleep(0.02)
    assert cluster.rig.streams.ended == [list(command)]


@BOTH
async def test_attach_shares_the_streams_of_a_container(cluster: Cluster, protocol: dict[str, str]) -> None:
    """Input reaches the program, its output reaches kubectl, and its exit ends kubectl."""
    main = container("main", stdin=True, stdin_once=True)
    await cluster.run_pod(pod("web", containers=[main]))
    pipe = asyncio.subprocess.PIPE
    program = "import sys; [print(line.strip().upper(), flush=True) for line in sys.stdin]"
    cluster.rig.streams.attached = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdin=pipe, stdout=pipe
    )
    done = await cluster.kubectl("attach", "-i", "web", given=b"one\ntwo\n", environment=protocol)
    assert (done.code, done.out) == (0, b"ONE\nTWO\n"), done.err
    assert await cluster.rig.streams.attached.wait() == 0


@BOTH
async def test_cp_copies_files_both_ways(cluster: Cluster, protocol: dict[str, str], tmp_path: Path) -> None:
    """`kubectl cp` runs tar through exec, with input and output."""
    await cluster.run_pod()
    source, there, back = tmp_path / "source", tmp_path / "there", tmp_path / "back"
    source.write_bytes(os.urandom(300_000))
    sent = await cluster.kubectl("cp", str(source), f"web:{there}", environment=protocol)
    fetched = await cluster.kubectl("cp", f"web:{there}", str(back), environment=protocol)
    assert (sent.code, fetched.code) == (0, 0), sent.err + fetched.err
    assert back.read_bytes() == source.read_bytes()
