"""Has supervisors started: the agent's side of `shim/spawner.py`, and the door to a subprocess.

The spawner gets no environment and no files of the agent: whatever it starts must not know its secrets.
"""

import asyncio
import os
import socket
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pykubelet
from pykubelet.aio.log import get_logger
from pykubelet.runtime.process.shim import wire
from pykubelet.runtime.protocol import RuntimeFailure

log = get_logger(__name__)

# Where the package is, told by hand: without site, which would take most of the time to start.
_PROGRAM = "import sys; sys.path.append({!r}); from pykubelet.runtime.process.shim.spawner import main; main({})"
_ROOT = str(Path(pykubelet.__file__).parent.parent)
_PATIENCE_SECONDS = 20.0

Report = Callable[[dict[str, Any] | None], None]


class Launcher:
    """One spawner, started when it is needed and again if it was killed."""

    def __init__(self) -> None:
        self._process: Process | None = None
        self._channel: socket.socket | None = None
        self._turn = asyncio.Lock()

    async def start(self) -> str:
        """Start the spawner; how it can give containers a view of their own."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        program = _PROGRAM.format(_ROOT, theirs.fileno())
        # An interpreter in an unusual place may need it to find its own library.
        environment = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
        with theirs:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-I", "-S", "-c", program),
                pass_fds=[theirs.fileno()],
                stdin=DEVNULL,
                stdout=DEVNULL,
                stderr=DEVNULL,
                env=environment,
                cwd="/",
                start_new_session=True,
            )
        self._channel = ours
        hello: dict[str, Any] | None = None
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_SECONDS):
                hello = wire.decode(await asyncio.get_running_loop().sock_recv(ours, wire.MAX_BYTES))
        if hello is None:
            raise RuntimeFailure("the spawner of supervisors does not start")
        return str(hello["way"])

    async def close(self) -> None:
        """Let the spawner end; what it started goes on."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if self._process is not None:
            await self._process.wait()
            self._process = None

    async def launch(self, folder: Path, report: Report) -> None:
        """Have the container in a folder started; `report` is called once, with None if nobody knows what came of it."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        with theirs:
            try:
                await self._send(folder, theirs)
            except OSError as error:
                ours.close()
                raise RuntimeFailure(f"the supervisor cannot be started: {error.strerror}") from error
            except BaseException:
                ours.close()
                raise
        loop = asyncio.get_running_loop()
        loop.add_reader(ours, _deliver, loop, ours, report)

    async def _send(self, folder: Path, end: socket.socket) -> None:
        async with self._turn:
            if self._channel is None or not await self._try_to_send(folder, end):
                log.warning("spawner of supervisors is gone, starting another")
                await self.close()
                await self.start()
                if not await self._try_to_send(folder, end):
                    raise BrokenPipeError(0, "the spawner ends at once")

    async def _try_to_send(self, folder: Path, end: socket.socket) -> bool:
        assert self._channel is not None
        while True:
            try:
                wire.send(self._channel, {"folder": str(folder)}, [end.fileno()])
            except BlockingIOError:
                # Very many at once: the spawner takes about a millisecond for each.
                await asyncio.sleep(0.002)
            except (BrokenPipeError, ConnectionResetError):
                return False
            else:
                return True


def _deliver(loop: asyncio.AbstractEventLoop, end: socket.socket, report: Report) -> None:
    loop.remove_reader(end)
    message: dict[str, Any] | None = None
    with end, suppress(OSError):
        message = wire.decode(end.recv(wire.MAX_BYTES))
    report(message)
