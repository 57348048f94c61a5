"""The frame of a program that serves: its limits, and its end when it is told to stop.

Folders that hold keys and secrets: refused if somebody else has a hand in them.

A folder that was there before may belong to another user, or be open to everybody, as one in /tmp may be: whoever can
rename in it can put keys of his own in the place of ours.

Reads the kubeconfig that a program was given.
"""

import asyncio
import gc
import os
import resource
import signal
import stat
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from pykubelet.aio.clock import Clock, SystemClock
from pykubelet.app.settings import CannotStart
from pykubelet.client.clientcmd import load_kubeconfig
from pykubelet.client.credentials import RestConfig
from pykubelet.client.kubeconfig import KubeconfigError

KUBECONFIG = "admin.kubeconfig"
"""What an API server calls the one it writes, in its folder."""
LOCAL = f".pykubelet/{KUBECONFIG}"
"""Where `pykubelet up` leaves one, in the folder it was started in."""
_ROOT = 0
THREADS = 512
"""So many blocking calls at once, each of which may hang on a dead file system; they are made as they are needed."""
READY_THREADS = 16
"""So many of them are there from the beginning."""
PATIENCE_SECONDS = 10.0
"""How long a program that was told to end may take."""
# Allocations that are not freed at once, a few thousand in each request or sync under way, before the first look.
_GARBAGE_THRESHOLDS = (20_000, 20, 50)
Say = Callable[[str], None]
"""Tells a person something, in a line."""
Main = Callable[[Clock, asyncio.Event], Awaitable[None]]
"""What a program does until the event is set."""


def read_rest_config(kubeconfig: Path, clock: Clock) -> RestConfig:
    """How to reach the API server; CannotStart if the file does not say."""
    return _access((str(kubeconfig),), clock)


def find_rest_config(kubeconfig: Path | None, clock: Clock) -> RestConfig:
    """The same by the file that was named, else by those of KUBECONFIG, else by what `pykubelet up` left here."""
    if kubeconfig is not None:
        return read_rest_config(kubeconfig, clock)
    named = [path for path in os.environ.get("KUBECONFIG", "").split(os.pathsep) if path]
    return _access(named or (LOCAL,), clock)


def _access(paths: Sequence[str], clock: Clock) -> RestConfig:
    try:
        return load_kubeconfig(paths, environment=os.environ, clock=clock)
    except KubeconfigError as error:
        raise CannotStart(str(error)) from error


def make_private_folder(path: Path, mode: int) -> None:
    """Make it, unless it is there; CannotStart if it cannot be made or is not ours alone."""
    try:
        path.mkdir(mode=mode, parents=True, exist_ok=True)
        status = path.stat()
    except OSError as error:
        raise CannotStart(f"{error.filename or path}: {error.strerror}") from error
    if problem := folder_problem(status.st_mode, status.st_uid, me=os.geteuid()):
        raise CannotStart(f"{path}: {problem}")


def folder_problem(mode: int, owner: int, *, me: int) -> str:
    """Why a folder cannot be trusted; empty if it can."""
    if owner not in {me, _ROOT}:
        return f"it belongs to another user ({owner}): choose another folder, or chown it"
    if mode & stat.S_IWOTH:
        return "everybody may write to it: take that right from others (chmod o-w)"
    return ""


def run(main: Main) -> None:
    """Run it until SIGINT or SIGTERM."""
    asyncio.run(_until_told(main, SystemClock()))


async def _until_told(main: Main, clock: Clock) -> None:
    raise_file_limit()
    forbid_core_dumps()
    widen_threads()
    await main(clock, _told_to_stop())
    exit_after()


def _told_to_stop() -> asyncio.Event:
    """Set by SIGINT or SIGTERM."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


def widen_threads() -> None:
    """Have blocking calls that hang, as on a dead file system, not hold up all others."""
    threads = ThreadPoolExecutor(THREADS, thread_name_prefix="blocking")
    # Before there is work: the loop stands still while a thread starts, and on a busy machine that takes its time.
    meeting = threading.Barrier(READY_THREADS)
    for _ in range(READY_THREADS):
        threads.submit(meeting.wait)
    asyncio.get_running_loop().set_default_executor(threads)


def tune_garbage_collection() -> None:
    """Leave alone what stays for good, and look for cycles less often: documents are trees and go by themselves.

    For a program that has started.
    """
    gc.freeze()
    gc.set_threshold(*_GARBAGE_THRESHOLDS)
    gc.enable()


def raise_file_limit() -> None:
    """Have as many files and connections open as the machine allows: the usual limit is for programs that use select."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Where it says that there is no limit, the kernel has one all the same and refuses; then all stays as it is.
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def forbid_core_dumps() -> None:
    """Have no crash write this process' memory to disk: it holds keys, tokens and secrets of pods."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def exit_after(seconds: float = PATIENCE_SECONDS) -> None:
    """End the program soon even if a thread hangs, which nobody can stop; what containers do is not its business."""
    timer = threading.Timer(seconds, os._exit, (0,))
    timer.daemon = True
    timer.start()
