"""A real `pykubelet apiserver` for tests: started on a free loopback port, stopped or killed on request."""

import os
import signal
import ssl
import subprocess
import sys
import threading
from pathlib import Path

ADMIN_TOKEN = "admin-token"
READY_SECONDS = 20.0


class ServerProcess:
    """One server on one data folder; may be killed and started again."""

    def __init__(self, folder: Path, *options: str, tokens: str = "") -> None:
        self.folder = folder
        self.data = folder / "data"
        self.token_file = folder / "tokens.csv"
        self.token_file.write_text(f'{ADMIN_TOKEN},admin,admin-uid,"system:masters"\n{tokens}')
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0
        self.url = ""
        self.lines: list[str] = []

    @property
    def kubeconfig(self) -> Path:
        return self.data / "admin.kubeconfig"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> "ServerProcess":
        """Start it and wait until it says that it is ready; again on the same port."""
        command = [sys.executable, "-m", "pykubelet", "apiserver", "--data-dir", str(self.data)]
        command += ["--port", str(self.port), "--token-file", str(self.token_file), *self._options]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, env={**os.environ, "PYTHONWARNINGS": "error"})
        ready = threading.Event()
        self.lines = []
        threading.Thread(target=self._read, args=(self._process, ready), daemon=True).start()
        if not ready.wait(READY_SECONDS) or not self.url:
            self.kill()
            raise AssertionError("the server did not start: " + "".join(self.lines))
        return self

    def _read(self, process: "subprocess.Popen[bytes]", ready: threading.Event) -> None:
        assert process.stderr is not None
        with process.stderr as lines:
            for raw in lines:
                line = raw.decode(errors="replace")
                self.lines.append(line)
                if line.startswith("ready "):
                    self.url = line.split()[1]
                    self.port = int(self.url.rpartition(":")[2])
                    ready.set()
        ready.set()

    def kill(self) -> None:
        """SIGKILL, as a crash would."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        return self._process.wait(timeout=20)

    def tls(self) -> ssl.SSLContext:
        """Trusts exactly this server."""
        return ssl.create_default_context(cafile=str(self.data / "pki" / "ca.crt"))
