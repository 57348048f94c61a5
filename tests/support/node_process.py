"""A real `pykubelet node` for tests."""

from pathlib import Path

from pykubelet_process import PykubeletProcess


class NodeProcess(PykubeletProcess):
    """One node on one root folder."""

    def __init__(self, folder: Path, *options: str, name: str = "node-1") -> None:
        super().__init__()
        self.folder, self.name, self._options = folder, name, options

    def command(self) -> list[str]:
        # A machine that tests may have a full disk, which is not what is tested.
        options = ["--root-dir", str(self.folder / "node"), "--port", "0", "--eviction-hard", "memory.available<1Mi"]
        return ["node", "--node-name", self.name, *options, *self._options]

    def start(self) -> "NodeProcess":
        """Start it and wait until it says that it is ready."""
        assert self.start_up() == f"node {self.name}"
        return self
