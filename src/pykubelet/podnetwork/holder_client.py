"""The agent's side of the holder: starts it, finds it again, and asks it for networks and sockets."""

import asyncio
import itertools
import os
import socket
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pykubelet
from pykubelet.aio.backoff import Backoff, Retries
from pykubelet.aio.log import get_logger
from pykubelet.aio.packets import receive, send
from pykubelet.podnetwork.conntrack import NETLINK_NETFILTER
from pykubelet.podnetwork.holder import BUSY, SOCKET, VERSION
from pykubelet.podnetwork.network_operations import NetworkOperations
from pykubelet.podnetwork.nft import NFT_SECONDS, NftResult, nft_program

log = get_logger(__name__)

FOLDER, NETWORKS = "holder", "networks"
"""The folders of the holder and of the namespaces in the runtime's state folder."""
# The package path is passed explicitly: importing site would take most of the start time.
_PROGRAM = "import sys; sys.path.append({!r}); from pykubelet.podnetwork.holder import main; main(*{!r})"
_ROOT = str(Path(pykubelet.__file__).parent.parent)
_START_SECONDS, _REQUEST_SECONDS = 20.0, 30.0
_RETRY_SECONDS = 0.01
_CANCEL_SECONDS = 5.0
_AGAIN = Backoff(first_seconds=0.1, limit_seconds=30.0)


class HolderUnavailable(OSError):
    """This machine or user cannot have a holder; the message says why."""


class HolderClient:
    """The network that a holder keeps. Implements NetworkHost, for the duration of a context.

    The holder is started if there is none, and again if it was killed: all networks of pods are then gone.
    """

    def __init__(self, root: Path, *, pod_cidr: str, service_cidr: str) -> None:
        """`root` is the runtime's state folder; addresses of Services are in `service_cidr`."""
        self._folder, self._networks = root / FOLDER, root / NETWORKS
        self.pod_cidr, self._service_cidr = pod_cidr, service_cidr
        self.holder = str(self._folder)
        self.gateway = NetworkOperations(self._networks, pod_cidr).gateway
        """The node's address for pods."""
        self.generation = 0
        """Counts the holders: sockets of an earlier one lead nowhere."""
        self.pid, self.has_egress = 0, False
        self._connection: socket.socket | None = None
        self._ids = itertools.count(1)
        self._pending: dict[int, asyncio.Future[tuple[dict[str, Any], list[int]]]] = {}
        self._gone = asyncio.Event()
        self._restarted: list[Callable[[], Awaitable[object]]] = []

    def listen_to_restarts(self, restarted: Callable[[], Awaitable[object]]) -> None:
        """Call a function each time that another holder has been started because the first one was gone."""
        self._restarted.append(restarted)

    async def open(self) -> None:
        """Connect to the holder, or start one; HolderUnavailable if that is impossible."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder.chmod(0o700)
        async with asyncio.timeout(_START_SECONDS):
            # A holder that just ends may still have the lock.
            while not await self.connect():
                await self._start()

    async def connect(self) -> bool:
        """Connect to the holder; whether there is one. HolderUnavailable if it is of another version."""
        if not await self._connect():
            return False
        hello = await self._ask("hello")
        if hello.get("version") != VERSION:
            self.close()
            raise HolderUnavailable(
                0, f"the process {hello.get('pid')} of another version of pykubelet keeps the networks of pods"
            )
        self.pid, self.generation = int(hello["pid"]), self.generation + 1
        self.has_egress = bool(hello["egress"])
        return True

    def close(self) -> None:
        """Disconnect; the holder keeps the networks of pods, and ends if there are none."""
        if self._connection is not None:
            asyncio.get_running_loop().remove_reader(self._connection)
            self._connection.close()
            self._connection = None
        for future in self._pending.values():
            if not future.done():
                future.set_exception(_gone())
        self._pending.clear()

    async def run(self, ready: asyncio.Event) -> None:
        """Start another holder whenever it is gone, until cancelled."""
        ready.set()
        retries = Retries(_AGAIN)
        while True:
            await self._gone.wait()
            log.warning("the process that kept the networks of pods was killed, starting another")
            try:
                await self.open()
                self._gone.clear()
                for restarted in self._restarted:
                    await restarted()
                retries.reset()
            except (OSError, TimeoutError) as error:
                log.error("networks of pods not restored", error=error)
                self._gone.set()
                await asyncio.sleep(retries.next_delay_seconds())

    async def take_over(self, known: Mapping[str, str], last: str) -> Collection[str]:
        return list((await self._ask("take_over", known=dict(known), last=last))["lost"])

    async def forward(self) -> None:
        """Does nothing: the holder does so when it starts."""

    async def release(self) -> None:
        """Does nothing: all of it ends with the holder."""

    async def attach(self, name: str, is_on_loopback: bool = False) -> str:  # noqa: ARG002  the machine's loopback is elsewhere
        return str((await self._ask("attach", name=name))["address"])

    async def detach(self, name: str) -> None:
        await self._ask("detach", name=name)

    async def open_socket(
        self, name: str, family: socket.AddressFamily, kind: socket.SocketKind, protocol: int = 0
    ) -> socket.socket:
        message = {"op": "socket", "name": name, "family": int(family), "kind": int(kind), "protocol": protocol}
        _, (file,) = await self._exchange(message)
        made = socket.socket(fileno=file)
        made.setblocking(False)
        return made

    async def keep_egress(self, pid: int) -> None:
        """Have a process end with the holder, which connects its network to other machines."""
        await self._ask("egress", pid=pid)

    async def open_conntrack(self) -> socket.socket:
        """A netlink socket for the connections that the network tracks."""
        return await self.open_socket("", socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER)

    async def run_nft(self, arguments: Sequence[str], text: str = "") -> NftResult:
        # Files in memory instead of pipes: nothing blocks, however much nft reads or writes.
        files = [os.memfd_create("nft") for _ in range(3)]
        try:
            _fill(files[0], text.encode())
            message = {"op": "nft", "arguments": list(arguments)}
            reply, _ = await self._exchange(message, files, seconds=NFT_SECONDS)
            output, errors = (os.pread(file, os.fstat(file).st_size, 0) for file in files[1:])
        finally:
            _close_all(files)
        return NftResult(reply["exit_code"], output, errors)

    async def _ask(self, operation: str, **fields: Any) -> dict[str, Any]:
        reply, files = await self._exchange({"op": operation, **fields})
        _close_all(files)
        return reply

    async def _exchange(
        self, message: dict[str, Any], files: Sequence[int] = (), *, seconds: float = _REQUEST_SECONDS
    ) -> tuple[dict[str, Any], list[int]]:
        """Send a request; the reply and the files that came with it. OSError if it fails."""
        id = next(self._ids)
        future = self._pending[id] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(seconds):
                await self._send({**message, "id": id}, files)
                reply, handed = await asyncio.shield(future)
        except BaseException:
            if message["op"] == "nft" and self._connection is not None:
                # A transaction must not overlap with the next one.
                with suppress(OSError):
                    send(self._connection, {"op": "cancel", "cancelled": id, "id": next(self._ids)})
                await asyncio.wait([future], timeout=_CANCEL_SECONDS)
            future.cancel()
            raise
        finally:
            self._pending.pop(id, None)
        if "error" in reply:
            raise OSError(int(reply["errno"]), str(reply["error"]))
        return reply, handed

    async def _send(self, message: dict[str, Any], files: Sequence[int]) -> None:
        while True:
            if self._connection is None:
                raise _gone()
            try:
                send(self._connection, message, files)
            except BlockingIOError:
                # Very many requests at once; the holder needs about a millisecond for each.
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                return

    def _receive(self) -> None:
        assert self._connection is not None
        try:
            reply, files = receive(self._connection)
        except BlockingIOError:
            return
        except (OSError, ValueError):
            reply, files = None, []
        if reply is None:
            self.close()
            self._gone.set()
            return
        future = self._pending.pop(int(reply.get("id") or 0), None)
        if future is None or future.done():
            # Its caller was cancelled.
            _close_all(files)
        else:
            future.set_result((reply, files))

    async def _connect(self) -> bool:
        try:
            connection = await asyncio.to_thread(_connected, self._folder)
        except OSError:
            return False
        self._connection = connection
        asyncio.get_running_loop().add_reader(connection, self._receive)
        return True

    async def _start(self) -> None:
        """Start a holder; HolderUnavailable says why this machine does not let it work."""
        arguments = (str(self._folder), str(self._networks), self.pod_cidr, self._service_cidr, nft_program() or "")
        # An interpreter in an unusual place may need it to find libpython.
        environment = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-I", "-S", "-c", _PROGRAM.format(_ROOT, arguments)),
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=DEVNULL,
            env=environment,
            cwd="/",
            start_new_session=True,
        )
        # Both end as soon as the holder works, which is then another process.
        said, _ = await process.communicate()
        if said.startswith(BUSY):
            await asyncio.sleep(_RETRY_SECONDS)
        elif said:
            raise HolderUnavailable(0, said.decode(errors="replace"))


def _connected(folder: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
    handle = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # The path itself may be too long for the address of a socket.
        connection.connect(f"/proc/self/fd/{handle}/{SOCKET}")
        connection.setblocking(False)
    except BaseException:
        connection.close()
        raise
    finally:
        os.close(handle)
    return connection


def _fill(file: int, content: bytes) -> None:
    """Write a file in memory and go back to its start."""
    with open(file, "wb", closefd=False) as written:
        written.write(content)
    os.lseek(file, 0, os.SEEK_SET)


def _gone() -> OSError:
    return ConnectionResetError(104, "the process that keeps the networks of pods is gone")


def _close_all(files: Sequence[int]) -> None:
    for file in files:
        os.close(file)
