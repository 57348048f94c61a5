"""A view made by bubblewrap, for users whom the machine lets run it but not do the same themselves.

It makes the namespaces with a program in them that waits; we join them, and the program is not needed any more. So all
that follows is as with namespaces of our own. A bwrap that is setuid root makes namespaces that we cannot join: then it is
of no use to us.
"""

import os
from collections.abc import Sequence
from contextlib import suppress

from pykubelet.runtime.process.shim import view

_PLACES = ("/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap")
# Tells its number, which is the same for everybody, and waits to be told to end.
_HOLDER = ("/bin/sh", "-c", "echo $$; read line")


def arguments(steps: Sequence[view.Step]) -> list[str]:
    """The steps in the words of bwrap, whose root is in memory from the start. It cannot lock."""
    words: list[str] = []
    for step in steps:
        match step.action:
            case "memory":
                words += ["--tmpfs", step.path] if step.path != "/" else []
            case view.FOLDER:
                words += ["--dir", step.path]
            case view.LINK:
                words += ["--symlink", step.source, step.path]
            case "bind":
                words += ["--ro-bind" if step.read_only else "--dev-bind", step.source, step.path]
    return words


class Holder:
    """A process that waits in new namespaces, for the length of a context; OSError if there is none."""

    def __init__(self, steps: Sequence[view.Step], hostname: str) -> None:
        program = next((place for place in _PLACES if os.access(place, os.X_OK)), "")
        if not program:
            raise FileNotFoundError(2, "bubblewrap is not installed")
        naming = ["--unshare-uts", "--hostname", hostname] if hostname else []
        self._words = [program, "--unshare-user", *naming, *arguments(steps), "--", *_HOLDER]
        self._child = 0
        self._end = -1

    def __enter__(self) -> int:
        """Its number."""
        stdin, self._end = os.pipe()
        answer, stdout = os.pipe()
        self._child = os.fork()
        if self._child == 0:
            with suppress(OSError):
                os.dup2(stdin, 0)
                os.dup2(stdout, 1)
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
                os.execve(self._words[0], self._words, {})  # noqa: S606  a program of the system, not of a user
            os._exit(127)
        os.close(stdin)
        os.close(stdout)
        told = os.read(answer, 32)
        os.close(answer)
        if not told:
            self.__exit__()
            raise PermissionError(1, "bubblewrap cannot make namespaces")
        return int(told)

    def __exit__(self, *_: object) -> None:
        os.close(self._end)
        os.waitpid(self._child, 0)
