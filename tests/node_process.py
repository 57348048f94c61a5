"""A real `pykubelet node` for tests: started, waited for, stopped or killed on request."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

READY_SECONDS = 20.0


class NodeProcess:
    """One node on one root folder; may be killed and started again."""

    def __init__(self, folder: Path, *options: str, name: str = "node-1") -> None:
        self.folder, self.name, self._options = folder, name, options
        self._process: subprocess.Popen[bytes] | None = None
        self.lines: list[str] = []

    def start(self) -> "NodeProcess":
        """Start it and wait until it says that it is ready."""
        if not self.launch().wait(READY_SECONDS) or f"ready node {self.name}\n" not in self.lines:
            self.kill()
            raise AssertionError("the node did not start: " + "".join(self.lines))
        return self

    def launch(self) -> threading.Event:
        """Start it; the event is set when it is ready, or has ended."""
        command = [sys.executable, "-m", "pykubelet", "node", "--node-name", self.name]
        command += ["--root-dir", str(self.folder / "node"), *self._options]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, env={**os.environ, "PYTHONWARNINGS": "error"})
        ready = threading.Event()
        threading.Thread(target=self._read, args=(self._process, ready), daemon=True).start()
        return ready

    def _read(self, process: "subprocess.Popen[bytes]", ready: threading.Event) -> None:
        assert process.stderr is not None
        with process.stderr as lines:
            for raw in lines:
                self.lines.append(raw.decode(errors="replace"))
                if self.lines[-1].startswith("ready "):
                    ready.set()
        ready.set()

    def has_said(self, text: str, *, within_seconds: float = 10.0) -> bool:
        """Whether a line with this text comes in time."""
        pause = threading.Event()
        for _ in range(int(within_seconds / 0.05)):
            if any(text in line for line in self.lines):
                return True
            pause.wait(0.05)
        return False

    def kill(self) -> None:
        """SIGKILL, as a crash would."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Tell it to stop; the exit code."""
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(how)
        return self._process.wait(timeout=20)
