"""How containers and commands end on containerd."""

import asyncio
from pathlib import Path

import pytest

import oci_images
from cri_lab import CriLab
from pykubelet.runtimes.cri.channel import CriChannel
from pykubelet.runtimes.cri.connect import CriRuntimeStatus, OpenCri
from pykubelet.runtimes.cri.streaming import PORT_PROTOCOL, spdy_connection
from pykubelet.runtimes.protocol import RuntimeFailure

OBEYS = "trap 'exit 5' TERM; while :; do sleep 0.05; done"


async def test_sandbox_stop_gives_containers_a_grace_period(cri: OpenCri, lab: CriLab) -> None:
    """A container that ignores TERM is killed."""
    pod = lab.pod("sh", "-c", OBEYS)
    sandbox_id = await lab.sandbox(pod)
    obeys = await lab.add(pod, sandbox_id)
    stubborn = await lab.add(pod, sandbox_id, command=("sh", "-c", "trap '' TERM; sleep 1000"), attempt=1)
    await asyncio.sleep(0.2)  # shells need their time to set traps
    await cri.runtime.stop(sandbox_id, 1)
    found = await lab.inspect(pod)
    assert {one.id: one.exit_code for one in found.containers} == {obeys: 5, stubborn: 137}
    assert [one.is_ready for one in found.sandboxes] == [False]


async def test_stop_sends_the_signal_that_the_image_names(cri: OpenCri, lab: CriLab) -> None:
    """The container ignores TERM, so only the image's STOPSIGNAL ends it in time."""
    pod = lab.pod(image=oci_images.STOP_SIGNAL)
    container_id = await lab.run(pod)
    await lab.first_line()
    async with asyncio.timeout(5):
        await cri.runtime.stop(container_id, 30)
    assert (await lab.inspect(pod)).containers[0].exit_code == 3


@pytest.mark.parametrize("seconds", [0.3, 1], ids=["part of a second", "whole second"])
async def test_command_that_takes_too_long_is_ended(cri: OpenCri, lab: CriLab, seconds: float) -> None:
    """The container keeps running."""
    container_id = await lab.run_shell("sleep 1000")
    with pytest.raises(TimeoutError):
        await cri.runtime.run(container_id, ("sleep", "4711"), timeout_seconds=seconds, limit_bytes=100)
    async with asyncio.timeout(60):
        while any("4711" in line for line in await lab.tell(container_id, "ps -o args | grep '[s]leep 4711'")):
            await asyncio.sleep(0.02)
    assert await lab.tell(container_id, "echo alive") == ["alive"]


async def test_command_of_a_cancelled_caller_is_ended(cri: OpenCri, lab: CriLab) -> None:
    """No process of the command is left."""
    container_id = await lab.run_shell("sleep 1000")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await cri.runtime.run(container_id, ("sleep", "4712"), timeout_seconds=None, limit_bytes=100)
    async with asyncio.timeout(60):
        while any("4712" in line for line in await lab.tell(container_id, "ps -o args | grep '[s]leep 4712'")):
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("seconds", [0.0, 0.02, 0.05, 0.1, 0.15])
async def test_command_cancelled_while_it_starts_does_not_block_later_ones(
    cri: OpenCri, lab: CriLab, seconds: float
) -> None:
    """Under load, containerd 1.6 ran no other command in the container after an immediate cancellation."""
    container_id = await lab.run_shell("sleep 1000")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(seconds):
            await cri.runtime.run(container_id, ("sleep", "4713"), timeout_seconds=None, limit_bytes=100)
    assert await lab.tell(container_id, "echo alive") == ["alive"]


async def test_command_tells_output_before_errors_cut_at_its_limit(cri: OpenCri, lab: CriLab) -> None:
    """stdout comes before stderr up to the size limit; a missing program is a failure."""
    container_id = await lab.run_shell("sleep 1000")
    script = ("sh", "-c", "echo err >&2; echo out; exit 4")
    outcome = await cri.runtime.run(container_id, script, timeout_seconds=5, limit_bytes=6)
    assert (outcome.exit_code, outcome.output, outcome.errors) == (4, b"out\ner", b"err\n")
    with pytest.raises(RuntimeFailure, match="executable file not found"):
        await cri.runtime.run(container_id, ("nonesuch",), timeout_seconds=5, limit_bytes=6)


async def test_runtime_that_never_answered_is_down(tmp_path: Path) -> None:
    """The error text is that of the Go kubelet."""
    async with CriChannel(f"unix://{tmp_path / 'none.sock'}") as channel:
        state = CriRuntimeStatus(channel)
        await state.update()
        assert state.runtime_error() == "container runtime is down"


async def test_streaming_server_that_is_not_there_or_refuses_is_a_failure(unused_tcp_port: int) -> None:
    """Entering the context raises the failure."""

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 404 Not Found\r\n\r\n")
        writer.close()

    async def enter() -> None:
        async with spdy_connection(f"http://127.0.0.1:{unused_tcp_port}/exec/x", PORT_PROTOCOL):
            pass

    with pytest.raises(RuntimeFailure, match="cannot be reached"):
        await enter()
    async with await asyncio.start_server(refuse, "127.0.0.1", unused_tcp_port):
        with pytest.raises(RuntimeFailure, match="404 Not Found"):
            await enter()
