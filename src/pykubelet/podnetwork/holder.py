"""The holder: a process that keeps the networks of an ordinary user's pods and outlives the agent.

It creates a user, a network and a mount namespace. In these it may do what root may do in the machine's: create links and
namespaces, run nft, forward packets. The user keeps its own uid there, because some programs refuse to run as root. The
agent connects to a socket in a private folder and is served only if it belongs to the same user. The holder ends when no
pod has a network and no client is connected.

There is one such process per node, which imports only a little of the standard library.
"""

import ctypes
import fcntl
import os
import re
import select
import selectors
import signal
import socket
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any, Never

from pykubelet.aio.packets import receive, send
from pykubelet.podnetwork.conntrack import NETLINK_NETFILTER
from pykubelet.podnetwork.netlink import LOOPBACK_INDEX, Netlink
from pykubelet.podnetwork.network_operations import NetworkOperations, allow_all_ports

SOCKET = "socket"
"""The name of the socket in the holder's folder."""
VERSION = 1
"""Changes when an agent cannot work with a holder of an earlier version."""
BUSY = b"busy"
"""What one says that finds another holder in its folder, which may be just ending."""

_NAME = re.compile(r"[0-9a-f]{1,64}")
"""The names of networks are ids of sandboxes; nothing else may become a path."""
_CONNECTIONS = 64
"""Agents, and the containers that start at one moment."""
_FIRST_CLIENT_SECONDS = 60.0
_NFT_PROCESSES = 8
_NFT_ARGUMENTS = 8
_SOCKETS = frozenset(
    {
        *((family, kind, 0) for family in (socket.AF_INET, socket.AF_INET6) for kind in (1, 2)),
        (socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER),
    }
)
"""The families, kinds and protocols of sockets that are handed out."""
_INVALID, _BUSY = 22, 16

_NEW_USERS, _NEW_NETWORK, _NEW_MOUNTS = 0x10000000, 0x40000000, 0x00020000
_SLAVE, _RECURSIVE = 1 << 19, 16384
_SET_NAME, _AMBIENT, _AMBIENT_RAISE = 15, 47, 2
_NET_ADMIN = 12
_CAPABILITY_VERSION = 0x20080522
_libc = ctypes.CDLL(None, use_errno=True)


class NetworkHolder:
    """Serves agents and starting containers until nothing needs the networks any more."""

    def __init__(self, folder: Path, operations: NetworkOperations, nft: str) -> None:
        """`nft` is the path of the program; empty if it is not installed."""
        self._operations, self._nft = operations, nft
        self._selector = selectors.DefaultSelector()
        self._connections: set[socket.socket] = set()
        self._running: dict[int, tuple[socket.socket, int]] = {}
        self._egress = -1
        """Refers to the process that connects this network to other machines."""
        self._path = folder / SOCKET
        self._listener = _listen(folder)
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        wake, waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._selector.register(wake, selectors.EVENT_READ, lambda: os.read(wake, 4096))

    def serve(self) -> None:
        """Serve until there is neither a network nor a client; also if no client comes at all."""
        patience: float | None = _FIRST_CLIENT_SECONDS
        while True:
            for key, _ in self._selector.select(patience):
                # An earlier callback may have unregistered this one.
                if self._selector.get_map().get(key.fileobj) == key:
                    key.data()
            self._reap()
            if not self._connections and not self._operations.addresses:
                self._path.unlink(missing_ok=True)
                self._end_egress()
                return
            patience = None

    def _accept(self) -> None:
        with suppress(OSError):
            connection, _ = self._listener.accept()
            _, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            if uid != os.getuid() or len(self._connections) >= _CONNECTIONS:
                connection.close()
                return
            connection.setblocking(False)
            self._connections.add(connection)
            self._selector.register(connection, selectors.EVENT_READ, lambda: self._read(connection))

    def _read(self, connection: socket.socket) -> None:
        message, files = None, list[int]()
        with suppress(BlockingIOError, OSError, ValueError):
            message, files = receive(connection)
        if isinstance(message, dict):
            self._answer(connection, message, files)
        else:
            self._hang_up(connection)
        _close_all(files)

    def _hang_up(self, connection: socket.socket) -> None:
        if connection not in self._connections:
            return
        self._connections.discard(connection)
        self._selector.unregister(connection)
        connection.close()
        for pid, (user, _) in self._running.items():
            if user is connection:
                os.kill(pid, signal.SIGKILL)

    def _answer(self, connection: socket.socket, message: dict[str, Any], files: list[int]) -> None:
        handed: list[int] = []
        try:
            id = int(message["id"])
            reply = self._do(connection, id, message, files, handed)
        except OSError as error:
            text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error)
            reply = {"id": message.get("id"), "errno": error.errno or _INVALID, "error": text}
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            reply = {"id": message.get("id"), "errno": _INVALID, "error": f"invalid request: {error!r}"}
        if reply is not None:
            self._send(connection, {"id": message.get("id"), **reply}, handed)
        _close_all(handed)

    def _send(self, connection: socket.socket, reply: dict[str, Any], files: list[int]) -> None:
        try:
            send(connection, reply, files)
        except (OSError, ValueError):
            # A client that is gone, or does not read its answers.
            self._hang_up(connection)

    def _do(
        self, connection: socket.socket, id: int, message: dict[str, Any], files: list[int], handed: list[int]
    ) -> dict[str, Any] | None:
        """The reply to a request, None if it comes later; `handed` gets the files that go with it."""
        operations = self._operations
        match message["op"]:
            case "hello":
                return {"version": VERSION, "pid": os.getpid(), "egress": self._has_egress()}
            case "egress":
                self._end_egress()
                self._egress = os.pidfd_open(int(message["pid"]))
                return {}
            case "take_over":
                known = {_name(name): str(address) for name, address in message["known"].items()}
                return {"lost": operations.take_over(known, str(message["last"]))}
            case "attach":
                return {"address": operations.attach(_name(message["name"]))}
            case "detach":
                operations.detach(_name(message["name"]))
                return {}
            case "socket":
                handed.append(self._open_socket(message))
                return {}
            case "namespaces":
                # Opened here: a path to a namespace of a process means another one when its pid is used again.
                handed.append(os.open("/proc/self/ns/user", os.O_RDONLY | os.O_CLOEXEC))
                path = operations.namespaces.path(_name(message["name"]))
                handed.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
                return {}
            case "nft":
                self._start_nft(connection, id, [str(each) for each in message["arguments"]], files)
                return None
            case "cancel":
                self._kill_nft(connection, int(message["cancelled"]))
                return {}
            case _:
                raise ValueError("unknown operation")

    def _open_socket(self, message: dict[str, Any]) -> int:
        family, kind, protocol = (int(message[field]) for field in ("family", "kind", "protocol"))
        if (family, kind, protocol) not in _SOCKETS:
            raise ValueError("no such sockets are handed out")
        name = str(message["name"])
        return self._operations.open_socket(_name(name) if name else "", family, kind, protocol).detach()

    def _start_nft(self, connection: socket.socket, id: int, arguments: list[str], files: list[int]) -> None:
        """Start nft; the files that came with the request are its input, output and errors. The reply follows its end."""
        if len(files) != 3 or len(arguments) > _NFT_ARGUMENTS:
            raise ValueError("nft needs three files and few arguments")
        if not self._nft:
            raise FileNotFoundError("the program nft is missing: install the package nftables")
        if len(self._running) >= _NFT_PROCESSES:
            raise OSError(_BUSY, "too many transactions of nft at once")
        actions = [(os.POSIX_SPAWN_DUP2, file, number) for number, file in enumerate(files)]
        pid = os.posix_spawn(self._nft, [self._nft, *arguments], {}, file_actions=actions)
        self._running[pid] = connection, id

    def _has_egress(self) -> bool:
        # A reference to a process is readable when that has ended.
        return self._egress >= 0 and not select.select([self._egress], [], [], 0)[0]

    def _end_egress(self) -> None:
        if self._egress >= 0:
            with suppress(ProcessLookupError):
                # It has nothing to finish, and may be the first process of a namespace, which can ignore other signals.
                signal.pidfd_send_signal(self._egress, signal.SIGKILL)
            os.close(self._egress)
            self._egress = -1

    def _kill_nft(self, connection: socket.socket, id: int) -> None:
        for pid, user in self._running.items():
            if user == (connection, id):
                os.kill(pid, signal.SIGKILL)

    def _reap(self) -> None:
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                connection, id = self._running.pop(ended[0])
                if connection in self._connections:
                    self._send(connection, {"id": id, "exit_code": os.waitstatus_to_exitcode(ended[1])}, [])


def main(folder: str, networks: str, pod_cidr: str, service_cidr: str, nft: str) -> Never:
    """Create the namespaces in a detached process, say on standard output why that fails, and serve."""
    if os.fork():
        os._exit(0)
    try:
        os.umask(0o077)
        # As `ps` shows it.
        _libc.prctl(_SET_NAME, b"pykubelet-net", 0, 0, 0)
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        _lock(Path(folder))
        create_namespaces()
        operations = NetworkOperations(Path(networks), pod_cidr)
        _connect_node(operations, service_cidr)
        holder = NetworkHolder(Path(folder), operations, nft)
    except OSError as error:
        why = f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error)
        os.write(1, why.encode())
        os._exit(1)
    # The end of the output says that the holder serves.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    holder.serve()
    os._exit(0)


def _lock(folder: Path) -> None:
    """Hold a lock until this process ends: two holders would take the socket from each other."""
    file = os.open(folder / "lock", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.write(1, BUSY)
        os._exit(1)


def create_namespaces() -> None:
    """Move this process into new user, network and mount namespaces, in which programs that it starts may use nft."""
    user, group = os.getuid(), os.getgid()
    _check(_libc.unshare(_NEW_USERS), "a user namespace")
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{user} {user} 1")
    _write("/proc/self/gid_map", f"{group} {group} 1")
    _check(_libc.unshare(_NEW_NETWORK | _NEW_MOUNTS), "a network namespace")
    # Later mounts of the machine propagate here, but not the other way.
    _check(_libc.mount(b"", b"/", b"", ctypes.c_ulong(_SLAVE | _RECURSIVE), b""), "the mount namespace")
    # Version and pid, then the effective, permitted and inheritable sets: the last one as the second.
    header, sets = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)()
    _check(_libc.capget(header, sets), "capabilities")
    sets[2], sets[5] = sets[1], sets[4]
    _check(_libc.capset(header, sets), "capabilities")
    raised = (ctypes.c_ulong(each) for each in (_AMBIENT_RAISE, _NET_ADMIN, 0, 0))
    _check(_libc.prctl(_AMBIENT, *raised), "capabilities")


def _connect_node(operations: NetworkOperations, service_cidr: str) -> None:
    """Set up what is there for all pods: loopback with the gateway's address, forwarding, a route for Services."""
    netlink = Netlink()
    netlink.set_up(LOOPBACK_INDEX)
    operations.forward()
    # The kernel looks for a route before the rules of Services change the destination of what this node sends.
    netlink.add_route(service_cidr, LOOPBACK_INDEX, source=operations.gateway)
    netlink.close()
    allow_all_ports()


def _listen(folder: Path) -> socket.socket:
    (folder / SOCKET).unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
    # The path itself may be too long for the address of a socket.
    handle = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    listener.bind(f"/proc/self/fd/{handle}/{SOCKET}")
    os.close(handle)
    listener.listen(_CONNECTIONS)
    return listener


def _name(name: object) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError("not a name of a network")
    return name


def _write(path: str, text: str) -> None:
    Path(path).write_text(text)


def _close_all(files: list[int]) -> None:
    for file in files:
        os.close(file)


def _check(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), what)
