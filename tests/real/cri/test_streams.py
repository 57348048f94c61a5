"""Streaming on containerd: exec, terminals, attach, port-forward, and reopened logs."""

import asyncio
from pathlib import Path

import pytest

import oci_images
from cri_lab import CriLab
from pykubelet.aio.tasks import background_task
from pykubelet.runtimes.cri.connect import OpenCri
from pykubelet.runtimes.protocol import ByteReader, RuntimeFailure


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


async def test_command_has_its_streams_and_its_exit_code(cri: OpenCri, lab: CriLab) -> None:
    """The command reads stdin to EOF; stdout and stderr are separate."""
    container_id = await lab.run_shell("sleep 1000")
    command = ("sh", "-c", "cat; echo error >&2; exit 7")
    async with cri.streams.execute(container_id, command, stdin=True, tty=False) as session:
        assert session.stdin is not None
        await session.stdin.write(b"hello\n")
        await session.stdin.close()
        assert await read_all(session.stdout) == b"hello\n"
        assert await read_all(session.stderr) == b"error\n"
        assert await session.exit_code() == 7
        assert await session.exit_code() == 7


async def test_command_moves_much_data_whole(cri: OpenCri, lab: CriLab) -> None:
    """2 MB pass both ways while input and output run concurrently."""
    container_id = await lab.run_shell("sleep 1000")
    sent = bytes(range(256)) * 8192
    async with cri.streams.execute(container_id, ("cat",), stdin=True, tty=False) as session:
        assert session.stdin is not None
        found = b""
        async with background_task(session.stdin.write(sent), "input"):
            while len(found) < len(sent):
                found += await session.stdout.read()
        await session.stdin.close()
        assert await session.exit_code() == 0
    assert found == sent


async def test_command_with_a_terminal_knows_its_size(cri: OpenCri, lab: CriLab) -> None:
    """A resize after the start reaches the command."""
    container_id = await lab.run_shell("sleep 1000")
    async with cri.streams.execute(container_id, ("sh",), stdin=True, tty=True) as session:
        assert session.stderr is None
        assert session.stdin is not None
        session.resize(97, 31)
        while True:
            await session.stdin.write(b"stty size; echo do''ne\n")
            if b"31 97" in await read_until(session.stdout, b"done\r\n"):
                break
        await session.stdin.write(b"exit 5\n")
        assert await session.exit_code() == 5


async def test_command_that_cannot_be_run_is_a_failure(cri: OpenCri, lab: CriLab) -> None:
    """The program or the container does not exist; the container keeps running."""
    container_id = await lab.run_shell("sleep 1000")
    async with cri.streams.execute(container_id, ("nonesuch",), stdin=False, tty=False) as session:
        with pytest.raises(RuntimeFailure, match="executable file not found"):
            await session.exit_code()
    with pytest.raises(RuntimeFailure, match="NotFound"):
        async with cri.streams.execute("a" * 64, ("true",), stdin=False, tty=False):
            pass
    async with cri.streams.execute(container_id, ("true",), stdin=False, tty=False) as session:
        assert await session.exit_code() == 0


async def test_failure_in_the_context_of_a_command_comes_out_as_it_is(cri: OpenCri, lab: CriLab) -> None:
    """It is not wrapped in an exception group."""
    container_id = await lab.run_shell("sleep 1000")
    with pytest.raises(RuntimeFailure, match="mine"):
        async with cri.streams.execute(container_id, ("cat",), stdin=True, tty=False):
            raise RuntimeFailure("mine")


@pytest.mark.parametrize("tty", [False, True], ids=["pipes", "terminal"])
async def test_attach_carries_input_output_and_exit_code(cri: OpenCri, lab: CriLab, tty: bool) -> None:
    script = "while read line; do echo got $line; [ $line = bye ] && exit 3; done"
    container_id = await lab.run_shell(script, stdin=True, tty=tty)
    async with cri.streams.attach(container_id, stdin=True) as session:
        assert (session.stderr is None) is tty
        assert session.stdin is not None
        await session.stdin.write(b"one\n")
        await read_until(session.stdout, b"got one")
        await session.stdin.write(b"bye\n")
        await read_until(session.stdout, b"got bye")
        assert await session.exit_code() == 3


async def test_detaching_does_not_end_the_container(cri: OpenCri, lab: CriLab) -> None:
    """A second attach gets the output that follows."""
    container_id = await lab.run_shell("while :; do echo tick; sleep 0.1; done")
    for _ in range(2):
        async with cri.streams.attach(container_id, stdin=False) as session:
            assert session.stdin is None
            await read_until(session.stdout, b"tick")


async def test_port_of_a_pod_is_reached(cri: OpenCri, lab: CriLab) -> None:
    """The connection is made in the pod's network namespace."""
    sandbox_id, container_id = await lab.start(image=oci_images.WEB)
    await lab.tell(container_id, "until wget -q -O /dev/null http://127.0.0.1:8080/; do sleep 0.02; done")
    async with cri.streams.connect(sandbox_id, 8080) as connection:
        await connection.writer.write(b"GET /index.html HTTP/1.0\r\n\r\n")
        answer = await read_all(connection.reader)
    assert answer.startswith(b"HTTP/1.")
    assert answer.endswith(b"hello from the pod\n")


async def test_connection_to_a_closed_port_is_a_failure(cri: OpenCri, lab: CriLab) -> None:
    """The failure appears at the first read."""
    sandbox_id, _ = await lab.start("sleep", "1000")
    async with cri.streams.connect(sandbox_id, 9) as connection:
        with pytest.raises(RuntimeFailure, match="refused"):
            await connection.reader.read()
    with pytest.raises(RuntimeFailure, match="NotFound"):
        async with cri.streams.connect("a" * 64, 9):
            pass


async def test_log_goes_on_in_a_new_file_after_it_was_moved(cri: OpenCri, lab: CriLab, tmp_path: Path) -> None:
    """Log rotation renames the file and then reopens the log."""
    container_id = await lab.run_shell("while :; do echo tick; sleep 0.05; done")
    path = lab.log_path
    while not (path.exists() and path.read_bytes()):
        await asyncio.sleep(0.02)
    path.rename(path.with_suffix(".old"))
    await cri.runtime.reopen_log(container_id)
    while not (path.exists() and path.read_bytes()):
        await asyncio.sleep(0.02)
    with pytest.raises(RuntimeFailure):
        await cri.runtime.reopen_log("a" * 64)
