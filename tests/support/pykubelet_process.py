"""Real `pykubelet` processes: `apiserver`, `node`, `up` and `controllers`, started, stopped or killed by a test."""

import json
import os
import signal
import ssl
import subprocess
import sys
import threading
from pathlib import Path

READY_SECONDS = 20.0
ADMIN_TOKEN = "admin-token"


def words(line: str) -> str:
    """The message of a log line in text or JSON format."""
    return str(json.loads(line)["message"]) if line.startswith("{") else line


class PykubeletProcess:
    """One command, which may be killed and started again; its standard error is kept."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: threading.Thread | None = None
        self.lines: list[str] = []

    def command(self) -> list[str]:
        """The arguments of `pykubelet` for the next start."""
        raise NotImplementedError

    def wrapper(self) -> list[str]:
        """A command that becomes the program, such as a tracer."""
        return []

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it has been started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def start_up(self) -> str:
        """Start it and wait until it reports that it is ready; returns the rest of that line."""
        self.lines = []
        self.launch().wait(READY_SECONDS)
        said = next((words(line) for line in self.lines if words(line).startswith("ready ")), "")
        if not said:
            raise AssertionError(f"{self.command()[0]} did not start: {self._last_words()}")
        return said.removeprefix("ready ").strip()

    def refusal(self) -> str:
        """Start it, expecting that it ends with exit code 1 and one line, an error; returns the error."""
        self.lines = []
        self.launch().wait(READY_SECONDS)
        assert self._process is not None
        assert self._reader is not None
        try:
            code = self._process.wait(5)
        except subprocess.TimeoutExpired:
            self.kill()
            code = self._process.wait()
        self._reader.join()
        assert code == 1, self.lines
        errors = [line for line in map(words, self.lines) if line.startswith("error: ")]
        assert len(errors) == 1, self.lines
        assert not [line for line in self.lines if "Traceback" in line]
        return errors[0].removeprefix("error: ").strip()

    def launch(self) -> threading.Event:
        """Start it; the event is set when it is ready, or has ended."""
        command = [*self.wrapper(), sys.executable, "-X", "faulthandler", "-m", "pykubelet", *self.command()]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, env={**os.environ, "PYTHONWARNINGS": "error"})
        ready = threading.Event()
        self._reader = threading.Thread(target=self._read, args=(self._process, ready), daemon=True)
        self._reader.start()
        return ready

    def _last_words(self) -> str:
        """How a process that is not ready ended, and its output; with the stack of each thread if it hangs."""
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
        """Whether it prints a line with this text in time."""
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
        """Send it a signal to stop and return the exit code."""
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(how)
        return self._process.wait(timeout=20)


class ServerProcess(PykubeletProcess):
    """One API server on one data folder; after a restart it has the same port."""

    def __init__(self, folder: Path, *options: str, tokens: str = "") -> None:
        super().__init__()
        self.folder = folder
        self.data = folder / "data"
        self.token_file = folder / "tokens.csv"
        self.token_file.write_text(f'{ADMIN_TOKEN},admin,admin-uid,"system:masters"\n{tokens}')
        self._options = options
        self.port = 0
        self.url = ""

    @property
    def kubeconfig(self) -> Path:
        return self.data / "admin.kubeconfig"

    def command(self) -> list[str]:
        data, tokens = str(self.data), str(self.token_file)
        return ["apiserver", "--data-dir", data, "--port", str(self.port), "--token-file", tokens, *self._options]

    def start(self) -> "ServerProcess":
        """Start it and wait until it is ready."""
        self.url = self.start_up()
        self.port = int(self.url.rpartition(":")[2])
        return self

    def tls(self) -> ssl.SSLContext:
        """Trusts exactly this server."""
        return ssl.create_default_context(cafile=str(self.data / "pki" / "ca.crt"))


class NodeProcess(PykubeletProcess):
    """One node on one root folder."""

    def __init__(self, folder: Path, *options: str, name: str = "node-1") -> None:
        super().__init__()
        self.folder, self.name, self._options = folder, name, options

    def command(self) -> list[str]:
        # The machine that runs the tests may have a full disk, which must not evict pods.
        options = ["--root-dir", str(self.folder / "node"), "--port", "0", "--eviction-hard", "memory.available<1Mi"]
        name = ["--node-name", self.name] if self.name else []
        # The machine's own network is changed by nothing but a test that has one of its own, which says so after this.
        return ["node", *name, *options, "--pod-network", "host", *self._options]

    def start(self) -> "NodeProcess":
        """Start it and wait until it is ready."""
        assert self.start_up() == f"node {self.name}"
        return self


class UpProcess(PykubeletProcess):
    """One cluster on one data folder; after a restart it has the same port."""

    def __init__(
        self, folder: Path, *options: str, runtime: str = "process", name: str = "node-1", uid: int = 0
    ) -> None:
        super().__init__()
        self.data, self._runtime, self.options, self._uid = folder / "data", runtime, options, uid
        self.name = name
        """The name of its node; empty for the default."""
        self.port = 0
        self.url = ""

    def wrapper(self) -> list[str]:
        """Switches to the ordinary user `uid`, if one is given."""
        program = Path(__file__).with_name("ordinary_user.py")
        return [sys.executable, str(program), str(self._uid)] if self._uid else []

    @property
    def kubeconfig(self) -> Path:
        return self.data / "admin.kubeconfig"

    def command(self) -> list[str]:
        data = ["--data-dir", str(self.data), "--port", str(self.port), "--page-port", "0"]
        name = ["--node-name", self.name] if self.name else []
        # The machine's own network is changed by nothing but a test that has one of its own, which says so after this.
        shared = ["--no-service-proxy", "--pod-network", "host"]
        return ["up", *data, *shared, "--runtime", self._runtime, *name, *self.options]

    def start(self) -> "UpProcess":
        """Start it and wait until it is ready."""
        self.url = self.start_up()
        self.port = int(self.url.rpartition(":")[2])
        return self


class ControllersProcess(PykubeletProcess):
    """The controllers as a program, with one kubeconfig."""

    def __init__(self, kubeconfig: Path, *options: str) -> None:
        super().__init__()
        self._kubeconfig, self._options = kubeconfig, options

    def command(self) -> list[str]:
        return ["controllers", "--kubeconfig", str(self._kubeconfig), *self._options]

    def start(self) -> "ControllersProcess":
        """Start it and wait until it is ready."""
        assert self.start_up() == "controllers"
        return self
