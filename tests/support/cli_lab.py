"""Runs `pykubelet` commands and the same kubectl commands against one server, for comparison."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path

from kubectl import Kubectl
from terminal import Terminal

COMMAND = (sys.executable, "-m", "pykubelet")
_AGE = re.compile(r"(?<![\w.:/-])(?:(?:\d+[dhms])+|AGE|DURATION|LAST SEEN)(?![\w.:/-]) *")


class Pykubelet:
    """Runs the everyday commands with a kubeconfig."""

    def __init__(self, kubeconfig: Path) -> None:
        self._environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "PYTHONWARNINGS": "error"}

    def run(self, *arguments: str, text: str = "", code: int = 0) -> "subprocess.CompletedProcess[str]":
        """Run it; fails unless it ends with `code`."""
        done = subprocess.run(
            [*COMMAND, *arguments],
            input=text,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=self._environment,
        )
        assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def __call__(self, *arguments: str, text: str = "") -> str:
        """Run it and return its standard output."""
        return self.run(*arguments, text=text).stdout

    def fails(self, *arguments: str, text: str = "", code: int = 1) -> str:
        """Run it and return its standard error; it must exit with `code`."""
        return self.run(*arguments, text=text, code=code).stderr

    @contextmanager
    def start(self, *arguments: str) -> "Iterator[subprocess.Popen[str]]":
        """Start a long-running command, such as a watch; it is terminated when the context ends."""
        pipe = subprocess.PIPE
        with subprocess.Popen(
            [*COMMAND, *arguments], stdout=pipe, stderr=pipe, text=True, env=self._environment
        ) as process:
            try:
                yield process
            finally:
                process.terminate()

    @contextmanager
    def terminal(self, *arguments: str) -> Iterator[Terminal]:
        """Run it in a pseudo-terminal."""
        made = Terminal(*COMMAND, *arguments, environment=self._environment)
        try:
            yield made
        finally:
            made.close()


@dataclass(frozen=True)
class Sides:
    """Both programs, connected to one server."""

    pykubelet: Pykubelet
    kubectl: Kubectl

    def difference(self, *words: str, code: int = 0) -> str:
        """How their outputs differ for the same arguments; both must exit with `code`.

        Runs them up to three times if they differ: a node may have updated the objects in between.
        """
        found = ""
        for _ in range(3):
            theirs, ours = (
                [*timeless(as_newer_kubectl(done.stdout)).splitlines(), *done.stderr.splitlines()]
                for done in (self.kubectl.run(*words, code=code), self.pykubelet.run(*words, code=code))
            )
            found = "\n".join(unified_diff(theirs, ours, "kubectl", "pykubelet", lineterm=""))
            if not found:
                break
        return found


def as_newer_kubectl(text: str) -> str:
    """The text as kubectl 1.33 and later write it: whether a projected config map is optional."""
    return re.sub(r"ConfigMapOptional: ( *)<nil>", r"Optional:          \1false", text)


def timeless(text: str) -> str:
    """The text with every age replaced by AGE, and without the alignment that depends on the length of ages."""
    lines = [_AGE.sub("AGE ", line).rstrip() for line in text.splitlines()]
    events = next((number for number, line in enumerate(lines) if line == "Events:"), len(lines))
    return "\n".join([*lines[:events], *(" ".join(line.split()) for line in lines[events:])])
