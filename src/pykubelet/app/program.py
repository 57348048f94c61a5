"""What every program needs: process limits, signals, private folders, and the kubeconfig it was given.

A private folder that existed before may belong to another user or be writable by others, as in /tmp: a user who can
rename files in it can replace our keys. Such a folder is refused.
"""

import asyncio
import gc
import os
import resource
import signal
import stat
import threading
from asyncio import sslproto
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from pykubelet.aio.clock import Clock, SystemClock
from pykubelet.aio.log import get_logger
from pykubelet.app.settings import CannotStart
from pykubelet.client.clientcmd import load_kubeconfig
from pykubelet.client.kubeconfig import KubeconfigError
from pykubelet.client.transport import CredentialError, RestConfig, pem_text

log = get_logger(__name__)

KUBECONFIG = "admin.kubeconfig"
"""The file name of the kubeconfig that an API server writes into its folder."""
LOCAL = f".pykubelet/{KUBECONFIG}"
"""The kubeconfig that `pykubelet up` writes, relative to the working folder."""
_ROOT = 0
THREADS = 512
"""The maximum of concurrent blocking calls, each of which may hang on a dead file system."""
READY_THREADS = 16
"""The number of threads that are started at once."""
STOP_SECONDS = 10.0
"""How long a program may take to stop."""
# asyncio's own 256 KiB would make a thousand idle connections a quarter of a gigabyte.
_TLS_BUFFER_BYTES = 32 * 1024
# Net allocations before a collection of the youngest generation; a request or sync makes a few thousand.
_GARBAGE_THRESHOLDS = (20_000, 20, 50)
Say = Callable[[str], None]
"""Prints a line for the user."""
Main = Callable[[Clock, asyncio.Event], Awaitable[None]]
"""The main coroutine of a program; runs until the event is set."""


def read_rest_config(kubeconfig: Path, clock: Clock) -> RestConfig:
    """The client configuration in a kubeconfig; CannotStart if it is unusable."""
    return _load((str(kubeconfig),), clock)


def find_rest_config(kubeconfig: Path | None, clock: Clock) -> RestConfig:
    """The configuration in the given file, else in KUBECONFIG, else in the file that `pykubelet up` wrote here."""
    if kubeconfig is not None:
        return read_rest_config(kubeconfig, clock)
    named = [path for path in os.environ.get("KUBECONFIG", "").split(os.pathsep) if path]
    return _load(named or (LOCAL,), clock)


def _load(paths: Sequence[str], clock: Clock) -> RestConfig:
    try:
        return load_kubeconfig(paths, environment=os.environ, clock=clock)
    except KubeconfigError as error:
        raise CannotStart(str(error)) from error


def root_ca_pem(access: RestConfig) -> str:
    """The authority with which clients verify the API server, as PEM; empty if the kubeconfig names none."""
    found = access.trust.ca
    try:
        return "" if found is None else pem_text(found).decode()
    except (CredentialError, UnicodeDecodeError) as error:
        raise CannotStart(str(error)) from error


def make_private_folder(path: Path, mode: int) -> None:
    """Create a folder unless it exists; CannotStart if it cannot be created or others may write to it."""
    try:
        path.mkdir(mode=mode, parents=True, exist_ok=True)
        status = path.stat()
    except OSError as error:
        raise CannotStart(f"{error.filename or path}: {error.strerror}") from error
    if problem := folder_problem(status.st_mode, status.st_uid, me=os.geteuid()):
        raise CannotStart(f"{path}: {problem}")


def folder_problem(mode: int, owner: int, *, me: int) -> str:
    """The reason why a folder is not private; empty if it is."""
    if owner not in {me, _ROOT}:
        return f"it belongs to another user ({owner}): choose another folder, or chown it"
    if mode & stat.S_IWOTH:
        return "everybody may write to it: take that right from others (chmod o-w)"
    return ""


def run(main: Main) -> None:
    """Run a program until SIGINT or SIGTERM."""
    asyncio.run(_until_stopped(main, SystemClock()))


async def _until_stopped(main: Main, clock: Clock) -> None:
    raise_file_limit()
    shrink_tls_buffers()
    forbid_core_dumps()
    widen_threads()
    await main(clock, _stop_event())
    log.info("stopped")
    exit_after()


def _stop_event() -> asyncio.Event:
    """An event that SIGINT and SIGTERM set."""
    stop = asyncio.Event()

    def begin(number: signal.Signals) -> None:
        log.info("stopping", signal=number.name)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, begin, number)
    return stop


def widen_threads() -> None:
    """Give blocking calls enough threads, so that hung ones do not delay the others."""
    threads = ThreadPoolExecutor(THREADS, thread_name_prefix="blocking")
    # Started before there is work: starting a thread blocks the loop, on a busy machine for long.
    meeting = threading.Barrier(READY_THREADS)
    for _ in range(READY_THREADS):
        threads.submit(meeting.wait)
    asyncio.get_running_loop().set_default_executor(threads)


def tune_garbage_collection() -> None:
    """Exclude present objects from garbage collection and collect less often: reference counting frees documents."""
    gc.freeze()
    gc.set_threshold(*_GARBAGE_THRESHOLDS)
    gc.enable()


def raise_file_limit() -> None:
    """Raise the limit of open files to the machine's maximum; the default suits programs that use select."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    # An unlimited hard limit exceeds the kernel's own maximum; the limit then stays as it is.
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def shrink_tls_buffers() -> None:
    """Have asyncio read two TLS records at a time: it keeps that much memory for each connection, idle or not."""
    sslproto.SSLProtocol.max_size = _TLS_BUFFER_BYTES


def forbid_core_dumps() -> None:
    """Prevent core dumps: the memory holds keys, tokens and secrets."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def exit_after(seconds: float = STOP_SECONDS) -> None:
    """End the process after a delay even if a thread hangs; containers are not affected."""
    timer = threading.Timer(seconds, os._exit, (0,))
    timer.daemon = True
    timer.start()
