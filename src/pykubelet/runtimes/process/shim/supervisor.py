"""The shim: starts one container, writes its log, serves the kubelet, records its end.

A spawner process, started once by the kubelet, has everything loaded and forks one shim per container: a container costs a
fork instead of the start of an interpreter, and shims share memory. The spawner ends with the kubelet; shims continue.

A shim works in the container's state folder: it reads `config.json`, claims the container with `state.json` (the first
writer wins, so a container never starts twice), and writes `exit.json` before it ends. When the first process of the
container ends, the shim kills all others. `enter` runs in the forked child before exec; it writes errors to a pipe that
exec closes, so an empty pipe means that the program runs.
"""

import fcntl
import gc
import json
import os
import resource
import selectors
import signal
import socket
import termios
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Never

from pykubelet.aio.packets import receive, send
from pykubelet.runtimes.process.shim import kernel, namespace, processes, rootfs, wire
from pykubelet.runtimes.process.shim.processes import children, identify, kill_children, reaped, signal_group
from pykubelet.runtimes.process.shim.requests import ShimServer
from pykubelet.runtimes.process.shim.rootfs import NO_NAMESPACE
from pykubelet.runtimes.process.shim.stdio import ContainerLogFile, Stdio

_UMASK = 0o022
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
START_FAILED = 128
# How long to wait for killed processes; one that hangs in the kernel must not hide the end of the container.
_STRAGGLER_SECONDS = 5.0


def main(channel: int) -> Never:
    """The spawner: forks a shim for each request on a socket until the kubelet closes it."""
    kubelet = socket.socket(fileno=channel)
    kernel.name_process("pykubelet-spawn")
    way = namespace.find_namespace_method()
    # The spawner adopts what shims leave behind and ignores exit codes.
    kernel.adopt_orphans()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    # Loads what is imported on first use, such as codecs, before shims are forked.
    identify(os.getpid())
    # Memory that the garbage collector does not touch stays shared.
    gc.collect()
    gc.freeze()
    gc.disable()
    send(kubelet, {"way": way})
    while True:
        message, files = receive(kubelet)
        if message is None:
            os._exit(0)
        if os.fork() == 0:
            try:
                kubelet.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                supervise(message["folder"], socket.socket(fileno=files[0]))
            finally:
                # A failed shim must not continue as a spawner.
                os._exit(1)
        for file in files:
            os.close(file)


def supervise(folder: str, report: socket.socket) -> Never:
    """Runs the container in this folder to its end; reports on a socket whether it was started."""
    os.setsid()
    os.chdir(folder)
    kernel.name_process("pykubelet-shim")
    kernel.adopt_orphans()
    me = identify(os.getpid())
    try:
        is_first = wire.create_file("state.json", _json({"supervisor": me, "main": None, "started_at": 0}))
    except OSError as error:
        _report(report, {"error": f"unable to start container process: {_go_text(error)}"})
        os._exit(0)
    if not is_first:
        _report(report, {"error": "it was started before"})
        os._exit(0)
    supervisor = Supervisor(report)
    try:
        supervisor.run()
    except BaseException as error:  # noqa: BLE001  the container must not continue without its shim
        kill_children()
        # Unless there is an exit record already.
        wire.create_file("exit.json", _exit_record(255, "Unknown", f"the container shim failed: {error!r}"))
    os._exit(0)


class Supervisor:
    """Supervises one container from start to end."""

    def __init__(self, report: socket.socket) -> None:
        self._report = report
        self._selector = selectors.DefaultSelector()
        with open("config.json", "rb") as file:
            self._config: dict[str, Any] = json.load(file)
        self._main = 0
        self._identities: dict[str, Any] = {}
        self._failures = -1
        self._is_settled = self._is_running = False
        self._failure = ""
        self._exit_code: int | None = None

    def run(self) -> None:
        """Start the container, serve requests, and record its end."""
        self._watch_signals()
        try:
            log = ContainerLogFile(self._config["log_path"])
            processes.make_cgroups(self._config["cgroups"])
        except OSError as error:
            self._fail(f"{error.filename}: {error.strerror}")
            return
        stdio = Stdio(self._config, self._selector, log)
        requests = ShimServer(self._selector, self, stdio, log)
        self._main, self._failures = self._fork(
            self._config["argv"], stdio.files, is_terminal=stdio.is_terminal, beside=0
        )
        # Now: a process can be identified only until it is reaped, and exec does not change its identity.
        self._identities = {"supervisor": identify(os.getpid()), "main": identify(self._main)}
        stdio.release()
        self._selector.register(self._failures, selectors.EVENT_READ, self._settle)
        self._serve(requests)
        stdio.drain()
        if self._failure:
            self._fail(self._failure)
        else:
            self._end()
        requests.close(self._exit_code or 0)

    def _serve(self, requests: ShimServer) -> None:
        while True:
            is_ending = self._exit_code is not None
            if is_ending and not children():
                return
            events = self._selector.select(_STRAGGLER_SECONDS if is_ending else None)
            if is_ending and not events:
                return
            for key, _ in events:
                # An earlier callback may have unregistered this one.
                if self._selector.get_map().get(key.fileobj) == key:
                    key.data()
            self._reap(requests)

    def _watch_signals(self) -> None:
        wake, waker = os.pipe()
        for end in (wake, waker):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        # The machine shuts down, or the shim was mistaken for the container: pass the signal on.
        signal.signal(signal.SIGTERM, lambda *_: self.signal(self._config["stop_signal"]))
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, signal.SIG_IGN)
        self._selector.register(wake, selectors.EVENT_READ, lambda: os.read(wake, 4096))

    def signal(self, number: int) -> None:
        """Signal the process group of the first process; its PID stays valid until it is reaped."""
        if self._main and self._exit_code is None:
            signal_group(self._main, number)

    def start(self, argv: list[str], *, files: list[int], is_terminal: bool) -> tuple[int, int]:
        """Start another program in the container; OSError if no process can be created."""
        if self._exit_code is not None or not self._is_running:
            raise ProcessLookupError(0, "the container is not running")
        return self._fork(argv, files, is_terminal=is_terminal, beside=self._main)

    def _fork(self, argv: list[str], files: Sequence[int], *, is_terminal: bool, beside: int) -> tuple[int, int]:
        failures, writer = os.pipe()
        me = os.getpid()
        child = os.fork()
        if child == 0:
            enter(
                self._config, argv, files=files, is_terminal=is_terminal, failures=writer, supervisor=me, beside=beside
            )
        os.close(writer)
        os.set_blocking(failures, False)
        return child, failures

    def _settle(self) -> None:
        """Read whether the container runs, if that is known yet."""
        try:
            self._failure = os.read(self._failures, 4096).decode(errors="replace")
        except BlockingIOError:
            return
        self._is_settled = True
        self._selector.unregister(self._failures)
        if not self._failure:
            self._is_running = True
            started_at = time.time_ns()
            wire.replace_file("state.json", _json({**self._identities, "started_at": started_at}))
            wire.remove_spare("state.json")
            _report(self._report, {**self._identities, "started_at": started_at})

    def _reap(self, requests: ShimServer) -> None:
        with suppress(ChildProcessError):
            for pid, exit_code in reaped():
                requests.record_end(pid, exit_code)
                if pid == self._main:
                    if not self._is_settled:
                        self._settle()
                    self._exit_code = exit_code
        if self._exit_code is not None:
            kill_children()

    def _end(self) -> None:
        exit_code = self._exit_code or 0
        is_out_of_memory = processes.ran_out_of_memory(self._config["cgroups"])
        reason = "OOMKilled" if is_out_of_memory else "Error" if exit_code else "Completed"
        _record(exit_code, reason)
        processes.remove_cgroups(self._config["cgroups"])

    def _fail(self, failure: str) -> None:
        message = f"unable to start container process: {failure}"
        _record(START_FAILED, "StartError", message)
        _report(self._report, {"error": message})
        processes.remove_cgroups(self._config["cgroups"])


def _exit_record(exit_code: int, reason: str, message: str) -> bytes:
    return _json({"exit_code": exit_code, "reason": reason, "message": message, "finished_at": time.time_ns()})


def _record(exit_code: int, reason: str, message: str = "") -> None:
    wire.replace_file("exit.json", _exit_record(exit_code, reason, message))
    # Flushed to disk in a child process: the kubelet sees the record at once and does not wait for the disk.
    if os.fork() == 0:
        with suppress(OSError):
            wire.make_durable("exit.json")
        os._exit(0)


def _report(report: socket.socket, message: dict[str, Any]) -> None:
    # The kubelet may be gone; the next one reads the state file.
    with suppress(OSError):
        send(report, message)
    report.close()


def _json(content: dict[str, Any]) -> bytes:
    return json.dumps(content).encode()


class ContainerStartError(Exception):
    """The program cannot be started; the message is for the user."""


def enter(
    config: Mapping[str, Any],
    argv: list[str],
    *,
    files: Sequence[int],
    is_terminal: bool,
    failures: int,
    supervisor: int,
    beside: int = 0,
) -> Never:
    """Becomes a program of the container; `beside` is its first process, 0 to become that."""
    try:
        _die_with(supervisor)
        _take_files(files, is_terminal=is_terminal)
        _reset_signals()
        _join_groups(config)
        _set_oom_score(config["oom_score_adj"])
        _enter_namespaces(config, beside)
        _become_user(config)
        # Again, because a change of user resets it.
        _die_with(supervisor)
        os.umask(_UMASK)
        _change_directory(config["cwd"])
        _execute(argv, dict(config["environment"]))
    except (ContainerStartError, rootfs.ImpossibleView) as error:
        text = str(error)
    except OSError as error:
        text = f"{error.filename}: {_go_text(error)}" if error.filename else _go_text(error)
    except ValueError as error:
        # A NUL character in an argument or a variable.
        text = str(error)
    os.write(failures, text.encode(errors="replace")[:4096])
    os._exit(1)


def _die_with(supervisor: int) -> None:
    """Ends this process with the shim, which may be gone already."""
    kernel.die_with_parent(signal.SIGKILL)
    if os.getppid() != supervisor:
        os._exit(1)


def _take_files(files: Sequence[int], *, is_terminal: bool) -> None:
    # A session of its own: a process group to signal, and no controlling terminal but the given one.
    os.setsid()
    for number, file in enumerate(files):
        os.dup2(file, number)
    if is_terminal:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _reset_signals() -> None:
    signal.set_wakeup_fd(-1)
    # All signals: ignored ones stay ignored after exec, and Python ignores some.
    for number in range(1, signal.SIGRTMIN - 2):
        if number not in {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _join_groups(config: Mapping[str, Any]) -> None:
    for group in config["cgroups"]:
        handle = os.open(f"{group['path']}/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)
        os.write(handle, b"0")
        os.close(handle)
    for name, limit in config["limits"]:
        number = getattr(resource, f"RLIMIT_{name}")
        hard = resource.getrlimit(number)[1]
        bounded = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(number, (bounded, hard))


def _set_oom_score(score: int) -> None:
    """Sets oom_score_adj; lowering it needs a privilege that the process may not have."""
    with suppress(PermissionError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write(str(score))


def _enter_namespaces(config: Mapping[str, Any], beside: int) -> None:
    way, network, holder = config["way"], config["network"], config["network_holder"]
    if beside and way != NO_NAMESPACE:
        has_name = bool(config["hostname"])
        namespace.join_namespace(way, beside, with_host_name=has_name, with_network=bool(network))
        return
    # Before the view of the container hides the file.
    if holder:
        namespace.join_held_network(holder, os.path.basename(network))
    elif network:
        namespace.join_network(network)
    if way == NO_NAMESPACE:
        return
    mounts = [rootfs.ViewMount(**mount) for mount in config["mounts"]]
    # Relative: the shim works in the container's state folder.
    root, work = os.path.realpath("root"), os.path.realpath("work")
    os.makedirs(root, 0o700, exist_ok=True)
    os.makedirs(work, 0o755, exist_ok=True)
    cwd, read_only = config["cwd"], config["read_only_root"]
    namespace.make_namespace(
        way,
        mounts,
        spare=rootfs.ViewMount(work, cwd, read_only),
        root=root,
        hostname=config["hostname"],
        read_only=read_only,
        has_users=bool(holder),
    )


def _become_user(config: Mapping[str, Any]) -> None:
    user = config["user"]
    for number in config["dropped_capabilities"]:
        kernel.drop_capability(number)
    if user is not None:
        os.setgroups(user["groups"])
        os.setresgid(user["gid"], user["gid"], user["gid"])
        os.setresuid(user["uid"], user["uid"], user["uid"])
    if config["no_new_privileges"]:
        kernel.forbid_new_privileges()


def _change_directory(path: str) -> None:
    try:
        os.chdir(path)
    except OSError as error:
        raise ContainerStartError(f'chdir to cwd ("{path}"): {_go_text(error)}') from error


def _execute(argv: list[str], environment: Mapping[str, str]) -> Never:
    name = argv[0]
    if "/" in name:
        candidates = [name]
    else:
        folders = environment.get("PATH", _DEFAULT_PATH).split(":")
        candidates = [f"{folder or '.'}/{name}" for folder in folders]
    denied = False
    for candidate in candidates:
        try:
            os.execve(candidate, argv, environment)  # noqa: S606  the program of the container
        except (FileNotFoundError, NotADirectoryError) as error:
            if "/" in name:
                raise ContainerStartError(f'exec: "{name}": stat {name}: no such file or directory') from error
        except PermissionError:
            denied = True
        except OSError as error:
            raise ContainerStartError(f'exec: "{name}": {_go_text(error)}') from error
    reason = "permission denied" if denied else "executable file not found in $PATH"
    raise ContainerStartError(f'exec: "{name}": {reason}')


def _go_text(error: OSError) -> str:
    """The text of an error in Go's spelling, as other runtimes show it."""
    text = str(error.strerror)
    return text[:1].lower() + text[1:]
