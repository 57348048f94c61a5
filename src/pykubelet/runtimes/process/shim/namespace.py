"""Creates the mount namespace of a container for its first process, and joins it for later ones.

Root creates a mount namespace; an ordinary user creates a user namespace around it, if the machine permits that, or
lets bubblewrap create it. bwrap then runs a waiting program in the new namespaces, which we join before it ends. A bwrap
that is setuid root creates namespaces that we cannot join, so it is not used.
"""

import errno
import os
import socket
import stat
from collections.abc import Sequence
from contextlib import suppress

from pykubelet.aio.packets import receive, send
from pykubelet.runtimes.process.shim import kernel, rootfs
from pykubelet.runtimes.process.shim.rootfs import BY_BUBBLEWRAP, BY_ROOT, BY_USER, NO_NAMESPACE

_FOLDER_FLAGS = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_KINDS = {
    "mnt": kernel.NEW_MOUNTS,
    "net": kernel.NEW_NETWORK,
    "user": kernel.NEW_USERS,
    "uts": kernel.NEW_HOST_NAME,
}
# The name that podnetwork/holder.py gives its socket.
_HOLDER_SOCKET = "socket"
_HOLDER_SECONDS = 30.0
_PLACES = ("/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap")
# Prints its PID and waits for the end of its input.
_HOLDER = ("/bin/sh", "-c", "echo $$; read line")


def find_namespace_method() -> str:
    """The method that can create a mount namespace here; tries each in a child process."""
    ways = (BY_ROOT, BY_USER) if os.geteuid() == 0 else (BY_USER, BY_BUBBLEWRAP)
    return next((way for way in ways if _works(way)), NO_NAMESPACE)


def _works(way: str) -> bool:
    child = os.fork()
    if child == 0:
        try:
            if way == BY_BUBBLEWRAP:
                _borrow(rootfs.plan_view([], rootfs.HostFiles()), "test")
            else:
                _separate(way, with_host_name=True)
        except BaseException:  # noqa: BLE001  any error means that it does not work
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def make_namespace(
    way: str,
    mounts: Sequence[rootfs.ViewMount],
    *,
    spare: rootfs.ViewMount,
    root: str,
    hostname: str,
    read_only: bool,
    has_users: bool = False,
) -> None:
    """Moves this process into new namespaces; `root` is an empty directory for the new root.

    With `has_users` it is in a user namespace already in which it may create the others.

    `spare` is mounted if there is nothing at its path. A missing host path becomes an empty directory, as in every container
    runtime. OSError or ImpossibleView if that is not possible.
    """
    for mount in mounts:
        if not os.path.lexists(mount.host_path):
            os.makedirs(mount.host_path, 0o755, exist_ok=True)
    real = [mount._replace(host_path=os.path.realpath(mount.host_path)) for mount in mounts]
    steps = rootfs.plan_view(real, rootfs.HostFiles(), read_only=read_only, spare=spare)
    if way == BY_BUBBLEWRAP:
        _borrow(steps, hostname)
        return
    _separate(BY_ROOT if has_users else way, with_host_name=bool(hostname))
    if hostname:
        socket.sethostname(hostname)
    for step in steps:
        _do(step, root)
    kernel.enter_root(root)


def join_network(path: str) -> None:
    """Moves this process into the network namespace that is mounted on a file."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    kernel.join(handle, kernel.NEW_NETWORK)
    os.close(handle)


def join_held_network(holder: str, name: str) -> None:
    """Moves this process into the user and network namespaces that the holder in a folder keeps for a pod."""
    connection, folder = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET), os.open(holder, _FOLDER_FLAGS)
    try:
        # Waits if very many containers start at once.
        connection.connect(f"/proc/self/fd/{folder}/{_HOLDER_SOCKET}")
        connection.settimeout(_HOLDER_SECONDS)
        send(connection, {"op": "namespaces", "name": name, "id": 1})
        reply, files = receive(connection)
    finally:
        connection.close()
        os.close(folder)
    if reply is None or len(files) != 2:
        raise ConnectionResetError(errno.ECONNRESET, "the network of the pod is gone")
    for handle, kind in zip(files, (kernel.NEW_USERS, kernel.NEW_NETWORK), strict=True):
        kernel.join(handle, kind)
        os.close(handle)


def join_namespace(way: str, pid: int, *, with_host_name: bool, with_network: bool = False) -> None:
    """Moves this process into the namespaces of another one, which must not end meanwhile."""
    # User first, which gives the right to join the others; all opened before, because /proc may change.
    wanted = {"user": way != BY_ROOT, "net": with_network, "uts": with_host_name, "mnt": True}
    names = [name for name, is_wanted in wanted.items() if is_wanted]
    handles = [(name, os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)) for name in names]
    for name, handle in handles:
        kernel.join(handle, _KINDS[name])
        os.close(handle)


def _separate(way: str, *, with_host_name: bool) -> None:
    if way == BY_USER:
        user, group = os.geteuid(), os.getegid()
        kernel.unshare(kernel.NEW_USERS)
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{user} {user} 1")
        _write("/proc/self/gid_map", f"{group} {group} 1")
    kernel.unshare(kernel.NEW_MOUNTS | (kernel.NEW_HOST_NAME if with_host_name else 0))
    # Later mounts of the machine propagate here, but not the other way.
    kernel.mount("", "/", flags=kernel.SLAVE | kernel.RECURSIVE)


def _borrow(steps: Sequence[rootfs.ViewStep], hostname: str) -> None:
    with NamespaceHolder(steps, hostname) as pid:
        join_namespace(BY_BUBBLEWRAP, pid, with_host_name=bool(hostname))


def _write(path: str, text: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(handle, text.encode())
    finally:
        os.close(handle)


def _do(step: rootfs.ViewStep, root: str) -> None:
    path = root + step.path if step.path != "/" else root
    match step.action:
        case "memory":
            _mount_memory(step.source, path)
            if path == root:
                # Otherwise a recursive bind mount into it would contain it again.
                kernel.mount("", path, flags=kernel.UNBINDABLE)
        case rootfs.FOLDER | rootfs.FILE:
            _make(step.action, path, root)
        case rootfs.LINK:
            os.symlink(step.source, path)
        case "lock":
            kernel.make_read_only(path, recursive=path != root)
        case _:
            kernel.mount(step.source, path, flags=kernel.BIND | kernel.RECURSIVE)
            if step.is_private:
                kernel.mount("", path, flags=kernel.PRIVATE | kernel.RECURSIVE)
            if step.read_only:
                kernel.make_read_only(path)


def _make(kind: str, path: str, root: str) -> None:
    """Creates a directory or file; another container of the pod may do the same in a volume concurrently.

    Links are not followed: another container could use one to have files created elsewhere.
    """
    above, name = os.path.split(path)
    handle = os.open(root, _FOLDER_FLAGS)
    try:
        for part in filter(None, above.removeprefix(root).split("/")):
            inner = os.open(part, _FOLDER_FLAGS, dir_fd=handle)
            os.close(handle)
            handle = inner
        with suppress(FileExistsError):
            if kind == rootfs.FOLDER:
                os.mkdir(name, 0o755, dir_fd=handle)
            else:
                os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644, dir_fd=handle))
    finally:
        os.close(handle)


def _mount_memory(model: str, path: str) -> None:
    found = os.stat(model)
    kernel.mount("tmpfs", path, "tmpfs", 0, f"mode={stat.S_IMODE(found.st_mode):o}")
    try:
        os.chown(path, found.st_uid, found.st_gid)
    except OSError:
        # In a user namespace only our own user exists.
        return


def bubblewrap_arguments(steps: Sequence[rootfs.ViewStep]) -> list[str]:
    """The steps as arguments of bwrap, whose root is in memory anyway; it has none for "lock"."""
    arguments: list[str] = []
    for step in steps:
        match step.action:
            case "memory":
                arguments += ["--tmpfs", step.path] if step.path != "/" else []
            case rootfs.FOLDER:
                arguments += ["--dir", step.path]
            case rootfs.LINK:
                arguments += ["--symlink", step.source, step.path]
            case "bind":
                arguments += ["--ro-bind" if step.read_only else "--dev-bind", step.source, step.path]
    return arguments


class NamespaceHolder:
    """A process that waits in new namespaces for the duration of a context; OSError if bwrap is missing or fails."""

    def __init__(self, steps: Sequence[rootfs.ViewStep], hostname: str) -> None:
        program = next((place for place in _PLACES if os.access(place, os.X_OK)), "")
        if not program:
            raise FileNotFoundError(2, "bubblewrap is not installed")
        naming = ["--unshare-uts", "--hostname", hostname] if hostname else []
        self._argv = [program, "--unshare-user", *naming, *bubblewrap_arguments(steps), "--", *_HOLDER]
        self._child = 0
        self._end = -1

    def __enter__(self) -> int:
        """Start bwrap; the PID of the waiting process."""
        stdin, self._end = os.pipe()
        answer, stdout = os.pipe()
        self._child = os.fork()
        if self._child == 0:
            with suppress(OSError):
                os.dup2(stdin, 0)
                os.dup2(stdout, 1)
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
                os.execve(self._argv[0], self._argv, {})  # noqa: S606  a program of the system, not of a user
            os._exit(127)
        os.close(stdin)
        os.close(stdout)
        pid = os.read(answer, 32)
        os.close(answer)
        if not pid:
            self.__exit__()
            raise PermissionError(1, "bubblewrap cannot make namespaces")
        return int(pid)

    def __exit__(self, *_: object) -> None:
        os.close(self._end)
        os.waitpid(self._child, 0)
