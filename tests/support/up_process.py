"""A real `pykubelet up` for tests, on a free loopback port."""

from pathlib import Path

from pykubelet_process import PykubeletProcess


class UpProcess(PykubeletProcess):
    """One cluster on one data folder; started again it has the same port."""

    def __init__(self, folder: Path, *options: str, runtime: str = "process") -> None:
        super().__init__()
        self.data, self._runtime, self._options = folder / "data", runtime, options
        self.port = 0
        self.url = ""

    @property
    def kubeconfig(self) -> Path:
        return self.data / "admin.kubeconfig"

    def command(self) -> list[str]:
        data = ["--data-dir", str(self.data), "--port", str(self.port), "--page-port", "0"]
        return ["up", *data, "--runtime", self._runtime, "--node-name", "node-1", *self._options]

    def start(self) -> "UpProcess":
        """Start it and wait until it says that it is ready."""
        self.url = self.start_up()
        self.port = int(self.url.rpartition(":")[2])
        return self
