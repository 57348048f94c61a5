"""The last steps of a process before it becomes a program of the container: who, where, with what.

Runs in a process forked from the supervisor and ends in exec. What goes wrong is written to a pipe that exec closes:
nothing written means that the program runs.
"""

import fcntl
import os
import resource
import signal
import termios
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Never

from pykubelet.runtime.process.shim import kernel, namespace, view
from pykubelet.runtime.process.shim.ways import NONE

_UMASK = 0o022
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class CannotStart(Exception):
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
    """Become a program of the container; `beside` is its first process, 0 to be that."""
    try:
        _die_with(supervisor)
        _take_files(files, is_terminal=is_terminal)
        _reset_signals()
        _join_groups(config)
        _set_oom_score(config["oom_score_adj"])
        _enter_namespaces(config, beside)
        _become_user(config)
        # Once more, for a change of user forgets it.
        _die_with(supervisor)
        os.umask(_UMASK)
        _change_directory(config["cwd"])
        _execute(argv, dict(config["environment"]))
    except (CannotStart, view.ImpossibleView) as error:
        text = str(error)
    except OSError as error:
        text = f"{error.filename}: {_words(error)}" if error.filename else _words(error)
    except ValueError as error:
        # A NUL in an argument or a variable.
        text = str(error)
    os.write(failures, text.encode(errors="replace")[:4096])
    os._exit(1)


def _die_with(supervisor: int) -> None:
    """Nothing of a container runs without its supervisor, which may be gone already."""
    kernel.die_with_parent(signal.SIGKILL)
    if os.getppid() != supervisor:
        os._exit(1)


def _take_files(files: Sequence[int], *, is_terminal: bool) -> None:
    # A session of its own: a group to signal, and no terminal but the one it is given.
    os.setsid()
    for number, file in enumerate(files):
        os.dup2(file, number)
    if is_terminal:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _reset_signals() -> None:
    signal.set_wakeup_fd(-1)
    # All of them: one that is ignored stays so in the next program, and Python itself ignores some.
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
    """Say how early the kernel may end this process for want of memory; to lower it takes a right that few have."""
    with suppress(PermissionError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write(str(score))


def _enter_namespaces(config: Mapping[str, Any], beside: int) -> None:
    way = config["way"]
    if way == NONE:
        return
    if beside:
        namespace.join(way, beside, with_host_name=bool(config["hostname"]))
        return
    mounts = [view.Mount(**mount) for mount in config["mounts"]]
    # Relative: the supervisor works in the folder of its container.
    root, work = os.path.realpath("root"), os.path.realpath("work")
    os.makedirs(root, 0o700, exist_ok=True)
    os.makedirs(work, 0o755, exist_ok=True)
    cwd, read_only = config["cwd"], config["read_only_root"]
    namespace.make(
        way,
        mounts,
        spare=view.Mount(work, cwd, read_only),
        root=root,
        hostname=config["hostname"],
        read_only=read_only,
    )
    # Only in a volume it can be missing still; and a file is told when it is gone to.
    with suppress(FileExistsError):
        os.makedirs(cwd, 0o755)


def _become_user(config: Mapping[str, Any]) -> None:
    user = config["user"]
    for number in config["dropped_capabilities"]:
        kernel.give_up_capability(number)
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
        raise CannotStart(f'chdir to cwd ("{path}"): {_words(error)}') from error


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
            os.execve(candidate, argv, environment)  # noqa: S606  this is what it is all about
        except (FileNotFoundError, NotADirectoryError) as error:
            if "/" in name:
                raise CannotStart(f'exec: "{name}": stat {name}: no such file or directory') from error
        except PermissionError:
            denied = True
        except OSError as error:
            raise CannotStart(f'exec: "{name}": {_words(error)}') from error
    told = "permission denied" if denied else "executable file not found in $PATH"
    raise CannotStart(f'exec: "{name}": {told}')


def _words(error: OSError) -> str:
    """What went wrong, as runtimes written in Go say it."""
    words = str(error.strerror)
    return words[:1].lower() + words[1:]
