"""Runs kubectl against one server and one namespace."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from requirements import missing


def require_kubectl() -> str:
    """The path of kubectl; without it tests fail in CI and are skipped elsewhere."""
    found = shutil.which("kubectl")
    if found is None:
        missing("kubectl is not installed")
    return found


class Kubectl:
    """Runs kubectl with a kubeconfig in a namespace, unless the arguments name another one."""

    def __init__(self, kubeconfig: Path, namespace: str, cache: Path) -> None:
        self._command = [require_kubectl(), f"--kubeconfig={kubeconfig}", f"--cache-dir={cache}"]
        self.namespace = namespace

    def command(self, *arguments: str) -> list[str]:
        """The command line that runs kubectl."""
        return [*self._command, f"--namespace={self.namespace}", *arguments]

    def run(self, *arguments: str, text: str = "", code: int = 0) -> subprocess.CompletedProcess[str]:
        """Run it; fails unless it ends with `code`."""
        command = self.command(*arguments)
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def __call__(self, *arguments: str, text: str = "") -> str:
        """Run it and return its standard output."""
        return self.run(*arguments, text=text).stdout

    def json(self, *arguments: str, text: str = "") -> Any:
        """Run it with `-o json` and return the decoded output."""
        return json.loads(self(*arguments, "-o", "json", text=text))

    def fails(self, *arguments: str, text: str = "") -> str:
        """Run it and return its standard error; it must exit with code 1."""
        return self.run(*arguments, text=text, code=1).stderr

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        """Start a long-running command, such as a watch."""
        return subprocess.Popen(self.command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
