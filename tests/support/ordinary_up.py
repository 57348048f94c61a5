"""`pykubelet up` of an ordinary user, whose pods have networks that a holder keeps, in a network namespace of the test."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import ordinary_user
from kubectl import Kubectl
from own_network import own_network
from process_lab import all_processes
from pykubelet_process import UpProcess

UID = 12345
PATIENCE = "--timeout=60s"


class OrdinaryUp(UpProcess):
    """A cluster on a folder of the ordinary user."""

    def __init__(self, folder: Path, *options: str, around: Sequence[str] = ()) -> None:
        """`around` is a command that root runs and that becomes the program."""
        super().__init__(folder, "--service-proxy", *options)
        self._around = around
        self.kubectl = Kubectl(self.kubeconfig, "default", folder / "cache")

    def wrapper(self) -> list[str]:
        return [*self._around, sys.executable, ordinary_user.__file__, str(UID)]

    @property
    def state(self) -> Path:
        """The state folder of the process runtime."""
        return self.data / "node" / "process"

    @property
    def holders(self) -> list[int]:
        """The processes that keep the networks of this cluster's pods."""
        folder = str(self.state / "holder").encode()
        found = []
        for pid in all_processes():
            with suppress(OSError):
                if folder in Path(f"/proc/{pid}/cmdline").read_bytes():
                    found.append(pid)
        return found

    def apply(self, *documents: dict[str, Any]) -> None:
        items = {"apiVersion": "v1", "kind": "List", "items": documents}
        self.kubectl("apply", "-f", "-", text=json.dumps(items))

    def addresses(self, app: str) -> dict[str, str]:
        """The names of an app's pods and their addresses."""
        pods = self.kubectl.json("get", "pods", "-l", f"app={app}")["items"]
        return {pod["metadata"]["name"]: pod["status"]["podIP"] for pod in pods}

    def until_log(self, pod: str, text: str, seconds: float = 20) -> str:
        """Wait until the log of a pod contains a text; returns the log."""
        pause, log = threading.Event(), ""
        for _ in range(int(seconds / 0.1)):
            command = self.kubectl.command("logs", pod)
            log = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60).stdout
            if text in log:
                return log
            pause.wait(0.1)
        raise AssertionError(f"{pod} did not write {text!r}: {log}")


@contextmanager
def ordinary_up(
    *options: str, script: str = "", network: AbstractContextManager[None] | None = None
) -> Iterator[OrdinaryUp]:
    """A running cluster; all that the ordinary user runs in its folder is ended afterwards.

    `script` is what root does first, in a mount namespace and in the folder; it ends with a command that becomes another one.
    """
    with network or own_network(), TemporaryDirectory() as name:
        folder = Path(name)
        os.chown(folder, UID, UID)
        around = ("unshare", "--mount", "sh", "-ec", f'cd {folder}; {script} "$@"', "sh") if script else ()
        made = OrdinaryUp(folder, *options, around=around)
        try:
            made.start()
            yield made
        finally:
            if made.is_running:
                made.kill()
            end_processes(folder)


def end_processes(folder: Path, uid: int = UID) -> None:
    """Kill the ordinary user's processes that work in a folder or name it."""
    for pid in all_processes():
        with suppress(OSError):
            process = Path(f"/proc/{pid}")
            if f"\nUid:\t{uid}\t" not in (process / "status").read_text():
                continue
            is_ours = (process / "cwd").readlink().is_relative_to(folder)
            if is_ours or str(folder).encode() in (process / "cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)
