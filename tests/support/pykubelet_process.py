"""A real `pykubelet` command for tests: started, waited for, stopped or killed on request."""

import json
import os
import signal
import subprocess
import sys
import threading

READY_SECONDS = 20.0


def words(line: str) -> str:
    """What a line says, whether it is for people or for machines."""
    return str(json.loads(line)["message"]) if line.startswith("{") else line


class PykubeletProcess:
    """One command, which may be killed and started again; what it says on standard error is kept."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: threading.Thread | None = None
        self.lines: list[str] = []

    def command(self) -> list[str]:
        """What comes after `pykubelet`, at the next start."""
        raise NotImplementedError

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it has been started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def start_up(self) -> str:
        """Start it and wait until it says that it is ready; what it adds to that word."""
        self.lines = []
        self.launch().wait(READY_SECONDS)
        said = next((words(line) for line in self.lines if words(line).startswith("ready ")), "")
        if not said:
            raise AssertionError(f"{self.command()[0]} did not start: {self._last_words()}")
        return said.removeprefix("ready ").strip()

    def launch(self) -> threading.Event:
        """Start it; the event is set when it is ready, or has ended."""
        command = [sys.executable, "-X", "faulthandler", "-m", "pykubelet", *self.command()]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, env={**os.environ, "PYTHONWARNINGS": "error"})
        ready = threading.Event()
        self._reader = threading.Thread(target=self._read, args=(self._process, ready), daemon=True)
        self._reader.start()
        return ready

    def _last_words(self) -> str:
        """How a process that is not ready ended, or where each of its threads hangs, after all that it said."""
        assert self._process is not None
        assert self._reader is not None
        how = "hung" if self._process.poll() is None else "ended"
        self._process.send_signal(signal.SIGABRT)
        code = self._process.wait()
        self._reader.join()
        return f"{how}, exit code {code}\n" + "".join(self.lines)

    def _read(self, process: "subprocess.Popen[bytes]", ready: threading.Event) -> None:
        assert process.stderr is not None
        with process.stderr as lines:
            for raw in lines:
                self.lines.append(raw.decode(errors="replace"))
                if words(self.lines[-1]).startswith("ready "):
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
