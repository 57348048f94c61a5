"""Supervises one container: starts it, keeps its log, serves the agent, records its end.

Works in the container's state folder. `config.json` is given; `state.json` says who supervises and what runs; `exit.json`
is the last word, and the supervisor ends with it, which is how an agent hears of the end. Whoever writes `state.json`
first has the container: it is never started twice.

When the first process ends, all the others do, as in a container with processes of its own.
"""

import json
import os
import selectors
import signal
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Never

from pykubelet.runtime.process.shim import files, kernel, limits, wire
from pykubelet.runtime.process.shim.descendants import children, kill_children, reaped, signal_group
from pykubelet.runtime.process.shim.enter import enter
from pykubelet.runtime.process.shim.identity import identify
from pykubelet.runtime.process.shim.output import Log
from pykubelet.runtime.process.shim.requests import Requests
from pykubelet.runtime.process.shim.stdio import Stdio

START_FAILED = 128
# A process that the kernel does not let go of must not hide that the container has ended.
_STRAGGLER_SECONDS = 5.0


def supervise(folder: str, report: socket.socket) -> Never:
    """Be the supervisor of the container in this folder, to its end; `report` hears whether it was started."""
    os.setsid()
    os.chdir(folder)
    kernel.name_process("pykubelet-shim")
    kernel.adopt_orphans()
    me = identify(os.getpid())
    if not files.create_file("state.json", _json({"supervisor": me, "main": None, "started_at": 0})):
        _report(report, {"error": "it was started before"})
        os._exit(0)
    supervisor = Supervisor(report)
    try:
        supervisor.run()
    except BaseException as error:  # noqa: BLE001  whatever it is, the container must not go on alone
        kill_children()
        record = _exit_record(255, "Unknown", f"the supervisor failed: {error!r}")
        # Unless it failed after the last word.
        files.create_file("exit.json", record)
    os._exit(0)


class Supervisor:
    """The life of one container."""

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
        """From start to end."""
        self._watch_signals()
        try:
            log = Log(self._config["log_path"])
            limits.make(self._config["cgroups"])
        except OSError as error:
            self._fail(f"{error.filename}: {error.strerror}")
            return
        stdio = Stdio(self._config, self._selector, log)
        requests = Requests(self._selector, self, stdio, log)
        self._main, self._failures = self._fork(
            self._config["argv"], stdio.files, is_terminal=stdio.is_terminal, beside=0
        )
        # Now, for who it is can be told until it is reaped only, and exec changes nothing of it.
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

    def _serve(self, requests: Requests) -> None:
        while True:
            is_ending = self._exit_code is not None
            if is_ending and not children():
                return
            events = self._selector.select(_STRAGGLER_SECONDS if is_ending else None)
            if is_ending and not events:
                return
            for key, _ in events:
                # One callback may have taken away what another was called for.
                if self._selector.get_map().get(key.fileobj) == key:
                    key.data()
            self._reap(requests)

    def _watch_signals(self) -> None:
        wake, waker = os.pipe()
        for end in (wake, waker):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        # The machine shuts down, or somebody thinks this is the container: it is passed on.
        signal.signal(signal.SIGTERM, lambda *_: self.signal(self._config["stop_signal"]))
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, signal.SIG_IGN)
        self._selector.register(wake, selectors.EVENT_READ, lambda: os.read(wake, 4096))

    def signal(self, number: int) -> None:
        """Send a signal to all processes of the first one's group; it is ours until it is reaped, so is its number."""
        if self._main and self._exit_code is None:
            signal_group(self._main, number)

    def start(self, argv: list[str], *, files: list[int], is_terminal: bool) -> tuple[int, int]:
        """Start one more program in the container; OSError if there can be no more processes."""
        if self._exit_code is not None or not self._is_running:
            raise ProcessLookupError(0, "the container is not running")
        return self._fork(argv, files, is_terminal=is_terminal, beside=self._main)

    def _fork(self, argv: list[str], files: Sequence[int], *, is_terminal: bool, beside: int) -> tuple[int, int]:
        failures, writer = os.pipe()
        me = os.getpid()
        child = os.fork()
        if child == 0:
            enter(
                self._config,
                argv,
                files=files,
                is_terminal=is_terminal,
                failures=writer,
                supervisor=me,
                beside=beside,
            )
        os.close(writer)
        os.set_blocking(failures, False)
        return child, failures

    def _settle(self) -> None:
        """Find out whether the container runs, if that is known by now."""
        try:
            self._failure = os.read(self._failures, 4096).decode(errors="replace")
        except BlockingIOError:
            return
        self._is_settled = True
        self._selector.unregister(self._failures)
        if not self._failure:
            self._is_running = True
            started_at = time.time_ns()
            files.replace_file("state.json", _json({**self._identities, "started_at": started_at}))
            _report(self._report, {**self._identities, "started_at": started_at})

    def _reap(self, requests: Requests) -> None:
        with suppress(ChildProcessError):
            for pid, exit_code in reaped():
                requests.note_end(pid, exit_code)
                if pid == self._main:
                    if not self._is_settled:
                        self._settle()
                    self._exit_code = exit_code
        if self._exit_code is not None:
            kill_children()

    def _end(self) -> None:
        exit_code = self._exit_code or 0
        is_out_of_memory = limits.ran_out_of_memory(self._config["cgroups"])
        reason = "OOMKilled" if is_out_of_memory else "Error" if exit_code else "Completed"
        _record(exit_code, reason)
        limits.remove(self._config["cgroups"])

    def _fail(self, failure: str) -> None:
        message = f"unable to start container process: {failure}"
        _record(START_FAILED, "StartError", message)
        _report(self._report, {"error": message})
        limits.remove(self._config["cgroups"])


def _exit_record(exit_code: int, reason: str, message: str) -> bytes:
    return _json({"exit_code": exit_code, "reason": reason, "message": message, "finished_at": time.time_ns()})


def _record(exit_code: int, reason: str, message: str = "") -> None:
    files.replace_file("exit.json", _exit_record(exit_code, reason, message))
    # Seen at once, and on the disk a moment later: the disk may take its time, but the agent does not wait for it.
    if os.fork() == 0:
        with suppress(OSError):
            files.make_durable("exit.json")
        os._exit(0)


def _report(report: socket.socket, message: dict[str, Any]) -> None:
    # The agent may have gone meanwhile; it finds out by itself.
    with suppress(OSError):
        wire.send(report, message)
    report.close()


def _json(content: dict[str, Any]) -> bytes:
    return json.dumps(content).encode()
